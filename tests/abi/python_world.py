# SPDX-License-Identifier: BSD-3-Clause
"""Worlds of real processes for the tests of the Python module: each rank is an interpreter of its
own, with the environment and the sockets that the plugin gives to a task."""
import os
import secrets
import socket
import subprocess
import sys

LONG = 60  # seconds that a test may take before it is stuck


class World:
    """Ranks of the program `script`, started as `script rank BODY`; tasks[i] of them on node0(i+1).

    A context manager: what still runs at its end is killed.
    """

    def __init__(self, script, body, tasks, **environment):
        self.size = sum(tasks)
        self._command = [sys.executable, script, "rank", body]
        self._environment = environment
        self._places = [(node, local) for node, count in enumerate(tasks) for local in range(count)]
        self._tasks = tasks
        self._store = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._token = secrets.token_hex(16)
        self.ranks = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks.values():
            rank.kill()
            rank.communicate()
        self._store.close()

    def start(self, *ranks):
        """These ranks, or all of them."""
        for rank in ranks or range(self.size):
            self.ranks[rank] = subprocess.Popen(
                self._command, env=self._variables(rank), text=True, stderr=subprocess.PIPE,
                pass_fds=[self._store.fileno()] if rank == 0 else [])
        return self

    def end_of(self, rank):
        """Exit code (-N: ended by signal N) and standard error of a rank, once it has ended."""
        errors = self.ranks[rank].communicate(timeout=LONG)[1]
        return self.ranks[rank].returncode, errors

    def _variables(self, rank):
        node, local = self._places[rank]
        first = [sum(self._tasks[:i]) for i in range(len(self._tasks))]
        variables = {
            "RANK": rank, "WORLD_SIZE": self.size, "LOCAL_RANK": local,
            "LOCAL_WORLD_SIZE": self._tasks[node], "NODE_RANK": node, "GROUP_RANK": node,
            "GROUP_WORLD_SIZE": len(self._tasks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500,
            "DIST_TRAIN_VERSION": 1, "DIST_TRAIN_MODE": "torch", "DIST_TRAIN_STRATEGY": "ddp",
            "DIST_TRAIN_STEP": "4711.0", "DIST_TRAIN_RESTART_COUNT": 2,
            "DIST_TRAIN_LAYOUT": ";".join(
                f"node{i + 1:02}={first[i]}-{first[i] + count - 1}"
                for i, count in enumerate(self._tasks)),
            "DIST_TRAIN_STORE": "127.0.0.1:%d" % self._store.getsockname()[1],
            "DIST_TRAIN_TOKEN": self._token,
            **{name: os.environ[name] for name in ("DIST_TRAIN_LIBSTEP", "PYTHONPATH")},
            "PYTHONDONTWRITEBYTECODE": 1, **self._environment}
        if rank == 0:
            variables["DIST_TRAIN_STORE_FD"] = self._store.fileno()
        return {name: str(value) for name, value in variables.items()}
