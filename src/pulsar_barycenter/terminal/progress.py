"""Shows the progress of long tasks on standard error, if it is a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from pulsar_barycenter.terminal.live_lines import LiveLines, clock, is_redrawable

_PATIENCE_S: Final = 2.0
_LOOK_S: Final = 0.2
_BAR_WIDTH: Final = 40
_STARTING: Final = "starting Spark"

_T = TypeVar("_T")


def with_progress(items: Sequence[_T], what: str) -> Generator[_T, None, None]:
    """Yield `items`; on a terminal, show from two seconds after the start on how many items are done. `what` is the
    name of the task to show.
    """
    started_s = time.monotonic()
    lines: LiveLines | None = None
    try:
        for number, item in enumerate(items):
            elapsed_s = time.monotonic() - started_s
            if lines is None and elapsed_s > _PATIENCE_S and is_redrawable(sys.stderr):
                lines = LiveLines(sys.stderr)
            if lines is not None:
                rest = f", {clock(elapsed_s / number * (len(items) - number))} left" if number else ""
                lines.show(what, partial(str, f"{what} {_bar(number, len(items))}{rest}"))
            yield item
    finally:
        if lines is not None:
            lines.close()


@contextmanager
def spark_progress(tasks: Callable[[], tuple[int, int]], what: str) -> Iterator[None]:
    """On a terminal, show while the block runs how many of Spark's tasks are done. `tasks` returns the number of done
    tasks and the number of all tasks (see `session.tasks_of`); `what` is the text to show. Without a terminal, nothing
    is shown.
    """
    if not is_redrawable(sys.stderr):
        yield
        return
    is_over = threading.Event()
    lines = LiveLines(sys.stderr)
    lines.show(what, partial(str, what))

    def look() -> None:
        while not is_over.wait(_LOOK_S):
            done, total = tasks()
            lines.show(what, partial(str, f"{what} {_bar(done, total)}" if total else what))

    watcher = threading.Thread(target=look, name="progress of Spark")
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        lines.close()


@contextmanager
def spark_start(*, answers_a_program: bool = False) -> Iterator[Callable[[str], None]]:
    """Show that Spark starts, until the block ends. Yield a function to which the caller passes the name of each phase.

    On a terminal, one line shows the phase and the time since the start. Otherwise each phase is printed as one line;
    if `answers_a_program` is True, the output is for a program, and nothing is printed.
    """
    if not is_redrawable(sys.stderr):
        say = _no_words if answers_a_program else _line
        say(_STARTING)
        yield say
        return
    lines = LiveLines(sys.stderr)
    lines.show(_STARTING, partial(str, _STARTING))
    try:
        yield lambda phase: lines.show(_STARTING, partial(str, phase))
    finally:
        lines.close()


def _no_words(phase: str) -> None: ...


def _line(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class StartLines:
    """Shows the start of a cluster on standard error. Implements `standalone.progress.StartProgress`.

    On a terminal, there is a line for each step that has ended, and below these lines one for each step in progress,
    with the time since its start. Otherwise, a line is printed at the begin and at the end of each step.
    """

    def __init__(self) -> None:
        self._lines = LiveLines(sys.stderr) if is_redrawable(sys.stderr) else None

    def phase(self, name: str, doing: str) -> None:
        if self._lines is None:
            _line(f"{name}: {doing}")
        else:
            self._lines.show(name, partial(str, f"{name}: {doing}"))

    def done(self, name: str, result: str) -> None:
        if self._lines is not None:
            self._lines.remove(name)
        self.event(f"{name}: {result}")

    def event(self, text: str) -> None:
        if self._lines is None:
            _line(text)
        else:
            self._lines.print(text)

    def close(self) -> None:
        """Remove the lines of steps in progress from the terminal. Idempotent."""
        if self._lines is not None:
            self._lines.close()


def _bar(done: int, total: int) -> str:
    """Return a progress bar, as text, that shows `done` of `total`, with both numbers."""
    filled = _BAR_WIDTH * done // max(1, total)
    return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done}/{total}"
