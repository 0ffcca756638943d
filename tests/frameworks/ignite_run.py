# SPDX-License-Identifier: BSD-3-Clause
"""Ignite's engine and its helpers for distributed programs."""
import ignite.distributed as idist
import torch
from ignite.engine import Engine
from torch.utils.data import TensorDataset

import problem
from agree import agree


def train(_):
    data = TensorDataset(*problem.rows())
    loader = idist.auto_dataloader(data, batch_size=len(data), shuffle=True)
    model = idist.auto_model(problem.network())
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=problem.RATE))

    def step(_, batch):
        inputs, targets = batch
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = Engine(step)
    trainer.run(loader, max_epochs=problem.STEPS)
    loss = idist.all_reduce(trainer.state.output) / idist.get_world_size()
    agree(idist.get_rank(), idist.get_world_size(), problem.numbers(model.parameters(), loss), problem.alone())


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(train)
