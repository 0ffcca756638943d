# SPDX-License-Identifier: BSD-3-Clause
"""Ray Train on a cluster that is there already: one worker a node, which meet through torch."""
import os
import sys
import tempfile

import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

import problem
from agree import agree


def train():
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    inputs, targets = problem.rows()
    mine = slice(rank, None, world)
    model = prepare_model(problem.network())
    optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
    for _ in range(problem.STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[mine]), targets[mine])
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss)
    agree(rank, world, problem.numbers(model.parameters(), loss.detach() / world), problem.alone())


ray.init()
TorchTrainer(train, torch_config=TorchConfig(backend="gloo"),
             scaling_config=ScalingConfig(num_workers=len(ray.nodes()), placement_strategy="STRICT_SPREAD"),
             run_config=RunConfig(storage_path=os.path.abspath("ray"))).fit()
