# SPDX-License-Identifier: BSD-3-Clause
"""A user's program: an all-reduce with nothing but the variables of the step.

usage: all_reduce.py [NAME OTHER]   two steps with each other's name stay until both are ready
"""
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if len(sys.argv) > 1:
    if rank == 0:
        pathlib.Path(sys.argv[1]).touch()
    deadline = time.monotonic() + 60
    while not os.path.exists(sys.argv[2]):
        if time.monotonic() > deadline:
            sys.exit(f"{sys.argv[2]} did not come")
        time.sleep(0.05)
total = torch.tensor([float(rank)])
dist.all_reduce(total)
assert total.item() == world * (world - 1) / 2, total
if rank == 0:
    print(f"sum {int(total.item())} of {world} ranks, port {os.environ['MASTER_PORT']}", flush=True)
dist.destroy_process_group()
