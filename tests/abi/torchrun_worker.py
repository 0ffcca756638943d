# SPDX-License-Identifier: BSD-3-Clause
"""A worker of a real torchrun that opens the step through the C ABI: libstep.so is argument 1."""
import ctypes
import os
import sys

step = ctypes.CDLL(sys.argv[1])
for name in ("step_error", "step_source_text"):
    getattr(step, name).restype = ctypes.c_char_p
    getattr(step, name).argtypes = [ctypes.c_void_p]
for name in ("step_rank", "step_world_size", "step_master_port", "step_close"):
    getattr(step, name).argtypes = [ctypes.c_void_p]
step.step_all_gather.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                 ctypes.c_void_p, ctypes.c_double]

handle = ctypes.c_void_p()
code = step.step_open(ctypes.byref(handle), None)
if code != 0:
    sys.exit(f"step_open: {step.step_error(None).decode()}")

world = int(os.environ["WORLD_SIZE"])
assert step.step_rank(handle) == int(os.environ["RANK"])
assert step.step_world_size(handle) == world
assert step.step_source_text(handle).startswith(b"torchrun (run "), step.step_source_text(handle)
port = step.step_master_port(handle)
assert port not in (0, int(os.environ["MASTER_PORT"])), port  # the agent has MASTER_PORT

mine = ctypes.c_int(port)
everyones = (ctypes.c_int * world)()
code = step.step_all_gather(handle, ctypes.byref(mine), 4, everyones, 60.0)
assert code == 0, step.step_error(handle)
assert list(everyones) == [port] * world, list(everyones)
step.step_close(handle)
