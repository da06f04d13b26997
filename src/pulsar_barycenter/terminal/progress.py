"""Shows the progress of long tasks on standard error, if it is a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_PATIENCE_S: Final = 2.0
_LOOK_S: Final = 0.2
_STARTING: Final = "starting Spark"

_T = TypeVar("_T")


def with_progress(items: Sequence[_T], what: str) -> Iterator[_T]:
    """Yield `items`; after two seconds show how many are done. `what` names the task."""
    started = time.monotonic()
    bar: Progress | None = None
    try:
        for number, item in enumerate(items):
            if bar is None and sys.stderr.isatty() and time.monotonic() - started > _PATIENCE_S:
                bar = _bar(TimeRemainingColumn())
                bar.start()
                bar.add_task(what, total=len(items))
            if bar is not None:
                bar.update(bar.task_ids[0], completed=number)
            yield item
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def spark_progress(tasks: Callable[[], tuple[int, int]], what: str) -> Iterator[None]:
    """Show how many of Spark's tasks are done (`session.tasks_of`), while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    is_over = threading.Event()
    with _bar(TimeElapsedColumn()) as bar:
        shown = bar.add_task(what, total=None)

        def look() -> None:
            while not is_over.wait(_LOOK_S):
                done, total = tasks()
                bar.update(shown, completed=done, total=total or None)

        watcher = threading.Thread(target=look, name="progress of Spark")
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()


@contextmanager
def spark_start(*, answers_a_program: bool = False) -> Iterator[Callable[[str], None]]:
    """Show that Spark starts, until the block ends. Yield a function to which the caller passes the name of each phase.

    On a terminal, the time since the start is shown too. Elsewhere each phase is one line; if the command
    `answers_a_program`, nothing is shown.
    """
    if not sys.stderr.isatty():
        say = _no_words if answers_a_program else _line
        say(_STARTING)
        yield say
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        shown = bar.add_task(_STARTING, total=None)
        yield lambda phase: bar.update(shown, description=phase)


def _no_words(phase: str) -> None: ...


def _line(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class StartLines:
    """Shows the start of a cluster on standard error, as `standalone.progress.StartProgress`: a line for each step.

    On a terminal, the steps in progress are shown below the lines, with the time since their start.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                *(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,  # standard output may be another terminal, a file or a program
            )

    def phase(self, name: str, doing: str) -> None:
        if self._bar is None:
            self._print(f"{name}: {doing}")
            return
        if name in self._tasks:
            self._bar.update(self._tasks[name], description=f"{name}: {doing}")
            return
        if not self._tasks:
            self._bar.start()
        self._tasks[name] = self._bar.add_task(f"{name}: {doing}")

    def done(self, name: str, result: str) -> None:
        if self._bar is not None and name in self._tasks:
            self._bar.remove_task(self._tasks.pop(name))
            if not self._tasks:
                self._bar.stop()
        self._print(f"{name}: {result}")

    def event(self, text: str) -> None:
        self._print(text)

    def close(self) -> None:
        """Remove the display below the lines. Idempotent."""
        if self._bar is not None and self._tasks:
            self._tasks.clear()
            self._bar.stop()

    def _print(self, text: str) -> None:
        if self._bar is not None and self._tasks:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            _line(text)


def _bar(time_column: ProgressColumn) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), time_column)
    return Progress(*columns, console=Console(stderr=True), transient=True)
