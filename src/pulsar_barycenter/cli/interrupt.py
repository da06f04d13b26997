"""How a command ends that is told to: Ctrl-C ends it with 130 and SIGTERM with 143, by one line and with its children.

Commands that have something to bring to an end (`standalone`, `broker`, `collect`, `demo`, `pipeline run`) take the
signals themselves as soon as they have; until then, and for all others, this holds.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_TIME_TO_END_S: Final = 5.0
_SHOW_CURSOR: Final = b"\r\x1b[K\x1b[?25h"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class InterruptedBySignal(SystemExit):
    """The process was told to end; the code is the one shells give a process that a signal ended."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGINT and SIGTERM end this process as long as the block lasts, with all processes that it started.

    The block is left in order, so that temporary files go; what fails in it then, as Java is gone, is not told.
    In another thread than the main one, which no signal reaches, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, _interrupt)) for number in _SIGNALS]
    try:
        yield
    except InterruptedBySignal as interrupted:  # by the signal's own handler, or by a command that took the signal
        _begin_end(interrupted.number)
    except KeyboardInterrupt:  # PySpark has a handler of its own while it starts
        _begin_end(signal.SIGINT)
    finally:
        if _ended_by:
            os._exit(128 + _ended_by[0])  # what Python does at its end would ask Java, too
        for number, handler in before:
            signal.signal(number, handler)


_ended_by: list[int] = []
"""The signal that this process is ending by."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _begin_end(number)
    raise InterruptedBySignal(number)


def _begin_end(number: int) -> None:
    """Say the one line, stay silent from then on, and end the children."""
    if _ended_by:
        return
    _ended_by.append(number)
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        cursor = _SHOW_CURSOR if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, cursor + b"barycenter: interrupted\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _end_children()


def _end_children() -> None:
    """End all processes below this one: Java, which ignores Ctrl-C, and Spark's workers, in groups of their own.

    Java first, and asked, so that it clears its temporary folders: a Java that lost its workers would tell of it.
    """
    import psutil  # not needed by a command that is not interrupted

    own = psutil.Process()
    below = own.children(recursive=True)
    first = own.children()
    for processes in (first, [each for each in below if each not in first]):
        for process in processes:
            with suppress(psutil.Error):
                process.terminate()
        _, left = psutil.wait_procs(processes, timeout=_TIME_TO_END_S)
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=_TIME_TO_END_S)
