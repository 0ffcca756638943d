# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face Datasets dealt out by split_dataset_by_node(), a table and a stream, to DistributedDataParallel."""
import os

import torch
import torch.distributed as dist
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import problem
from agree import agree

dist.init_process_group("gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
inputs, targets = problem.rows()
table = Dataset.from_dict({"inputs": inputs.tolist(), "targets": targets.tolist()}).with_format("torch")
stream = table.to_iterable_dataset(num_shards=world)
model = DistributedDataParallel(problem.network())
optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
for data in (table, stream):
    mine = split_dataset_by_node(data, rank=rank, world_size=world)
    loader = DataLoader(mine, batch_size=problem.ROWS // world)
    for _ in range(problem.STEPS):
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["inputs"]), batch["targets"])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
dist.all_reduce(loss)
agree(rank, world, problem.numbers(model.parameters(), loss / world), problem.alone(steps=2 * problem.STEPS))
dist.destroy_process_group()
