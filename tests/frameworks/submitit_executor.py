# SPDX-License-Identifier: BSD-3-Clause
"""submitit: a function handed to Slurm, with its own variables for torch.

usage: submitit_executor.py FOLDER SRUN_ARGUMENT..."""
import sys

import submitit


def train():
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import problem
    from agree import agree

    task = submitit.helpers.TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    dist.init_process_group("gloo")
    inputs, targets = problem.rows()
    mine = slice(task.rank, None, task.world_size)
    model = DistributedDataParallel(problem.network())
    optimizer = torch.optim.SGD(model.parameters(), lr=problem.RATE)
    for _ in range(problem.STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[mine]), targets[mine])
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss)
    agree(task.rank, task.world_size,
          problem.numbers(model.parameters(), loss / task.world_size), problem.alone())
    dist.destroy_process_group()


executor = submitit.AutoExecutor(folder=sys.argv[1])
executor.update_parameters(nodes=2, tasks_per_node=2, timeout_min=10, slurm_srun_args=sys.argv[2:])
job = executor.submit(train)
job.results()
for task in range(4):
    print(job.task(task).stdout())
