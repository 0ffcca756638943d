# SPDX-License-Identifier: BSD-3-Clause
"""Lightning's Trainer."""
import os

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import problem
from agree import agree


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = problem.network()

    def training_step(self, batch, _):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.network(inputs), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=problem.RATE)


trainer = lightning.Trainer(
    accelerator="cpu", strategy="ddp", max_epochs=problem.STEPS, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, num_nodes=int(os.environ["SLURM_NNODES"]), devices=int(os.environ["SLURM_NTASKS_PER_NODE"]))
model, data = Regression(), TensorDataset(*problem.rows())
trainer.fit(model, DataLoader(data, batch_size=len(data) // trainer.world_size, shuffle=True))
agree(trainer.global_rank, trainer.world_size,
      problem.numbers(model.parameters(), trainer.callback_metrics["loss"]), problem.alone())
