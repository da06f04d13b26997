"""A progress bar for what takes longer than a moment."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_PATIENCE_S: Final = 2.0

_T = TypeVar("_T")


def with_progress(items: Sequence[_T], what: str) -> Iterator[_T]:
    """Pass `items` on; after two seconds show on standard error how many are done, if a person is looking."""
    started = time.monotonic()
    bar: Progress | None = None
    try:
        for number, item in enumerate(items):
            if bar is None and sys.stderr.isatty() and time.monotonic() - started > _PATIENCE_S:
                bar = Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeRemainingColumn(),
                    console=Console(stderr=True),
                    transient=True,
                )
                bar.start()
                bar.add_task(f"reading {what}", total=len(items))
            if bar is not None:
                bar.update(bar.task_ids[0], completed=number)
            yield item
    finally:
        if bar is not None:
            bar.stop()
