"""A flow of numbered messages while a cluster is operated: the lost messages, and the longest time without an
arrival."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from support.numbered_messages import NumberedProducer, stock_client, subscribe_before_sending

_PAUSE_S: Final = 0.01


class NumberedFlow:
    """Produces numbers to each topic, and consumes them, in threads of its own."""

    def __init__(self, service_url: str, topics: list[str]) -> None:
        self.arrived: dict[str, list[int]] = {topic: [] for topic in topics}
        self.gap_s = 0.0
        """The longest time in which one topic's consumer got nothing."""
        self._last_s: dict[str, float] = {}
        self._changed = threading.Condition()
        self._client = stock_client(service_url)
        self._ended = threading.Event()
        for topic in topics:
            subscribe_before_sending(self._client, topic)
            self._client.subscribe(topic, "check", message_listener=self._listener(topic))
        self._producers = {topic: NumberedProducer(self._client, topic) for topic in topics}
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def wait_for_more(self, count: int, *, within_s: float = 60) -> None:
        """Return once `count` more messages of each topic have arrived."""
        with self._changed:
            wanted = {topic: len(numbers) + count for topic, numbers in self.arrived.items()}
            done = self._changed.wait_for(
                lambda: all(len(self.arrived[topic]) >= least for topic, least in wanted.items()), within_s
            )
        assert done, f"{ {topic: len(numbers) for topic, numbers in self.arrived.items()} } of {wanted}"

    def latency_s(self, quantile: float) -> float:
        """Return the publish latency below which this fraction of all messages was acknowledged so far."""
        found = sorted(latency for producer in self._producers.values() for latency in producer.latencies_s)
        return found[min(len(found) - 1, int(quantile * len(found)))]

    def close(self) -> dict[str, list[int]]:
        """Stop sending; return by topic the acknowledged messages that never arrived."""
        self._ended.set()
        self._thread.join()
        try:
            for producer in self._producers.values():
                producer.wait_acknowledged(producer.sent, within_s=60)
            with self._changed:
                self._changed.wait_for(lambda: not any(self._lost().values()), 60)
                return {topic: lost for topic, lost in self._lost().items() if lost}
        finally:
            self._client.close()

    def _lost(self) -> dict[str, list[int]]:
        return {
            topic: sorted(producer.acknowledged - set(self.arrived[topic]))
            for topic, producer in self._producers.items()
        }

    def _send(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            for producer in self._producers.values():
                producer.send(1)

    def _listener(self, topic: str) -> Callable[[Any, Any], None]:
        def came(consumer: Any, message: Any) -> None:
            now_s = time.monotonic()
            with self._changed:
                self.gap_s = max(self.gap_s, now_s - self._last_s.get(topic, now_s))
                self._last_s[topic] = now_s
                self.arrived[topic].append(int(message.data()))
                self._changed.notify_all()
            consumer.acknowledge(message)

        return came


@contextmanager
def flowing(service_url: str, topics: list[str]) -> Iterator[NumberedFlow]:
    """Run a flow of messages while the block lasts; at the end no acknowledged message may be missing."""
    flow = NumberedFlow(service_url, topics)
    try:
        flow.wait_for_more(20)
        yield flow
        flow.wait_for_more(20)
    finally:
        lost = flow.close()
    assert lost == {}
