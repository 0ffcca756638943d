# SPDX-License-Identifier: BSD-3-Clause
"""What one task sees, as a JSON file: its variables, its node's addresses, the ports it holds.

usage: report.py FOLDER [FILE]   writes FOLDER/PROCESS.json (Slurm's output would cut long lines); stays until FILE, a
report of another task, is there
"""
import json
import os
import socket
import stat
import subprocess
import sys
import time


def held_ports():
    """Local TCP ports of the sockets that this process inherited."""
    ports = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                with socket.socket(fileno=os.dup(fd)) as s:
                    if s.family in (socket.AF_INET, socket.AF_INET6):
                        ports.append(s.getsockname()[1])
        except OSError:  # the descriptor of the listing itself
            pass
    return ports


addresses = json.loads(subprocess.check_output(["ip", "-json", "address"]))
report = {
    "env": dict(os.environ),
    "node": socket.gethostname(),
    "addresses": {a["local"]: i["ifname"] for i in addresses for a in i["addr_info"] if i["ifname"] != "lo"},
    "held": held_ports(),
    "cpus": len(os.sched_getaffinity(0)),
}
os.makedirs(sys.argv[1], exist_ok=True)
name = f"{sys.argv[1]}/{os.environ['SLURM_PROCID']}.json"
with open(name + ".new", "x") as file:
    json.dump(report, file)
os.rename(name + ".new", name)
deadline = time.monotonic() + 40
while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
    if time.monotonic() > deadline:
        sys.exit(f"{sys.argv[2]} did not come")
    time.sleep(0.02)
