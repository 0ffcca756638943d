# SPDX-License-Identifier: BSD-3-Clause
"""What a Python program needs to know and share when every task of a job step is a rank.

    import libstep

    with libstep.Step() as step:
        word = step.broadcast(b"made by rank 0" if step.rank == 0 else None, timeout=60)
        step.barrier(timeout=60)            # a StepError names the ranks that did not come
        print(f"rank {step.rank} of {step.world_size}: {word.decode()}")

The same program runs under srun --dist-train, plain srun, torchrun, or alone. This file is all
there is: copy it, or put its folder into PYTHONPATH. It needs Python 3.8 and libstep.so.0, which is
taken from DIST_TRAIN_LIBSTEP (a path) if that is set, else from beside this file or where an
installation has it (../../lib and its like), else from where the system looks (LD_LIBRARY_PATH,
ld.so.conf).

Conventions
  Errors     StepError, with a code, what happened, and what to do about it; OSError where the
             library cannot be loaded; TypeError for what is not bytes, a string or a number.
  Time       Timeouts are in seconds; None waits as long as it takes, 0 tests without waiting.
  Values     are bytes (bytes, bytearray, memoryview) of at most VALUE_MAX bytes; keys are strings
             of 1 to KEY_MAX bytes in UTF-8, without NUL.
  Threads    A Step may be used from several threads at once; a call that waits lets the other
             threads run. Python acts on a signal (Ctrl-C) once the call of the main thread returns.
  Processes  In a child made by fork(), such as a data loader's worker, every call raises StepError
             (Code.ARGUMENT); the attributes remain. Its parent's connection does not notice it.
  Safety     As libstep(3) has it: data are neither encrypted nor signed.
"""
import contextlib
import ctypes
import enum
import functools
import operator
import os
import struct
import sysconfig
import threading
import time
from typing import Iterable, Iterator, List, NamedTuple, Optional, Union

KEY_MAX = 1024
VALUE_MAX = 64 << 20

Bytes = Union[bytes, bytearray, memoryview]


class Code(enum.IntEnum):
    """What kind of failure a StepError is; usable as an exit code."""

    ARGUMENT = 1  # a rank out of range, a key or value too long, a closed or forked Step
    IDENTITY = 2  # the environment contradicts itself or is malformed
    CONNECT = 3  # rank 0's store cannot be reached within the deadline
    AUTH = 4  # the peer does not know this step's token
    TIMEOUT = 5  # the deadline passed; the message names the ranks that did not come
    LOST = 6  # waiting is in vain: a rank was lost or left; the message names it
    NOT_FOUND = 7  # no such key
    TOO_SMALL = 8  # never raised: buffers grow
    PROTOCOL = 9  # the peer speaks another protocol
    MEMORY = 10
    SYSTEM = 11  # a system call failed
    INTERNAL = 12


class Source(enum.IntEnum):
    """Where the identity was found."""

    PLUGIN = 1  # srun --dist-train
    SLURM = 2  # srun alone
    TORCHRUN = 3
    SINGLE = 4  # none of the others: a world of one
    MPIRUN = 5
    VARIABLES = 6  # RANK and WORLD_SIZE, a pod's PET_*, or JAX's


class StepError(Exception):
    """code: a Code; message: what happened and where; hint: what to do about it, or ""."""

    def __init__(self, code: int, message: str, hint: str = ""):
        super().__init__(code, message, hint)
        self.code = Code(code) if code in set(Code) else code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Lost(NamedTuple):
    """A lost rank, and the sentence that says which and where."""

    rank: int
    message: str


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("connect_seconds", ctypes.c_double),
                ("linger_seconds", ctypes.c_double), ("silence_seconds", ctypes.c_double),
                ("stop_seconds", ctypes.c_double)]


def _candidates() -> List[str]:
    """Paths of the library, the likeliest first; a name without a folder is the system's."""
    chosen = os.environ.get("DIST_TRAIN_LIBSTEP")
    if chosen:
        return [chosen]
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [".", "../../lib", "../../lib64"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        folders.append(f"../../lib/{multiarch}")
    paths = [os.path.normpath(os.path.join(here, folder, "libstep.so.0")) for folder in folders]
    return [path for path in paths if os.path.exists(path)] + ["libstep.so.0"]


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    data, size, seconds, wide = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double, ctypes.c_int64
    to = ctypes.POINTER
    declarations = {
        "api_version": (number, ()),
        "strerror": (text, (number,)),
        "open": (number, (to(handle), to(_Options))),
        "close": (None, (handle,)),
        "close_watch": (None, (handle,)),
        "node_of": (text, (handle, number)),
        "set": (number, (handle, text, data, size)),
        "get": (number, (handle, text, data, to(size), seconds)),
        "wait": (number, (handle, to(text), size, seconds)),
        "add": (number, (handle, text, wide, to(wide))),
        "compare_and_set": (number, (handle, text, data, size, data, size, to(number))),
        "delete": (number, (handle, text, to(number))),
        "key_count": (number, (handle, to(wide))),
        "barrier": (number, (handle, seconds)),
        "broadcast": (number, (handle, number, data, size, seconds)),
        "all_gather": (number, (handle, data, size, data, seconds)),
        "wait_lost": (number, (handle, to(number), seconds)),
        "should_stop": (number, (handle, wide)),
        "request_stop": (number, (handle, text)),
        "catch_signals": (number, (handle, to(number), size)),
        "seconds_left": (seconds, (handle,)),
        "requeue": (number, (handle,)),
    }
    for name in ("error", "hint", "stop_reason", "node_name", "source_text", "strategy", "id", "master_address",
                 "store_address"):
        declarations[name] = (text, (handle,))
    for name in ("rank", "world_size", "local_rank", "local_world_size", "node_rank", "node_count",
                 "source", "restart_count", "master_port"):
        declarations[name] = (number, (handle,))
    for name, (result, arguments) in declarations.items():
        function = getattr(library, "step_" + name)
        function.restype, function.argtypes = result, arguments
    return library


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    reasons = []
    for path in _candidates():
        try:
            return _declare(ctypes.CDLL(path))
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
    raise OSError("libstep: the library cannot be loaded: " + "; ".join(reasons) +
                  ". Set DIST_TRAIN_LIBSTEP to the path of libstep.so.0, or add its folder to "
                  "LD_LIBRARY_PATH")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


def _check(code: int, handle: Optional[ctypes.c_void_p]) -> None:
    """Raises the failure of the call that this thread made last, if it was one."""
    if code != 0:
        library = _library()
        message = library.step_error(handle) or library.step_strerror(code)
        raise StepError(code, _decoded(message), _decoded(library.step_hint(handle)))


def _seconds(timeout: Optional[float]) -> float:
    return -1.0 if timeout is None else float(timeout)


def _integer(name: str, value: int, bits: int) -> int:
    """ctypes would cut off what does not fit."""
    value = operator.index(value)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise StepError(Code.ARGUMENT, f"{name} {value} does not fit into {bits} bits")
    return value


def _text(name: str, value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"a {name} is a string, not {type(value).__name__}")
    encoded = value.encode()
    if b"\0" in encoded:
        raise StepError(Code.ARGUMENT, f"the {name} {value!r} has a NUL", "leave it out")
    return encoded


def _bytes(value: Bytes) -> bytes:
    if isinstance(value, str):
        raise TypeError("a value is bytes, not a string; encode() it")
    return bytes(memoryview(value))


def _left_of(timeout: Optional[float]) -> Iterator[float]:
    """What is left of a timeout for each of several calls: all of it for the first."""
    seconds, since = _seconds(timeout), time.monotonic()
    yield seconds
    while True:
        yield seconds if seconds < 0 else max(0.0, seconds - (time.monotonic() - since))


class Step:
    """One process's membership of a step. A context manager: close() at the end of the block.

    Attributes, fixed for the life of the object; ranks and counts are those of the whole step:
      rank, world_size                this task, and how many there are
      local_rank, local_world_size    the same among the tasks on this node
      node_rank, node_count           this node in rank order (rank 0's is 0), how many there are
      node_name                       this node
      source, source_text             a Source, and "srun --dist-train (step 4711.0)"
      strategy                        "fsdp", "hsdp", "zero2", "ddp" or ""
      id                              "4711.0", or "" outside Slurm
      restart_count                   0 on the first run of a job
      master_address, master_port     where this program may let its own rank 0 listen, with
                                      SO_REUSEADDR
      store_address                   of rank 0's store; "" in a world of one
    """

    def __init__(self, connect_timeout: float = 300, linger: float = 30, silence: float = 30,
                 stop_before: float = 0):
        """Finds out who this process is and joins the step's store, which rank 0 serves.

        connect_timeout: how long to wait for rank 0, in seconds; negative: as long as it takes.
        linger: how long rank 0 still serves the others in close(), in seconds; negative: not.
        silence: a rank that gives no sign of life for so long is lost; negative: never. A thread of
        the library gives them, so what is meant is a stopped process or a node cut off; give -1 in
        all ranks where one is to stand in a debugger.
        stop_before: seconds before the job's time limit at which should_stop() stops all (rank 0's
        counts); negative: never; 0: 60, at most a tenth of the time left at the first iteration.
        0 means the default of each. Returns once rank 0 is reached, not when all are here.
        """
        self._idle = threading.Condition()
        self._callers: List[int] = []  # a thread's number for each of its calls under way
        self._process = os.getpid()
        self._handle: Optional[ctypes.c_void_p] = None
        library = _library()
        handle = ctypes.c_void_p()
        options = _Options(ctypes.sizeof(_Options), connect_timeout, linger, silence, stop_before)
        _check(library.step_open(ctypes.byref(handle), ctypes.byref(options)), None)
        self._handle = handle
        self.rank: int = library.step_rank(handle)
        self.world_size: int = library.step_world_size(handle)
        self.local_rank: int = library.step_local_rank(handle)
        self.local_world_size: int = library.step_local_world_size(handle)
        self.node_rank: int = library.step_node_rank(handle)
        self.node_count: int = library.step_node_count(handle)
        self.node_name = _decoded(library.step_node_name(handle))
        self.source = Source(library.step_source(handle))
        self.source_text = _decoded(library.step_source_text(handle))
        self.strategy = _decoded(library.step_strategy(handle))
        self.id = _decoded(library.step_id(handle))
        self.restart_count: int = library.step_restart_count(handle)
        self.master_address = _decoded(library.step_master_address(handle))
        self.master_port: int = library.step_master_port(handle)
        self.store_address = _decoded(library.step_store_address(handle))

    def close(self) -> None:
        """Says goodbye, so that the others do not take this rank for lost.

        Rank 0 keeps serving until every other rank has come and left, or for linger seconds. Wakes
        threads in wait_lost(), and waits until calls of other threads have returned. May be called
        again; does nothing in a forked child. A process that ends without it is lost to the others.
        """
        if os.getpid() != self._process:
            return
        with self._idle:
            if threading.get_ident() in self._callers:
                raise StepError(Code.ARGUMENT, "close() was called inside of another call of the "
                                "same thread", "do not close a Step in a signal handler")
            handle, self._handle = self._handle, None
            if handle is None:
                return
            _library().step_close_watch(handle)
            self._idle.wait_for(lambda: not self._callers)
        _library().step_close(handle)

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, *_: object) -> None:
        """Closes after an exception, too: others that wait for this rank get Code.LOST at once."""
        self.close()

    def __repr__(self) -> str:
        return (f"<libstep.Step: rank {self.rank} of {self.world_size} on {self.node_name}, "
                f"{self.source_text}{'' if self._handle else ', closed'}>")

    def node_of(self, rank: int) -> str:
        """The node that a rank runs on; "?" where that is unknown."""
        with self._in_use() as handle:
            return _decoded(_library().step_node_of(handle, _integer("rank", rank, 32)))

    def set(self, key: str, value: Bytes) -> None:
        """Gives key a value."""
        value = _bytes(value)
        self._call("set", _text("key", key), value, len(value))

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """The value of key, once it exists. Code.TIMEOUT; Code.NOT_FOUND for a timeout of 0."""
        name, left, capacity = _text("key", key), _left_of(timeout), 4096
        while True:  # another rank may make the value longer between two rounds
            buffer, length = ctypes.create_string_buffer(capacity), ctypes.c_size_t(capacity)
            code = self._call("get", name, buffer, ctypes.byref(length), next(left),
                              accept=Code.TOO_SMALL)
            if code == 0:
                return ctypes.string_at(buffer, length.value)
            capacity = length.value

    def wait(self, keys: Union[str, Iterable[str]], timeout: Optional[float] = None) -> None:
        """Waits until all keys exist. Code.TIMEOUT; Code.NOT_FOUND for a timeout of 0."""
        names = [_text("key", key) for key in ([keys] if isinstance(keys, str) else keys)]
        self._call("wait", (ctypes.c_char_p * len(names))(*names), len(names), _seconds(timeout))

    def add(self, key: str, delta: int = 1) -> int:
        """Adds to a number of 64 bits, in decimal digits; a missing key is 0. Returns the sum."""
        result = ctypes.c_int64()
        self._call("add", _text("key", key), _integer("delta", delta, 64), ctypes.byref(result))
        return result.value

    def compare_and_set(self, key: str, expected: Optional[Bytes], desired: Bytes) -> bool:
        """Sets key to desired if its value is expected; None: if it is missing. Whether it did."""
        old = None if expected is None else _bytes(expected)
        new, swapped = _bytes(desired), ctypes.c_int()
        self._call("compare_and_set", _text("key", key), old, len(old or b""), new, len(new),
                   ctypes.byref(swapped))
        return bool(swapped.value)

    def delete(self, key: str) -> bool:
        """Whether the key existed."""
        existed = ctypes.c_int()
        self._call("delete", _text("key", key), ctypes.byref(existed))
        return bool(existed.value)

    def key_count(self) -> int:
        """How many keys the store has."""
        count = ctypes.c_int64()
        self._call("key_count", ctypes.byref(count))
        return count.value

    # Collectives: every rank calls them in the same order, and all return when the last has come.
    # Small data only. When one rank's timeout passes, all get Code.TIMEOUT, and the message names
    # the ranks that did not come, with their nodes. Calls that do not fit give Code.ARGUMENT.

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Waits until every rank is here."""
        self._call("barrier", _seconds(timeout))

    def broadcast(self, data: Optional[Bytes] = None, root: int = 0,
                  timeout: Optional[float] = None) -> bytes:
        """root's data, on every rank. The others give None, and need not know the length."""
        root, left = _integer("root", root, 32), _left_of(timeout)
        mine = b""
        if self.rank == root:
            if data is None:
                raise TypeError(f"broadcast() needs data in rank {root}, its root")
            mine = _bytes(data)
        elif data is not None:
            raise TypeError(f"broadcast() takes data in rank {root}, its root, only; this is rank "
                            f"{self.rank}")
        size = ctypes.create_string_buffer(struct.pack("=Q", len(mine)), 8)
        self._call("broadcast", root, size, 8, next(left))
        length = struct.unpack("=Q", size.raw)[0]
        if length > VALUE_MAX:  # every rank learns this
            raise StepError(Code.ARGUMENT, f"the data of rank {root} have {length} bytes, more "
                            f"than {VALUE_MAX}", "split them, or send them by other means")
        if length == 0:
            return b""
        buffer = ctypes.create_string_buffer(mine, length)
        self._call("broadcast", root, buffer, length, next(left))
        return ctypes.string_at(buffer, length)

    def all_gather(self, data: Bytes, timeout: Optional[float] = None) -> List[bytes]:
        """Every rank's data, in rank order. Lengths may differ; the longest counts world_size times
        towards VALUE_MAX."""
        mine, left = _bytes(data), _left_of(timeout)
        lengths = [struct.unpack("=Q", one)[0] for one in
                   self._gather_equal(struct.pack("=Q", len(mine)), 8, left)]
        longest = max(lengths)
        if longest == 0:
            return [b""] * self.world_size
        padded = self._gather_equal(mine.ljust(longest, b"\0"), longest, left)
        return [one[:length] for one, length in zip(padded, lengths)]

    def wait_lost(self, timeout: Optional[float] = None) -> Lost:
        """Waits until a rank is lost: its process ended, or its connection broke, without close().

        Code.TIMEOUT when none was lost in time; Code.NOT_FOUND after close_watch() or close(), or
        once rank 0 has closed the step. Meant for a thread of its own.
        """
        rank = ctypes.c_int()
        with self._in_use() as handle:
            _check(_library().step_wait_lost(handle, ctypes.byref(rank), _seconds(timeout)), handle)
            return Lost(rank.value, _decoded(_library().step_error(handle)))

    def close_watch(self) -> None:
        """Wakes threads in wait_lost(); later calls of it return at once."""
        with self._in_use() as handle:
            _library().step_close_watch(handle)

    # Ending in order: all ranks stop after the same iteration.
    #     step.catch_signals()
    #     for i in range(first, last):
    #         train()
    #         if step.should_stop(i):
    #             save()
    #             if step.rank == 0:
    #                 step.requeue()
    #             break

    def should_stop(self, iteration: int) -> bool:
        """Whether to stop after this iteration; True on all ranks at the same number.

        Every rank gives the same numbers, in rising order. Costs no message while nobody asks for a
        stop. False once rank 0 was lost, when nothing can be agreed on any more.
        """
        with self._in_use() as handle:
            return bool(_library().step_should_stop(handle, _integer("iteration", iteration, 64)))

    def request_stop(self, reason: str) -> None:
        """Asks for a stop of all ranks. The first reason of all stays, 255 bytes of it."""
        self._call("request_stop", _text("reason", reason))

    def stop_reason(self) -> str:
        """"SIGUSR1 reached rank 3 (node02)"; "" while no stop was asked for."""
        with self._in_use() as handle:
            return _decoded(_library().step_stop_reason(handle))

    def catch_signals(self, *signals: int) -> None:
        """Makes these signals (none: SIGTERM and SIGUSR1) ask for a stop, until close().

        Python's own handlers of theirs are not called. Forked children ignore them, unless they
        come from the parent.
        """
        self._call("catch_signals", (ctypes.c_int * len(signals))(*signals), len(signals))

    def seconds_left(self) -> float:
        """Until the job's time limit; math.inf where there is none or none is known."""
        with self._in_use() as handle:
            return _library().step_seconds_left(handle)

    def requeue(self) -> None:
        """Puts the job back into the queue, and so ends it: save first. One rank is enough."""
        self._call("requeue")

    def _gather_equal(self, mine: bytes, length: int, left: Iterator[float]) -> List[bytes]:
        if length * self.world_size > VALUE_MAX:  # before the buffer is made; on all ranks alike
            raise StepError(Code.ARGUMENT, f"{self.world_size} times {length} bytes are more than "
                            f"{VALUE_MAX}", "gather large data by other means")
        buffer = ctypes.create_string_buffer(length * self.world_size)
        self._call("all_gather", mine, length, buffer, next(left))
        everything = memoryview(buffer).cast("B")
        return [bytes(everything[i * length:(i + 1) * length]) for i in range(self.world_size)]

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[ctypes.c_void_p]:
        """The handle, which close() leaves alone meanwhile."""
        if os.getpid() != self._process:  # here the lock may stay held; the library refuses
            yield self._handle
            return
        me = threading.get_ident()
        with self._idle:
            handle = self._handle
            if handle is None:
                raise StepError(Code.ARGUMENT, "the Step is closed", "open another: libstep.Step()")
            self._callers.append(me)
        try:
            yield handle
        finally:
            with self._idle:
                self._callers.remove(me)
                self._idle.notify_all()

    def _call(self, name: str, *arguments: object, accept: int = 0) -> int:
        with self._in_use() as handle:
            code = getattr(_library(), "step_" + name)(handle, *arguments)
            if code != accept:
                _check(code, handle)
            return code
