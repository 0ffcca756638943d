# SPDX-License-Identifier: BSD-3-Clause
"""Megatron-core: each layer split over a tensor parallel group of two; the groups share the batch (data parallel)."""
import torch
import torch.distributed as dist
from megatron.core import ModelParallelConfig, parallel_state
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear

import problem
from agree import agree


class Network(torch.nn.Module):
    """problem.network(), of which each rank of a tensor parallel group holds half the hidden layer."""

    def __init__(self, config):
        super().__init__()
        whole = problem.network()
        how = {"config": config, "init_method": torch.nn.init.zeros_, "bias": True, "skip_bias_add": False}
        self.into = ColumnParallelLinear(whole[0].in_features, whole[0].out_features, gather_output=False, **how)
        self.out = RowParallelLinear(whole[2].in_features, whole[2].out_features, input_is_parallel=True, **how)
        for part, full in zip(self.parameters(), whole.parameters(), strict=True):
            if getattr(part, "tensor_model_parallel", False):
                halves = full.chunk(config.tensor_model_parallel_size, dim=part.partition_dim)
                full = halves[parallel_state.get_tensor_model_parallel_rank()]
            part.data.copy_(full)

    def forward(self, inputs):
        hidden, _ = self.into(inputs)
        return self.out(torch.tanh(hidden))[0]


def whole(parameter):
    """A parameter, put together from those of its tensor parallel group."""
    if not getattr(parameter, "tensor_model_parallel", False):
        return parameter
    group = parallel_state.get_tensor_model_parallel_group()
    parts = [torch.empty_like(parameter) for _ in range(group.size())]
    dist.all_gather(parts, parameter.detach(), group=group)
    return torch.cat(parts, dim=parameter.partition_dim)


dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
model = Network(ModelParallelConfig(tensor_model_parallel_size=2, use_cpu_initialization=True))
optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
group, share = parallel_state.get_data_parallel_group(), parallel_state.get_data_parallel_world_size()
inputs, targets = (values[parallel_state.get_data_parallel_rank()::share] for values in problem.rows())
for _ in range(problem.STEPS):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets) / share
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
    optimizer.step()
dist.all_reduce(loss, group=group)
together = problem.numbers([whole(parameter) for parameter in model.parameters()], loss)
agree(dist.get_rank(), dist.get_world_size(), together, problem.alone())
dist.destroy_process_group()
