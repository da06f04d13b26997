"""Numbered messages through the stock client: which were acknowledged, which arrived, in which order."""

import threading
import time
from pathlib import Path
from typing import Any

import pulsar

from support.stock_client import connect


def stock_client(service_url: str, *, log: Path | None = None, **options: Any) -> Any:
    """Return a client that logs to the file `log`, or prints its errors if there is none."""
    if log is None:
        logger: Any = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    else:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(log))
    return connect(service_url, logger=logger, **options)


class NumberedProducer:
    """Sends 0, 1, 2, … and records which were acknowledged; a name, if given, precedes each number. With `keys` the
    messages have that number of keys in turn.
    """

    def __init__(self, client: Any, topic: str, *, batching: bool = True, name: str = "", keys: int = 0) -> None:
        self.prefix = f"{name}:" if name else ""
        self._keys = keys
        self.acknowledged: set[int] = set()
        self.failures: list[str] = []
        self.latencies_s: list[float] = []
        """The time from each send to its receipt."""
        self.sent = 0
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._producer = client.create_producer(
            topic,
            batching_enabled=batching,
            batching_max_publish_delay_ms=1,
            block_if_queue_full=True,
            send_timeout_millis=0,
        )

    def send(self, count: int, *, pause_s: float = 0.0) -> None:
        """Send `count` more messages, `pause_s` apart, without waiting for receipts."""
        for number in range(self.sent, self.sent + count):
            key = {"partition_key": str(number % self._keys)} if self._keys else {}
            self._producer.send_async(f"{self.prefix}{number}".encode(), self._receipt(number), **key)
            self.sent = number + 1
            if pause_s and self._stop.wait(pause_s):
                return

    def wait_acknowledged(self, count: int, *, within_s: float) -> None:
        with self._changed:
            done = self._changed.wait_for(lambda: len(self.acknowledged) + len(self.failures) >= count, within_s)
        assert done, f"{len(self.acknowledged)} of {count} receipts within {within_s} s; failures {self.failures[:3]}"

    def stop(self) -> None:
        self._stop.set()

    def _receipt(self, number: int) -> Any:
        sent_s = time.monotonic()

        def done(result: Any, message_id: Any) -> None:
            with self._changed:
                if result == pulsar.Result.Ok:
                    self.acknowledged.add(number)
                    self.latencies_s.append(time.monotonic() - sent_s)
                else:
                    self.failures.append(f"{number}: {result}")
                self._changed.notify_all()

        return done


def subscribe_before_sending(client: Any, topic: str, *, subscription: str = "check") -> None:
    """Create the subscription: messages that a topic gets before its first subscription are kept for no consumer."""
    client.subscribe(topic, subscription, initial_position=pulsar.InitialPosition.Earliest).close()


def receive_all(
    client: Any, topic: str, count: int, *, subscription: str = "check", within_s: float = 60.0
) -> list[int]:
    """Return numbers in the order of their first arrival until `count` different ones arrived."""
    consumer = client.subscribe(topic, subscription, initial_position=pulsar.InitialPosition.Earliest)
    firsts: dict[int, None] = {}
    try:
        while len(firsts) < count:
            message = consumer.receive(timeout_millis=int(within_s * 1000))
            firsts[int(message.data())] = None
            consumer.acknowledge_cumulative(message)
    finally:
        consumer.close()
    return list(firsts)
