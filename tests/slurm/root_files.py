# SPDX-License-Identifier: BSD-3-Clause
"""Files and sockets that root's processes opened, from a trace of slurmd and all below it.

usage: root_files.py TRACE   (strace -f -o TRACE -e trace=execve,%process,openat,open,creat,socket,setuid,setresuid,setreuid)
"""
import re
import sys

forks = ("clone", "clone3", "fork", "vfork")
calls = []  # process, name, rest of the line
for line in open(sys.argv[1], errors="replace"):
    # A call that strace shows in two parts counts where its arguments are, and a child where its number is.
    if call := re.match(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)", line):
        calls.append((int(call[1]), call[2], call[3], line))


def child_of(name, rest):
    child = re.search(r"= (\d+)$", rest) if name in forks else None
    return child and int(child[1])


parents = {child: pid for pid, name, rest, _ in calls if (child := child_of(name, rest))}
user = {}  # process: whether it has given up root
opened = set()


def is_user(pid):
    """A child's calls may stand before its number: its parent is still in the call then."""
    while pid not in user and pid in parents:
        pid = parents[pid]
    return user.get(pid, False)


for pid, name, rest, line in calls:
    if child := child_of(name, rest):
        user.setdefault(child, is_user(pid))
    elif name in ("setuid", "setresuid", "setreuid"):
        if ids := [int(i) for i in re.findall(r"-?\d+", rest.split(")")[0])]:
            user[pid] = 0 not in ids and max(ids) > 0
    elif name in ("openat", "open", "creat"):
        if not is_user(pid) and (path := re.search(r'"(.*?)"', rest)):
            opened.add(re.sub(r"\d+", "N", path[1]))
    elif name == "socket" and not is_user(pid) and "resumed" not in line:
        opened.add("socket " + rest.split(",")[0])
print("\n".join(sorted(opened)))
