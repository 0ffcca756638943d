# SPDX-License-Identifier: BSD-3-Clause
"""DeepSpeed's engine with each stage of ZeRO in turn."""
import deepspeed
import torch
import torch.distributed as dist

import problem
from agree import agree

deepspeed.init_distributed()
rank, world = dist.get_rank(), dist.get_world_size()
inputs, targets = problem.rows()
mine = slice(rank, None, world)
for stage in 1, 2, 3:
    config = {"train_batch_size": problem.ROWS, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "AdamW", "params": {"lr": problem.RATE, "weight_decay": 0.01, "torch_adam": True}}}
    network = problem.network()
    engine, _, _, _ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=config)
    for _ in range(problem.STEPS):
        loss = torch.nn.functional.mse_loss(engine(inputs[mine]), targets[mine])
        engine.backward(loss)
        engine.step()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
        together = problem.numbers(engine.module.parameters(), loss / world)
    agree(rank, world, together, problem.alone())
dist.destroy_process_group()
