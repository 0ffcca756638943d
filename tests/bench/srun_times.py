# SPDX-License-Identifier: BSD-3-Clause
"""Times commands inside a throwaway cluster, where a user sits.

usage: srun_times.py ROUNDS < commands     one JSON object: name -> command (a list)
Every round runs each command once, in random order. Prints one JSON object: name -> list of runs, each with its wall
seconds, the CPU seconds of the command itself (srun), when it began (CLOCK_MONOTONIC) and what it printed.
"""
import json
import os
import subprocess
import sys
import time

from lib import interleaved

commands = json.load(sys.stdin)


def timed(command):
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "begin": begin, "printed": printed}


print(json.dumps(interleaved({name: lambda c=command: timed(c) for name, command in commands.items()}, int(sys.argv[1]))))
