# SPDX-License-Identifier: BSD-3-Clause
"""A trainer without the training: iterates until all ranks stop, says where, and does what is asked.

usage: stop_loop.py [requeue]    requeue: the last rank requeues the job on its first run
"""
import pathlib
import sys
import time

import libstep

with libstep.Step() as step:
    step.catch_signals()
    if step.restart_count > 0:
        print(f"rank {step.rank} restart {step.restart_count}", flush=True)
        sys.exit()
    iteration = 0
    step.barrier(60)
    if step.rank == 0:
        pathlib.Path("running").touch()
    while not step.should_stop(iteration):
        iteration += 1
        time.sleep(0.001 * (1 + step.rank))
        if iteration % 100 == 0:  # as in training, no rank is far ahead
            step.barrier(60)
    everybody = step.all_gather(b"%d" % iteration, 60)
    if step.rank == 0:
        agreed = "agreed" if len(set(everybody)) == 1 else f"apart: {everybody}"
        print(f"stopped {agreed}: {step.stop_reason()}; seconds left {step.seconds_left():.0f}",
              flush=True)
    step.barrier(60)
    if "requeue" in sys.argv and step.rank == step.world_size - 1:
        step.requeue()
        time.sleep(60)
    elif "requeue" in sys.argv:
        time.sleep(60)
