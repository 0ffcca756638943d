#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kept inputs of a fuzz target, one a line with \\xNN for what is not printable, and as files.

usage: corpus.py unpack FILE FOLDER    adds FILE's inputs to FOLDER
       corpus.py pack FOLDER FILE      FOLDER's inputs become FILE; of too many, some of each length
"""
import hashlib
import pathlib
import sys

MOST = 150  # inputs
LONGEST = 1024  # bytes


def line_of(data):
    return "".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else f"\\x{b:02x}" for b in data)


def data_of(line):
    return line.encode("ascii").decode("unicode_escape").encode("latin-1")


def unpack(file, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for line in file.read_text().splitlines() if file.exists() else []:
        data = data_of(line)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def pack(folder, file):
    inputs = sorted((f.read_bytes() for f in folder.iterdir()), key=lambda data: (len(data), data))
    short = [data for data in inputs if len(data) <= LONGEST]
    kept = short if len(short) <= MOST else [short[i * len(short) // MOST] for i in range(MOST)]
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(line_of(data) + "\n" for data in kept))


if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
    sys.exit(__doc__)
{"pack": pack, "unpack": unpack}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
