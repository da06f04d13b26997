"""Listens to the triggers of Spark's streams."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener


class TriggerListener(StreamingQueryListener):
    """Passes on `durationMs` of every trigger that read rows; Spark calls it in a thread of its own."""

    def __init__(self, on_trigger: Callable[[Mapping[str, int]], None]) -> None:
        self._on_trigger = on_trigger

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - PySpark's name, like the next ones
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.numInputRows:
            self._on_trigger(event.progress.durationMs)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


@contextmanager
def listening(session: SparkSession, on_trigger: Callable[[Mapping[str, int]], None]) -> Iterator[None]:
    """Pass on the phases of triggers of `session` while the block lasts."""
    listener = TriggerListener(on_trigger)
    session.streams.addListener(listener)
    try:
        yield
    finally:
        session.streams.removeListener(listener)
