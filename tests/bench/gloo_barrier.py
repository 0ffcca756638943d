# SPDX-License-Identifier: BSD-3-Clause
"""What a user's script begins with: a process group and a barrier. Prints when this rank was past it."""
import time

import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
print(time.monotonic(), flush=True)
dist.destroy_process_group()
