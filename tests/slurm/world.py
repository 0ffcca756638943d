# SPDX-License-Identifier: BSD-3-Clause
"""A world as frameworks form one: rank 0 listens at MASTER_PORT, the others come there and say who they are.

usage: world.py NAME COUNT   of COUNT worlds that are there at the same time; rank 0 says which ranks of NAME came
"""
import os
import pathlib
import socket
import sys
import time

name, count = sys.argv[1], int(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
deadline = time.monotonic() + 50


def until(try_it):
    """What try_it() returns, once that is something."""
    while not (result := try_it()):
        if time.monotonic() > deadline:
            sys.exit(f"{name}: rank {rank} waits for ever")
        time.sleep(0.05)
    return result


def come():
    try:
        return socket.create_connection((address, port), timeout=5)
    except ConnectionRefusedError:
        return None


if rank > 0:
    with until(come) as to_zero:
        to_zero.sendall(f"{name}/{rank}".encode())
        assert to_zero.recv(100) == b"all there"
    sys.exit()
with socket.create_server(("", port)) as server:
    server.settimeout(50)
    others = [server.accept()[0] for _ in range(world - 1)]
    came = sorted(other.recv(100).decode() for other in others)
    folder = pathlib.Path("worlds")
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    until(lambda: len(list(folder.iterdir())) == count)
    for other in others:
        other.sendall(b"all there")
    print(f"{name}/0", *came, port)
