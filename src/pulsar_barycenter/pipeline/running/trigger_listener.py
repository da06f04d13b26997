"""Listens to the triggers of Spark's streams."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener


class TriggerListener(StreamingQueryListener):
    """Calls `on_trigger` after each trigger of a Spark stream that read rows, with the times of its phases (ms). Spark
    makes the call in a thread of its own.
    """

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
    """Until the block ends, call `on_trigger` with the times of the phases (ms) of each trigger of a stream of
    `session` that read rows.
    """
    listener = TriggerListener(on_trigger)
    session.streams.addListener(listener)
    try:
        yield
    finally:
        session.streams.removeListener(listener)
