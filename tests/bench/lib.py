# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmarks share: paired runs, a network of their own, throwaway clusters, and how results are said.

Two sides are always measured in one run, alternating in random order, so that both meet the same machine. A benchmark
prints a table for a person and, as its last line, one JSON object. It ends with 1 only when it could not measure;
whether a bar holds is in the table and in `holds`, since a busy machine is no failure of the code.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

tests = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(os.environ.get("DIST_TRAIN_BUILD", tests.parent / "build")).resolve()
median = statistics.median


def arguments(text, **options):
    """The command line; option NAME=DEFAULT becomes --NAME of the default's type, a list takes several values."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in options.items():
        several = isinstance(default, list)
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, nargs="+" if several else None,
                            type=type(default[0] if several else default), help=" ")
    return parser.parse_args()


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def program(name):
    path = build / "bin" / name
    if not path.exists():
        fail(f"no {path}: build it first (tests/build; what compares with PyTorch needs libtorch)")
    return str(path)


def python():
    """The Python that has torch."""
    path = build / "venv" / "bin" / "python"
    return str(path) if path.exists() else fail(f"no {path}: run tests/setup")


def interleaved(sides, rounds):
    """sides: name -> function. Each round calls every one once, in random order; gives name -> list of results."""
    results = {name: [] for name in sides}
    for _ in range(rounds):
        for name in random.sample(list(sides), len(sides)):
            results[name].append(sides[name]())
    return results


def spread(values, scale=1.0, digits=2):
    """median (lowest-highest), scaled."""
    low, middle, high = (f"{x * scale:.{digits}f}" for x in (min(values), median(values), max(values)))
    return f"{middle} ({low}-{high})"


def table(*rows):
    """Rows of cells; the first is the head."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def say(name, results, bars):
    """The end of a benchmark. bars: name of a result -> the most it may be."""
    holds = {key: results[key] <= bar for key, bar in bars.items()}
    for key, bar in bars.items():
        print(f"{key} {results[key]:.4g}, bar {bar:g}: {'holds' if holds[key] else 'MISSED'}")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg()[:2])
    print(f"{os.cpu_count()} CPUs, load {load} (1 and 5 minutes)")
    print(json.dumps({"bench": name, **results, "bars": bars, "holds": all(holds.values())}))


def private_network(addresses):
    """This process and its children get a network with nothing but a loopback of these addresses, which resolve both
    ways: a server that looks every peer's name up must not be measured by the time a name server takes."""
    kinds = 0x00020000 | 0x40000000  # CLONE_NEWNS, CLONE_NEWNET
    if ctypes.CDLL(None, use_errno=True).unshare(kinds) != 0:
        fail(f"cannot make a network of its own: {os.strerror(ctypes.get_errno())}; run it as root")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with tempfile.NamedTemporaryFile("w", prefix="hosts.") as hosts:
        hosts.write("".join(f"{a} loop{i}\n::ffff:{a} loop{i}\n" for i, a in enumerate(addresses)))
        hosts.flush()
        os.chmod(hosts.name, 0o644)
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Program:
    """A program of ours that prints one line when it is ready, or done, and ends when its standard input does. Its cost
    counts from that line on."""

    def __init__(self, *command, **popen):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **popen)
        self.says = self.process.stdout.readline()
        if not self.says:
            fail(f"{command[0]} ended with {self.process.wait()}")
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak starts anew
        self.bare_kib, self.bare_cpu = self._status("VmRSS"), self._cpu()

    def _status(self, name):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split(name + ":")[1].split()[0])

    def _cpu(self):
        return time.clock_gettime((~self.process.pid << 3) | 2)  # the process's CPU clock, clock_getcpuclockid(3)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cost(self):
        """CPU seconds and KiB beyond what the bare process had taken."""
        return {"cpu": self._cpu() - self.bare_cpu, "kib": self._status("VmHWM") - self.bare_kib}

    def end(self):
        self.process.communicate()
        if self.process.returncode != 0:
            fail(f"{self.process.args[0]} ended with {self.process.returncode}")


def output(*command):
    """What a program prints that needs nothing from us."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE)
    return done.stdout if done.returncode == 0 else fail(f"{command[0]} ended with {done.returncode}")


@contextlib.contextmanager
def cluster(name, *options):
    """A throwaway Slurm of three nodes; gives run(commands, rounds, environment), which times srun_times.py's commands
    there as its user."""
    script = str(tests / "cluster" / "cluster")
    here = {**os.environ, "DIST_TRAIN_BUILD": str(build), "DIST_TRAIN_CLUSTER": f"{name}-{os.getpid()}"}

    def run(commands, rounds, environment={}):
        # In one allocation: a job of its own for each step would wait for the end of the one before. --overlap for the
        # same reason.
        inside = [script, "exec", "--user", "trainee", "--", "env", "SLURM_OVERLAP=1",
                  *(f"{k}={v}" for k, v in environment.items()), "salloc", "--quiet", "-N3", "--exclusive",
                  "python3", str(tests / "bench" / "srun_times.py"), str(rounds)]
        done = subprocess.run(inside, env=here, text=True, input=json.dumps(commands), stdout=subprocess.PIPE)
        return json.loads(done.stdout) if done.returncode == 0 else fail("a command failed in the cluster")

    def command(*words):
        subprocess.run([script, *words], env=here, check=True, stdout=subprocess.DEVNULL)

    command("up", "--owner", str(os.getpid()), *options)
    try:
        yield run
    finally:
        command("down")
