# SPDX-License-Identifier: BSD-3-Clause
"""Where this process of a launcher is, by libstep, as rank 0 hears it from all ranks: a line each."""
import sys

import libstep

try:
    with libstep.Step(connect_timeout=60) as step:
        mine = (f"rank {step.rank} of {step.world_size}, {step.local_rank} of {step.local_world_size} on "
                f"node {step.node_rank} of {step.node_count}: {step.source_text}")
        lines = step.all_gather(mine.encode().ljust(200), 60)
        ports = set(step.all_gather(str(step.master_port).encode().ljust(5), 60))
        assert len(ports) == 1 and ports != {b"0    "}, ports
        if step.rank == 0:
            print(*(line.decode().strip() for line in lines), sep="\n", flush=True)
except libstep.StepError as error:
    sys.exit(f"step_open: {error}")
