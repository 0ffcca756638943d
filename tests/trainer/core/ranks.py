# SPDX-License-Identifier: BSD-3-Clause
"""Runs dist-trainer on several ranks of this machine without Slurm, as torchrun would name them."""
import json
import os
import socket
import subprocess


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_ranks(trainer: str, world: int, options: dict, odd_rank: dict = {}, environment: dict = {},
                folder: str | None = None, nodes: int = 1, **popen) -> list[subprocess.Popen]:
    """One process per rank, which are told that they are on so many nodes; options become --name=value. Only the last
    is given odd_rank, environment, folder."""
    local = world // nodes

    def arguments(rank: int) -> list[str]:
        own = {**options, **odd_rank} if rank == world - 1 else options
        return [f"--{name}={value}" for name, value in own.items()]

    shared = dict(os.environ, WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(local), OMP_NUM_THREADS="1",
                  MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    shared.pop("GLOO_SOCKET_IFNAME", None)
    return [subprocess.Popen([trainer, *arguments(rank)], text=True, cwd=folder if rank == world - 1 else None,
                             env=dict(shared, RANK=str(rank), LOCAL_RANK=str(rank % local), GROUP_RANK=str(rank // local),
                                      **(environment if rank == world - 1 else {})), **popen)
            for rank in range(world)]


def train(trainer: str, world: int, options: dict, nodes: int = 1, says: str = "") -> list[dict]:
    """Runs to the end and returns the entries of metrics.jsonl. Rank 0's output has the text `says`."""
    ranks = start_ranks(trainer, world, options, nodes=nodes, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    outputs = [rank.communicate()[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), "\n".join(outputs)
    assert not any(outputs[1:]), f"only rank 0 may speak: {outputs[1:]}"
    assert says in outputs[0], outputs[0]
    with open(os.path.join(options["output_dir"], "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]
