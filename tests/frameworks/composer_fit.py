# SPDX-License-Identifier: BSD-3-Clause
"""Composer's Trainer."""
import torch
from composer import Trainer
from composer.models import ComposerModel
from composer.utils import dist
from torch.utils.data import DataLoader, TensorDataset

import problem
from agree import agree


class Regression(ComposerModel):
    def __init__(self):
        super().__init__()
        self.network = problem.network()

    def forward(self, batch):
        return self.network(batch[0])

    def loss(self, outputs, batch):
        return torch.nn.functional.mse_loss(outputs, batch[1])


dist.initialize_dist("cpu")
model, data = Regression(), TensorDataset(*problem.rows())
loader = DataLoader(data, batch_size=len(data) // dist.get_world_size(), sampler=dist.get_sampler(data, shuffle=True))
trainer = Trainer(model=model, train_dataloader=loader, optimizers=torch.optim.SGD(model.parameters(), lr=problem.RATE),
                  max_duration=f"{problem.STEPS}ep", device="cpu", progress_bar=False)
trainer.fit()
loss = trainer.state.loss.detach()
dist.all_reduce(loss)
agree(dist.get_global_rank(), dist.get_world_size(),
      problem.numbers(model.parameters(), loss / dist.get_world_size()), problem.alone())
trainer.close()
