# SPDX-License-Identifier: BSD-3-Clause
"""Checks the reports of all tasks of a step (report.py) against what Slurm itself says.

usage: [USERS_THREADS=N] check_step.py FOLDER NODE=RANK,... NODE=RANK,...   the nodes in the order of their first rank
"""
import json
import os
import pathlib
import sys

users_threads = os.environ.get("USERS_THREADS")
layout = [(node, [int(r) for r in ranks.split(",")])
          for node, ranks in (word.split("=") for word in sys.argv[2:])]
world = sum(len(ranks) for _, ranks in layout)
tasks = {}
for path in pathlib.Path(sys.argv[1]).glob("*.json"):
    task = json.loads(path.read_text())
    rank = int(task["env"]["RANK"])
    assert rank not in tasks, f"rank {rank} twice"
    tasks[rank] = task
assert sorted(tasks) == list(range(world)), f"ranks {sorted(tasks)} of {world}"


def ids(ranks):
    """The ranks as an id set: 0-3,5."""
    runs = []
    for r in ranks:
        if runs and r == runs[-1][1] + 1:
            runs[-1][1] = r
        else:
            runs.append([r, r])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


first = tasks[0]
same = {
    "WORLD_SIZE": world,
    "ROLE_WORLD_SIZE": world,
    "ROLE_NAME": "default",
    "GROUP_WORLD_SIZE": len(layout),
    "MASTER_ADDR": first["env"]["MASTER_ADDR"],
    "MASTER_PORT": first["env"]["MASTER_PORT"],
    "DIST_TRAIN_VERSION": 1,
    "DIST_TRAIN_MODE": "torch",
    "DIST_TRAIN_LAYOUT": ";".join(f"{node}={ids(ranks)}" for node, ranks in layout),
    "DIST_TRAIN_STEP": "{SLURM_JOB_ID}.{SLURM_STEP_ID}".format(**first["env"]),
    "DIST_TRAIN_STORE": first["env"]["DIST_TRAIN_STORE"],
    "DIST_TRAIN_TOKEN": first["env"]["DIST_TRAIN_TOKEN"],
}
for node_rank, (node, ranks) in enumerate(layout):
    for local, rank in enumerate(ranks):
        task, env = tasks[rank], tasks[rank]["env"]
        assert task["node"] == node, f"rank {rank} ran on {task['node']}, not {node}"
        expected = dict(same, RANK=rank, LOCAL_RANK=local, LOCAL_WORLD_SIZE=len(ranks),
                        NODE_RANK=node_rank, GROUP_RANK=node_rank, ROLE_RANK=rank)
        for name, value in expected.items():
            assert env.get(name) == str(value), f"rank {rank}: {name}={env.get(name)}, expected {value}"
        for name, peer in (("RANK", "SLURM_PROCID"), ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"),
                           ("LOCAL_RANK", "SLURM_LOCALID")):
            assert env[name] == env[peer], f"rank {rank}: {name}={env[name]}, Slurm's {peer}={env[peer]}"
        # Nothing binds the tasks of these clusters, so those of a node share its CPUs; a core may
        # have two of them.
        threads, most = int(env["OMP_NUM_THREADS"]), max(1, task["cpus"] // len(ranks))
        fits = threads == int(users_threads) if users_threads else 1 <= threads <= most
        assert fits, f"rank {rank}: OMP_NUM_THREADS={threads}, expected {users_threads or most}"
        port = int(env["MASTER_PORT"])
        store_port = int(env["DIST_TRAIN_STORE"].rpartition(":")[2])
        assert port != store_port, "one port for two servers"
        held = sorted(p for p in task["held"] if p in (port, store_port))
        expected = sorted([port, store_port]) if rank == 0 else []
        assert held == expected, f"rank {rank} holds {held}, expected {expected}"
        descriptors = [n for n in ("DIST_TRAIN_PORT_FD", "DIST_TRAIN_STORE_FD") if n in env]
        assert len(descriptors) == (2 if rank == 0 else 0), f"rank {rank} is told of {descriptors}"
        stale = [n for n in env if n.startswith(("TORCHELASTIC_", "PET_"))]
        assert not stale, f"rank {rank}: {stale}"

master = first["env"]["MASTER_ADDR"]
assert master in first["addresses"], f"MASTER_ADDR={master}, rank 0's node has {first['addresses']}"
for rank, task in tasks.items():
    env = task["env"]
    for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        assert env.get(name) in task["addresses"].values(), f"rank {rank}: {name}={env.get(name)}"
    if "JAX_COORDINATOR_ADDRESS" in env:
        host = f"[{master}]" if ":" in master else master
        for name, value in (("JAX_COORDINATOR_ADDRESS", f"{host}:{env['JAX_COORDINATOR_PORT']}"),
                            ("JAX_NUM_PROCESSES", world), ("JAX_PROCESS_ID", rank)):
            assert env.get(name) == str(value), f"rank {rank}: {name}={env.get(name)}, expected {value}"
token = first["env"]["DIST_TRAIN_TOKEN"]
assert len(token) == 32 and not token.strip("0123456789abcdef"), "the token is not 32 hex digits"
port = int(first["env"]["MASTER_PORT"])
low, high = map(int, open("/proc/sys/net/ipv4/ip_local_port_range").read().split())
assert not low <= port <= high, f"port {port} is an ephemeral one"
if spares := first["env"].get("DIST_TRAIN_PORTS"):
    a, b = map(int, spares.split("-"))
    assert a <= b < low or high < a <= b, f"spare ports {spares} are ephemeral ones"
    taken = [port, int(first["env"]["DIST_TRAIN_STORE"].rpartition(":")[2]),
             int(first["env"]["JAX_COORDINATOR_PORT"])]
    assert not any(a <= p <= b for p in taken), f"spare ports {spares} have one of {taken}"
# The ports of a heterogeneous step may be reserved on another component's nodes only.
if (reserved := first["env"].get("SLURM_STEP_RESV_PORTS")) and "SLURM_HET_SIZE" not in first["env"]:
    inside = any(int(a) <= port <= int(b or a)
                 for a, _, b in (r.partition("-") for r in reserved.split(",")))
    assert inside, f"port {port} is not one of the step's {reserved}"
print("master", master, port)
