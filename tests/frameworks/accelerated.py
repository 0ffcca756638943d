# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face Accelerate."""
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import problem
from agree import agree

accelerator = Accelerator(cpu=True)
data = TensorDataset(*problem.rows())
model = problem.network()
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=problem.RATE),
    DataLoader(data, batch_size=len(data) // accelerator.num_processes, shuffle=True))
for _ in range(problem.STEPS):
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
loss = accelerator.reduce(loss.detach(), reduction="mean")
agree(accelerator.process_index, accelerator.num_processes, problem.numbers(model.parameters(), loss), problem.alone())
accelerator.end_training()
