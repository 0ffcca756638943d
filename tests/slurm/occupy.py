# SPDX-License-Identifier: BSD-3-Clause
"""Another program on a node: it has ports until it is killed.

usage: occupy.py READY ADDRESS PORT,... listen|hold [SO_REUSEADDR] [SO_REUSEPORT]   its process number goes to READY
"""
import os
import signal
import socket
import sys

ready, address, ports, how, *flags = sys.argv[1:]
sockets = []
for port in map(int, ports.split(",")):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    for flag in flags:
        s.setsockopt(socket.SOL_SOCKET, getattr(socket, flag), 1)
    s.bind((address, port))
    if how == "listen":
        s.listen()
    sockets.append(s)
with open(ready + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(ready + ".new", ready)
signal.pause()
