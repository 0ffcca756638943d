# SPDX-License-Identifier: BSD-3-Clause
"""Whether the sockets that rank 0 was given are there: `same` in this process and its forks, `gone` in processes
that close what they inherit.

usage: held_sockets.py forks|spawns|same
"""
import multiprocessing
import os
import socket
import sys


def ports():
    """Ports of the two sockets; None for one that is not open."""
    found = []
    for name in ("DIST_TRAIN_PORT_FD", "DIST_TRAIN_STORE_FD"):
        try:
            with socket.socket(fileno=os.dup(int(os.environ[name]))) as held:
                found.append(held.getsockname()[1])
        except OSError:
            found.append(None)
    return found


def tell(queue):
    queue.put(ports())


if __name__ == "__main__":
    told = [int(os.environ["MASTER_PORT"]), int(os.environ["DIST_TRAIN_STORE"].rpartition(":")[2])]
    assert ports() == told, (ports(), told)
    for way in sys.argv[1:]:
        if way == "same":
            continue
        context = multiprocessing.get_context({"forks": "fork", "spawns": "spawn"}[way])
        queue = context.Queue()
        loaders = [context.Process(target=tell, args=(queue,)) for _ in range(2)]
        for loader in loaders:
            loader.start()
        seen = [queue.get(timeout=60) for _ in loaders]
        for loader in loaders:
            loader.join()
        assert seen == [told if way == "forks" else [None, None]] * 2, (way, seen, told)
    # Whatever the children did, the ports are still ours.
    assert ports() == told, (ports(), told)
    for port in told:
        with socket.socket(socket.AF_INET6) as stranger:
            try:
                stranger.bind(("::", port))
            except OSError:
                continue
        raise AssertionError(f"port {port} is free")
    print("held", *told)
