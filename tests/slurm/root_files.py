# SPDX-License-Identifier: BSD-3-Clause
"""Files and sockets that root's processes opened, from a trace of slurmd and all below it.

usage: root_files.py TRACE   (strace -f -o TRACE -e trace=execve,%process,openat,open,creat,socket,setuid,setresuid,setreuid)
"""
import re
import sys

user = {}  # process: whether it has given up root
opened = set()
for line in open(sys.argv[1], errors="replace"):
    # A call that strace shows in two parts counts where its arguments are, and a child where its number is.
    if not (call := re.match(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)", line)):
        continue
    pid, name, rest = int(call[1]), call[2], call[3]
    if name in ("clone", "clone3", "fork", "vfork"):
        if child := re.search(r"= (\d+)$", rest):
            user[int(child[1])] = user.get(pid, False)
    elif name in ("setuid", "setresuid", "setreuid"):
        if ids := [int(i) for i in re.findall(r"-?\d+", rest.split(")")[0])]:
            user[pid] = 0 not in ids and max(ids) > 0
    elif name in ("openat", "open", "creat"):
        if not user.get(pid) and (path := re.search(r'"(.*?)"', rest)):
            opened.add(re.sub(r"\d+", "N", path[1]))
    elif name == "socket" and not user.get(pid) and "resumed" not in line:
        opened.add("socket " + rest.split(",")[0])
print("\n".join(sorted(opened)))
