"""Ends a command after a signal: it prints one line, ends its children, and exits with 130 (Ctrl-C) or 143 (SIGTERM).

Commands with an orderly end (`standalone`, `broker`, `collect`, `demo`, `pipeline run`) handle the signals themselves
as soon as they run. Before that, and for all other commands, the rule of this module applies.
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
    """A signal asked the process to end. The exit code is 128 plus the number of the signal, as shells report it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While the block runs, let SIGINT and SIGTERM end this process and all processes that it started.

    The block is left by an exception, so that temporary files are deleted. After the signal no errors are printed:
    Java, which is ended too, would cause many. In a thread other than the main one this does nothing, because signals
    do not reach it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, _interrupt)) for number in _SIGNALS]
    try:
        yield
    except (
        InterruptedBySignal
    ) as interrupted:  # raised by the handler here, or by a command that handles the signal itself
        _begin_end(interrupted.number)
    except KeyboardInterrupt:  # PySpark installs its own handler while it starts
        _begin_end(signal.SIGINT)
    finally:
        if _ended_by:
            os._exit(128 + _ended_by[0])  # the exit handlers of Python would call Java
        for number, handler in before:
            signal.signal(number, handler)


_ended_by: list[int] = []
"""The signal that ends this process."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _begin_end(number)
    raise InterruptedBySignal(number)


def _begin_end(number: int) -> None:
    """React to the signal `number`: print one line, suppress all later output, and end the processes that this process
    started.
    """
    if _ended_by:
        return
    _ended_by.append(number)
    for signal_number in _SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        cursor = _SHOW_CURSOR if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, cursor + b"barycenter: interrupted\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _end_children()


def _end_children() -> None:
    """End all descendants: Java, which ignores Ctrl-C, and Spark's workers, which have their own process groups.

    Java gets SIGTERM first, so that it deletes its temporary folders; it would print errors if it lost its workers.
    """
    import psutil  # only an interrupted command needs it

    own = psutil.Process()
    below = own.children(recursive=True)
    first = own.children()
    for processes in (first, [process for process in below if process not in first]):
        for process in processes:
            with suppress(psutil.Error):
                process.terminate()
        _, left = psutil.wait_procs(processes, timeout=_TIME_TO_END_S)
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=_TIME_TO_END_S)
