"""Makes the waiting threads of a broker's process run again sooner, when they share processors and the interpreter
lock; and makes a process start sooner.

A message passes from the event loop to a thread that syncs it to the disk, and back; each time it waits for a thread to
run.

- *The interpreter lock.* A thread that returns from the disk needs the lock from a busy event loop. It gets the lock
  after Python's switch interval: 5 ms by default, and several times for one group of messages.
- *The processor.* On Linux 6.12 and later, a thread may request a shorter time slice. It gets the same share of the
  processor, in smaller pieces: a thread that wakes up does not wait until others have used up their slices.
- *The garbage collector.* It stops all threads while it scans all objects, including those of all modules. Objects that
  exist before a broker starts stay until the end, so they need not be scanned again. While modules are imported there
  is little garbage and much to scan.
"""

import ctypes
import gc
import os
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
SLICE_NS: Final = 500_000

_CALLS: Final = {"x86_64": (315, 314), "aarch64": (275, 274), "riscv64": (275, 274)}
"""The system call numbers of sched_getattr and sched_setattr, which C libraries before 2025 do not define."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority, runtime (here the slice), deadline, period."""
_ORDINARY: Final = (os.SCHED_OTHER, os.SCHED_BATCH) if sys.platform == "linux" else ()


@contextmanager
def imports_without_collections() -> Iterator[None]:
    """Switch off garbage collection while the block imports modules, because collections would take about a tenth of
    the time of the imports.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def take_short_turns() -> None:
    """Shorten three things, so that this process answers faster: Python's switch interval between threads, garbage
    collections, and the kernel's time slice for this thread and for all threads that it starts later.

    An older kernel ignores the time slice; if the kernel does not allow the request, the time slice stays as it is.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    calls = _CALLS.get(platform.machine())
    if calls is None or sys.platform != "linux":
        return
    kernel = ctypes.CDLL(None)
    read, write = calls
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if kernel.syscall(read, 0, buffer, len(buffer), 0) != 0:
        return
    _, policy, flags, nice, priority, _, deadline, period = _ATTRIBUTES.unpack(buffer.raw)
    if policy in _ORDINARY:
        buffer.raw = _ATTRIBUTES.pack(len(buffer), policy, flags, nice, priority, SLICE_NS, deadline, period)
        kernel.syscall(write, 0, buffer, 0)
