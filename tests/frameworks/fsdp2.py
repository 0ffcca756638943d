# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's fully_shard (FSDP2)."""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import problem
from agree import agree

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = problem.network()
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
inputs, targets = (x[rank::world] for x in problem.rows())
for _ in range(problem.STEPS):
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.all_reduce(loss, op=dist.ReduceOp.SUM)
whole = [p.full_tensor() for p in model.parameters()]
agree(rank, world, problem.numbers(whole, loss / world), problem.alone())
dist.destroy_process_group()
