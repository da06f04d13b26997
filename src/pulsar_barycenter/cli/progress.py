"""Progress on standard error, for a person who looks at it, of what takes longer than a moment."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_PATIENCE_S: Final = 2.0
_LOOK_S: Final = 0.2

_T = TypeVar("_T")


def with_progress(items: Sequence[_T], what: str) -> Iterator[_T]:
    """Pass `items` on; after two seconds show how many are done of `what` is being done."""
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
    """Show how many of the tasks that Spark is at are done, as `session.tasks_of` tells, as long as the block lasts."""
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


def _bar(time_column: ProgressColumn) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), time_column)
    return Progress(*columns, console=Console(stderr=True), transient=True)
