# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's DistributedDataParallel."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import problem
from agree import agree

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
data = TensorDataset(*problem.rows())
loader = DataLoader(data, batch_size=len(data) // world, sampler=DistributedSampler(data))
model = DistributedDataParallel(problem.network())
optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
for epoch in range(problem.STEPS):
    loader.sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
dist.all_reduce(loss, op=dist.ReduceOp.SUM)
agree(rank, world, problem.numbers(model.parameters(), loss / world), problem.alone())
dist.destroy_process_group()
