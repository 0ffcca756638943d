# SPDX-License-Identifier: BSD-3-Clause
"""What a user's script begins with: a process group and a barrier. Prints when this rank was past it."""
import os
import time

import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
os.write(1, f"{time.monotonic()}\n".encode())  # in one piece: torchrun's ranks share a pipe
dist.destroy_process_group()
