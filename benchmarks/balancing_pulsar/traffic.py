"""Plays traces of events as numbered messages of a stock client: each topic at the rate of its trace, played fast."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pulsar

from pulsar_barycenter.replay.traces import Trace, read_trace_with_gaps
from support.stock_client import connect

_TURN_S: Final = 0.05
_MEAN_OF: Final = 6
"""Steps of a trace that are played as one, half an hour of the tweets."""
_MOST: Final = 4.0
"""A step is played with at most so many times the mean of its trace: single tweets went around the world."""
_PAYLOAD: Final = 1024
_LEAST_PER_S: Final = 2.0
"""Every topic sends so often that a gap can be seen."""


def rates_of(folder: Path, topics: int, steps: int, total: float) -> list[list[float]]:
    """Return the messages a second of each topic in each step; all topics together send `total` on average.

    Topic k plays the trace k modulo the number of traces, from another day on for each round of the traces.
    """
    traces = [_trace(file) for file in sorted(folder.glob("*.csv"))]
    found = []
    for number in range(topics):
        values, turn = _smooth(traces[number % len(traces)]), number // len(traces)
        begin = turn * 5 * 48
        found.append([values[(begin + step) % len(values)] for step in range(steps)])
    mean = sum(map(sum, found)) / steps
    return [[max(_LEAST_PER_S, total * value / mean) for value in values] for values in found]


def _trace(file: Path) -> Trace:
    with file.open(encoding="utf-8") as lines:
        return read_trace_with_gaps(file.stem, lines)


def _smooth(trace: Trace) -> list[float]:
    values = [
        sum(trace.values[at : at + _MEAN_OF]) / _MEAN_OF for at in range(0, len(trace.values) - _MEAN_OF, _MEAN_OF)
    ]
    mean = sum(values) / len(values)
    return [min(value, _MOST * mean) for value in values]


class Traffic:
    """Sends and consumes in threads of its own, until `close`."""

    def __init__(self, service_url: str, rates: Mapping[str, Sequence[float]], step_s: float) -> None:
        self._rates, self._step_s = rates, step_s
        self._client = connect(
            service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), message_listener_threads=1
        )
        self._lock = threading.Lock()
        self.sent = dict.fromkeys(rates, 0)
        self.failures: list[str] = []
        self._acknowledged: dict[str, set[int]] = {topic: set() for topic in rates}
        self._arrived: dict[str, set[int]] = {topic: set() for topic in rates}
        self._latencies_s: list[float] = []
        self._consumers = [
            self._client.subscribe(topic, "bench", message_listener=partial(self._came, topic)) for topic in rates
        ]
        self._producers = {
            topic: self._client.create_producer(
                topic, batching_enabled=False, send_timeout_millis=0, max_pending_messages=50_000
            )
            for topic in rates
        }
        self._began_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def start(self) -> None:
        """Begin with the first step of the traces."""
        self._began_s = time.monotonic()
        self._thread.start()

    def forget(self) -> None:
        """Forget the latencies so far."""
        with self._lock:
            self._latencies_s.clear()

    def latencies_s(self) -> list[float]:
        """Return the time from the call of send to the receipt, of each message since `forget`."""
        with self._lock:
            return list(self._latencies_s)

    def close(self) -> int:
        """Stop sending; return the number of acknowledged messages that did not arrive."""
        self._ended.set()
        self._thread.join()
        try:
            for _ in range(600):
                if self._missing() == 0:
                    break
                time.sleep(0.1)
            return self._missing()
        finally:
            self._client.close()

    def _missing(self) -> int:
        with self._lock:
            is_open = sum(self.sent.values()) - sum(map(len, self._acknowledged.values())) - len(self.failures)
            lost = sum(len(self._acknowledged[topic] - self._arrived[topic]) for topic in self.sent)
            return is_open + lost

    def _send(self) -> None:
        credit, last_s = dict.fromkeys(self._rates, 0.0), self._began_s
        payload = bytes(_PAYLOAD)
        while not self._ended.wait(_TURN_S):
            now_s = time.monotonic()
            step = int((now_s - self._began_s) / self._step_s)
            for topic, rates in self._rates.items():
                credit[topic] += rates[step % len(rates)] * (now_s - last_s)
                while credit[topic] >= 1:
                    credit[topic] -= 1
                    number = self.sent[topic]
                    self.sent[topic] = number + 1
                    done = partial(self._receipt, topic, number, time.monotonic())
                    self._producers[topic].send_async(payload, done, properties={"number": str(number)})
            last_s = now_s

    def _receipt(self, topic: str, number: int, sent_s: float, result: Any, _: Any) -> None:
        with self._lock:
            if result == pulsar.Result.Ok:
                self._acknowledged[topic].add(number)
                self._latencies_s.append(time.monotonic() - sent_s)
            else:
                self.failures.append(str(result))

    def _came(self, topic: str, consumer: Any, message: Any) -> None:
        number = int(message.properties()["number"])
        with self._lock:
            self._arrived[topic].add(number)
        consumer.acknowledge(message)
