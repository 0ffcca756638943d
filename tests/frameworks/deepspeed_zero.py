# SPDX-License-Identifier: BSD-3-Clause
"""DeepSpeed's engine with each stage of ZeRO in turn."""
import deepspeed
import torch
import torch.distributed as dist

import problem
from agree import agree

# Else every rank compiles, for minutes, what serves ranks of one machine without GPUs.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed()
rank, world = dist.get_rank(), dist.get_world_size()
inputs, targets = problem.rows()
mine = slice(rank, None, world)
together = {}
for stage in 1, 2, 3:
    config = {"train_batch_size": problem.ROWS, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "SGD", "params": {"lr": problem.RATE}}, "zero_allow_untested_optimizer": True}
    network = problem.network()
    engine, _, _, _ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=config)
    for _ in range(problem.STEPS):
        loss = torch.nn.functional.mse_loss(engine(inputs[mine]), targets[mine])
        engine.backward(loss)
        engine.step()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
        numbers = problem.numbers(engine.module.parameters(), loss / world)
    together.update({f"{name} of stage {stage}": values for name, values in numbers.items()})
alone = problem.alone()
agree(rank, world, together, {name: alone[name.split()[0]] for name in together})
dist.destroy_process_group()
