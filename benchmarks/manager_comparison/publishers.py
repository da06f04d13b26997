"""Publishes to many topics with Pulsar's own client, and measures how long each message waits for its receipt."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import pulsar

_TICK_S: Final = 0.02
_ENOUGH: Final = 1_000_000
"""Messages that may wait for a receipt: whoever has none for a while is not to be told to stop."""


class Publishers:
    """A producer on every partition of a topic; messages go to the partitions in turn, unbatched.

    `latencies_s` are from the call of send to the receipt, in the order of receipts. Errors of the client are not
    shown: brokers that stop make thousands.
    """

    def __init__(self, service_url: str, topic: str, partitions: int, payload_bytes: int) -> None:
        self.latencies_s: list[float] = []
        self.failures: list[object] = []
        self._partitions = partitions
        self._payload = bytes(payload_bytes)
        self._client: Any = pulsar.Client(
            service_url, operation_timeout_seconds=120, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        )
        self._producer = self._client.create_producer(
            topic,
            send_timeout_millis=0,
            max_pending_messages=_ENOUGH,
            max_pending_messages_across_partitions=_ENOUGH,
        )
        self._sent = 0
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def send(self, count: int) -> None:
        """Send the next `count` messages, without waiting."""
        self._sent += count
        for _ in range(count):
            self._producer.send_async(self._payload, partial(self._receipt, time.perf_counter()))

    def send_to_all(self) -> None:
        """Send a message to every partition, without waiting."""
        self.send(self._partitions)

    @contextmanager
    def sending(self, rate: float) -> Iterator[None]:
        """Send so many messages a second meanwhile."""
        stop = threading.Event()
        thread = threading.Thread(target=self._send_steadily, args=(rate, stop), name="publish")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def drain(self, timeout_s: float) -> None:
        """Wait until every message has its receipt.

        Raises:
            TimeoutError: how many have none.
            RuntimeError: the client refused one.
        """
        with self._changed:
            done = self._changed.wait_for(lambda: self._answered == self._sent, timeout_s)
        if not done:
            raise TimeoutError(f"{self._sent - self._answered} messages have no receipt")
        if self.failures:
            raise RuntimeError(f"{len(self.failures)} messages failed, the first with {self.failures[0]}")

    @property
    def _answered(self) -> int:
        return len(self.latencies_s) + len(self.failures)

    def _send_steadily(self, rate: float, stop: threading.Event) -> None:
        start, sent = time.perf_counter(), 0
        while not stop.wait(_TICK_S):
            due = int((time.perf_counter() - start) * rate) - sent
            self.send(due)
            sent += due

    def _receipt(self, sent_at_s: float, result: Any, _: Any) -> None:
        at_s = time.perf_counter()
        if result != pulsar.Result.Ok:
            self.failures.append(result)
        else:
            self.latencies_s.append(at_s - sent_at_s)
        if self._answered == self._sent:
            with self._changed:
                self._changed.notify_all()
