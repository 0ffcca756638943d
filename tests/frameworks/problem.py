# SPDX-License-Identifier: BSD-3-Clause
"""What the programs on torch train, and what one process makes of it: a plain loop over the whole batch.

The batch of every step is all ROWS, which any world of 2, 3 or 4 deals out evenly, so that the mean of the ranks' means
is the mean; which rank gets which row does not matter. The start is the same everywhere (seeds)."""
import torch

ROWS = 12
STEPS = 5
RATE = 0.01


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


def rows():
    """Inputs and targets, of ROWS rows each."""
    random = torch.Generator().manual_seed(2)
    return torch.randn(ROWS, 8, generator=random), torch.randn(ROWS, 4, generator=random)


def numbers(parameters, loss):
    """What is compared: the last step's loss, and all parameters after it."""
    flat = torch.cat([p.detach().reshape(-1).float() for p in parameters])
    return {"loss": float(loss), "parameters": flat.tolist()}


def train(model, loss_of, optimizer=torch.optim.AdamW, steps=STEPS, rate=RATE):
    """The plain loop; loss_of(model) is the mean over the whole batch."""
    optimizer = optimizer(model.parameters(), lr=rate)
    for _ in range(steps):
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return numbers(model.parameters(), loss)


def alone(**how):
    """network() on rows(), with the squared error."""
    inputs, targets = rows()
    return train(network(), lambda model: torch.nn.functional.mse_loss(model(inputs), targets), **how)
