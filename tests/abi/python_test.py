# SPDX-License-Identifier: BSD-3-Clause
"""The Python module over the C ABI, in worlds of one and of four. PYTHONPATH has its folder,
DIST_TRAIN_LIBSTEP is the library."""
import ast
import math
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import libstep
from libstep import Code, StepError
from python_world import LONG, World

TASKS = (2, 1, 1)  # ranks 0 and 1 on node01, 2 on node02, 3 on node03


class Case(unittest.TestCase):
    def fails(self, code, text, call, *arguments, **named):
        with self.assertRaises(StepError) as caught:
            call(*arguments, **named)
        self.assertIn(text, caught.exception.message)
        self.assertEqual(caught.exception.code, code)
        return caught.exception


check = Case()


class Ranks:
    """Bodies of ranks in a world of four; an exception ends the rank with 1 and a traceback."""

    @staticmethod
    def exchange():
        with libstep.Step(connect_timeout=LONG, linger=LONG) as step:
            me = int(os.environ["RANK"])
            check.assertEqual((step.rank, step.world_size), (me, 4))
            check.assertEqual((step.local_rank, step.local_world_size), [(0, 2), (1, 2), (0, 1),
                                                                         (0, 1)][me])
            check.assertEqual((step.node_rank, step.node_count), ([0, 0, 1, 2][me], 3))
            nodes = ["node01", "node01", "node02", "node03"]
            check.assertEqual([step.node_of(i) for i in range(5)], nodes + ["?"])
            check.assertEqual(step.node_name, nodes[me])
            check.assertEqual((step.source, step.source_text),
                              (libstep.Source.PLUGIN, "srun --dist-train (step 4711.0)"))
            check.assertEqual((step.strategy, step.id, step.restart_count), ("ddp", "4711.0", 2))
            check.assertEqual((step.master_address, step.master_port), ("127.0.0.1", 29500))
            check.assertEqual(step.store_address, os.environ["DIST_TRAIN_STORE"])
            for root in range(4):  # of a length that the others do not know
                said = bytes([root]) * (root * 100_000)
                check.assertEqual(step.broadcast(said if me == root else None, root, LONG), said)
            check.assertEqual(step.all_gather(b"\0x" * me, LONG), [b"\0x" * i for i in range(4)])
            check.assertEqual(step.all_gather(b"", LONG), [b""] * 4)
            step.set(f"from {me}", b"here")
            step.wait((f"from {i}" for i in range(4)), LONG)
            step.add("sum", me)
            step.barrier(LONG)
            check.assertEqual(step.get("sum", 0), b"6")
            check.assertEqual(step.compare_and_set("first", None, b"%d" % me),
                              step.get("first", LONG) == b"%d" % me)
            step.barrier(LONG)

    @staticmethod
    def too_large():
        """Every rank learns it, and all go on together."""
        with libstep.Step(linger=LONG) as step:
            large = bytes(libstep.VALUE_MAX + 1)
            check.fails(Code.ARGUMENT, "the data of rank 2 have 67108865 bytes", step.broadcast,
                        large if step.rank == 2 else None, 2, LONG)
            check.fails(Code.ARGUMENT, "4 times 67108865 bytes", step.all_gather,
                        large if step.rank == 3 else b"", LONG)
            step.barrier(LONG)

    @staticmethod
    def missing():
        """Rank 2 comes when the others have given up; rank 0, whose time is short, when they are on their way."""
        with libstep.Step(linger=LONG) as step:
            step.barrier(LONG)
            calls = (step.barrier, lambda timeout: step.all_gather(b"x", timeout),
                     lambda timeout: step.broadcast(b"x" if step.rank == 0 else None, 0, timeout))
            for number, call in enumerate(calls):
                if step.rank == 2:
                    step.wait(f"failed {number}", LONG)
                elif step.rank == 0:
                    step.wait((f"{rank} comes to {number}" for rank in (1, 3)), LONG)
                else:
                    step.set(f"{step.rank} comes to {number}", b"")
                failure = check.fails(
                    Code.TIMEOUT, "1 of 4 ranks did not come within 1 s: rank 2 (node02, local 0)",
                    call, timeout=1 if step.rank == 0 else LONG)
                check.assertIn(failure.message, str(failure))
                if step.rank != 2:
                    step.set(f"failed {number}", b"")
                step.barrier(LONG)

    @staticmethod
    def lost():
        """Rank 3 is killed while the others wait without end, each with a watching thread."""
        with libstep.Step(linger=LONG) as step:
            step.barrier(LONG)
            if step.rank == 3:
                step.wait("ready", LONG)
                os.kill(os.getpid(), signal.SIGKILL)
            watched = []
            watch = threading.Thread(target=lambda: watched.append(step.wait_lost()))
            watch.start()
            if step.add("waiting") == 3:
                step.set("ready", b"")
            if step.rank == 1:
                check.fails(Code.LOST, "rank 3 (node03, local 0)", step.get, "never")
            else:
                check.fails(Code.LOST, "rank 3 (node03, local 0)", step.all_gather, b"x")
            watch.join()
            check.assertEqual(watched[0].rank, 3)
            check.assertIn("rank 3 (node03, local 0)", watched[0].message)

    @staticmethod
    def stopped():
        """Rank 2 gets a signal; all stop at one iteration."""
        with libstep.Step(linger=LONG) as step:
            step.catch_signals(signal.SIGUSR1)
            step.barrier(LONG)
            iteration = 0
            while not step.should_stop(iteration):
                if step.rank == 2 and iteration == 50:
                    os.kill(os.getpid(), signal.SIGUSR1)
                iteration += 1
                time.sleep(0.0001)
            check.assertEqual(set(step.all_gather(b"%d" % iteration, LONG)), {b"%d" % iteration})
            check.assertEqual(step.stop_reason(), "SIGUSR1 reached rank 2 (node02)")
            step.request_stop("too late to be the reason")
            check.assertRaises(TypeError, step.request_stop, None)
            check.assertEqual(step.seconds_left(), math.inf)
            check.fails(Code.SYSTEM, "belongs to no Slurm job", step.requeue)
            check.fails(Code.ARGUMENT, "does not fit", step.should_stop, 1 << 63)
            step.barrier(LONG)

    @staticmethod
    def raised():
        """An exception in one rank's block ends the waiting of the others."""
        try:
            with libstep.Step(linger=LONG) as step:
                step.barrier(LONG)
                if step.rank == 1:
                    raise KeyError("of the program")
                check.fails(Code.LOST, "rank 1 (node01, local 1) called step_close()", step.barrier)
        except KeyError:
            check.assertEqual(step.rank, 1)


class WorldOfFour(Case):
    def all_well(self, body, **endings):
        """Runs it; every rank's exit code is 0, or what endings has for its number."""
        with World(__file__, body, TASKS) as world:
            world.start()
            for rank in range(world.size):
                code, errors = world.end_of(rank)
                self.assertEqual(code, endings.get(f"rank{rank}", 0), f"rank {rank}: {errors}")

    def test_exchange(self):
        self.all_well("exchange")

    def test_too_large_for_all(self):
        self.all_well("too_large")

    def test_missing_rank_is_named(self):
        self.all_well("missing")

    def test_lost_rank_is_named(self):
        self.all_well("lost", rank3=-signal.SIGKILL)

    def test_all_stop_at_one_iteration(self):
        self.all_well("stopped")

    def test_exception_in_one_rank(self):
        self.all_well("raised")


class WorldOfOne(Case):
    def setUp(self):
        self.step = libstep.Step()
        self.addCleanup(self.step.close)

    def test_identity(self):
        step = self.step
        self.assertEqual((step.rank, step.world_size, step.source, step.store_address),
                         (0, 1, libstep.Source.SINGLE, ""))
        self.assertIn("rank 0 of 1", repr(step))

    def test_values(self):
        step = self.step
        for value in (b"", b"\0", bytearray(b"ab"), memoryview(bytes(100_000))):
            step.set("ключ", value)
            self.assertEqual(step.get("ключ"), bytes(value))
        self.assertEqual((step.add("n", -2**63), step.add("n"), step.get("n")),
                         (-2**63, 1 - 2**63, str(1 - 2**63).encode()))
        self.assertEqual([step.compare_and_set("c", *pair) for pair in (
            (b"", b"no"), (None, b""), (None, b"no"), (b"", b"yes"), (b"no", b"no"))],
            [False, True, False, True, False])
        self.assertEqual((step.get("c"), step.key_count()), (b"yes", 3))
        self.assertEqual((step.delete("c"), step.delete("c")), (True, False))

    def test_collectives(self):
        self.assertEqual(self.step.broadcast(b"alone"), b"alone")
        self.assertEqual(self.step.all_gather(b"alone"), [b"alone"])
        self.step.barrier(0)

    def test_waiting(self):
        self.fails(Code.NOT_FOUND, "never", self.step.get, "never", 0)
        self.fails(Code.TIMEOUT, "never", self.step.wait, "never", 0.01)
        self.fails(Code.TIMEOUT, "", self.step.wait_lost, 0.01)
        self.fails(Code.ARGUMENT, "not a number", self.step.barrier, float("nan"))
        self.step.close_watch()
        self.fails(Code.NOT_FOUND, "", self.step.wait_lost)

    def test_a_thread_waits_while_another_works(self):
        got = []
        reader = threading.Thread(target=lambda: got.append(self.step.get("late", LONG)))
        reader.start()
        self.step.set("late", b"now")
        reader.join()
        self.assertEqual(got, [b"now"])

    def test_bad_arguments(self):
        step = self.step
        self.fails(Code.ARGUMENT, "has a NUL", step.get, "a\0b", 0)
        self.fails(Code.ARGUMENT, "the key is empty", step.set, "", b"")
        self.fails(Code.ARGUMENT, "longer than 1024 bytes", step.set, "k" * 1025, b"")
        self.fails(Code.ARGUMENT, "67108865 bytes", step.set, "k", bytes(libstep.VALUE_MAX + 1))
        self.fails(Code.ARGUMENT, "does not fit into 64 bits", step.add, "n", 2**63)
        self.fails(Code.ARGUMENT, "does not fit into 32 bits", step.node_of, 2**32)
        self.fails(Code.ARGUMENT, "root 1 is no rank", step.broadcast, None, 1)
        for call, *arguments in ((step.set, "k", "text"), (step.set, b"k", b""), (step.set, "k", 3),
                                 (step.broadcast,), (step.add, "n", 0.5), (step.barrier, "soon")):
            with self.assertRaises((TypeError, ValueError)):
                call(*arguments)

    def test_closed(self):
        watched = []
        watch = threading.Thread(target=lambda: watched.append(
            self.fails(Code.NOT_FOUND, "", self.step.wait_lost)))
        watch.start()
        while not self.step._callers:  # the thread is on its way into the library
            pass
        self.step.close()  # wakes it
        watch.join()
        self.assertEqual(len(watched), 1)
        self.step.close()
        self.fails(Code.ARGUMENT, "is closed", self.step.key_count)

    def test_forked_child(self):
        self.step.set("k", b"parent")
        child = os.fork()
        if child == 0:
            try:
                self.fails(Code.ARGUMENT, "this is a child it forked", self.step.get, "k")
                self.assertEqual(self.step.rank, 0)
                self.step.close()
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.step.get("k"), b"parent")

    def test_error_travels(self):
        error = pickle.loads(pickle.dumps(StepError(5, "what", "do this")))
        self.assertEqual((error.code, str(error)), (Code.TIMEOUT, "what (do this)"))


class Installation(Case):
    """A program started with the module in a folder, and nothing else said."""

    def run_with(self, folder, **variables):
        return subprocess.run(
            [sys.executable, "-c", "import libstep; print(libstep.Step().world_size)"], text=True,
            env={"PYTHONPATH": str(folder), **variables}, capture_output=True, timeout=LONG)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = pathlib.Path(folder.name)
        self.module = self.prefix / "share/libstep"
        self.module.mkdir(parents=True)
        shutil.copy(libstep.__file__, self.module)

    def test_library_is_found_from_the_module(self):
        for place in ("lib", "lib64", "share/libstep"):
            library = self.prefix / place / "libstep.so.0"
            library.parent.mkdir(exist_ok=True)
            library.symlink_to(os.environ["DIST_TRAIN_LIBSTEP"])
            done = self.run_with(self.module)
            self.assertEqual((done.stdout, done.stderr), ("1\n", ""), place)
            library.unlink()

    def test_library_is_found_by_the_system(self):
        (self.prefix / "libstep.so.0").symlink_to(os.environ["DIST_TRAIN_LIBSTEP"])
        done = self.run_with(self.module, LD_LIBRARY_PATH=str(self.prefix))
        self.assertEqual((done.stdout, done.stderr), ("1\n", ""))

    def test_wrong_library(self):
        other = self.prefix / "other.so"
        other.write_bytes(b"no library")
        for path in (other, self.prefix / "none.so"):
            done = self.run_with(self.module, DIST_TRAIN_LIBSTEP=str(path))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"cannot be loaded: {path}: ", done.stderr)
            self.assertIn("Set DIST_TRAIN_LIBSTEP", done.stderr)

    def test_python_3_8(self):
        ast.parse(pathlib.Path(libstep.__file__).read_text(), feature_version=(3, 8))

    def test_numbers_are_those_of_the_header(self):
        header = pathlib.Path(os.environ["STEP_HEADER"]).read_text()
        for kind, prefix in ((Code, "STEP_ERR_"), (libstep.Source, "STEP_SOURCE_")):
            for one in kind:
                self.assertRegex(header, rf"\b{prefix}{one.name} = {one.value}\b")
            self.assertEqual(len(kind), header.count(f"  {prefix}"))
        self.assertIn(f"#define STEP_KEY_MAX {libstep.KEY_MAX}u", header)
        self.assertIn(f"#define STEP_VALUE_MAX ({libstep.VALUE_MAX >> 20}u << 20)", header)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        getattr(Ranks, sys.argv[2])()
    else:
        unittest.main()
