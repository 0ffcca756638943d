# SPDX-License-Identifier: BSD-3-Clause
"""Another user of a node that does to a step's store what it can: half-open connections, garbage, a wrong token.

usage: stranger.py ADDRESS PORT FILE   until FILE is gone; says when it has begun, and when the first was closed on it
"""
import os
import select
import socket
import sys

address, port, until = sys.argv[1], int(sys.argv[2]), sys.argv[3]
kinds = [b"", b"\0" * 3, b"GET / HTTP/1.0\r\n\r\n", os.urandom(200), b"\xff" * 100_000]
connections, number, said = [], 0, set()


def say(word):
    if word not in said:
        print(word, flush=True)
        said.add(word)


while os.path.exists(until):
    while len(connections) < 300:
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((address, port))
        connections.append([connection, kinds[number % len(kinds)]])
        number += 1
    say("begun")
    _, ready, _ = select.select([], [c for c, _ in connections], [], 0.05)
    for entry in list(connections):
        connection, text = entry
        try:
            if connection in ready and text:
                entry[1] = text[connection.send(text):]
            if not connection.recv(4096):
                raise OSError
        except BlockingIOError:
            pass
        except OSError:
            connection.close()
            connections.remove(entry)
            say("closed")
