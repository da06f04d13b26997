"""How soon a waiting thread of this process runs again, where processors and the interpreter are wanted by others too.

A message passes from the event loop to a thread that syncs it and back, and waits for its turn each time.

- *The interpreter lock.* A thread that comes back from the disk asks a busy event loop for the lock, and gets it after
  Python's switch interval: 5 ms by itself, and several times for one group of messages.
- *The processor.* Linux from 6.12 on lets a thread ask for a shorter slice than others. It gets no larger share of the
  processor, and has it in smaller pieces: a thread that wakes up need not wait until others have used up their slices.
- *The garbage collector.* Nothing runs while it looks through all objects, those of every module included. What is
  loaded before a broker starts stays to the end, so it need not be looked through again.
"""

import ctypes
import gc
import os
import platform
import struct
import sys
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
SLICE_NS: Final = 500_000

_CALLS: Final = {"x86_64": (315, 314), "aarch64": (275, 274), "riscv64": (275, 274)}
"""Numbers of sched_getattr and sched_setattr: C libraries before 2025 have no names for them."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority, runtime (here the slice), deadline, period."""
_ORDINARY: Final = (os.SCHED_OTHER, os.SCHED_BATCH) if sys.platform == "linux" else ()


def take_short_turns() -> None:
    """Shorten the switch interval, the slice of this thread and of all that it starts later, and garbage collections.

    An older kernel takes no notice of the slice; where it may not be asked for, all stays as it is.
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
