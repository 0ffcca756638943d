# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's DeviceMesh in two dimensions: data parallel (fully_shard) by tensor parallel. No init_process_group():
init_device_mesh() does that. A world of an odd size is one tensor-parallel group."""
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import problem
from agree import agree

world = int(os.environ["WORLD_SIZE"])
tensor_parallel = 2 if world % 2 == 0 else world
mesh = init_device_mesh("cpu", (world // tensor_parallel, tensor_parallel), mesh_dim_names=("data", "tensor"))
model = parallelize_module(problem.network(), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["data"])
optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
inputs, targets = (x[mesh.get_local_rank("data")::mesh["data"].size()] for x in problem.rows())
for _ in range(problem.STEPS):
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.all_reduce(loss, group=mesh.get_group("data"))
whole = [p.full_tensor() for p in model.parameters()]
agree(dist.get_rank(), dist.get_world_size(), problem.numbers(whole, loss / mesh["data"].size()), problem.alone())
dist.destroy_process_group()
