"""The client process of a demo: Pulsar's own producers and consumers, which follow traces and count messages.

It reads a `ClientPlan` and then `Mark`s as JSON lines from standard input, and writes `Progress` and finally a
`ClientResult` to standard output. It is a separate process, so that counting does not slow down the observed cluster.
"""

import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pulsar

from pulsar_barycenter.demo.plan import ClientPlan, ClientResult, Mark, Progress, TopicPlan, TopicResult
from pulsar_barycenter.demo.tally import TopicTally
from pulsar_barycenter.replay.traces import Trace

_TICK_S = 0.02
_PROGRESS_EVERY_S = 0.5
_HEADER = struct.Struct(">qd")
_SUBSCRIPTION = "demo"
_MOST_PENDING = 100_000
_MOST_GAPS = 200
"""The maximum number of gaps of a topic in the result: the longest ones."""


class TopicClients:
    """The producer and the consumer of one topic. Callbacks arrive on the client library's threads."""

    def __init__(self, client: Any, plan: TopicPlan, run: ClientPlan) -> None:
        self.tally = TopicTally(plan.topic)
        self.recovered_at_s: float | None = None
        self._marked_at_s: float | None = None
        self._trace = Trace(plan.topic, 0, plan.step_ms, tuple(plan.values))
        self._run = run
        self._credit = 0.0
        self._lock = threading.Lock()
        self._padding = bytes(max(0, run.payload_bytes - _HEADER.size))
        self._consumer = client.subscribe(
            plan.topic,
            _SUBSCRIPTION,
            initial_position=pulsar.InitialPosition.Earliest,
            message_listener=self._on_message,
        )
        self._producer = client.create_producer(
            plan.topic, send_timeout_millis=0, max_pending_messages=_MOST_PENDING, block_if_queue_full=False
        )

    def send_due(self, at_s: float, passed_s: float) -> None:
        """Send the messages that are due for the last `passed_s` seconds, at the rate that the trace has at `at_s`,
        seconds since the start of the run. Both are by the clock, not in trace time.
        """
        rate = self._trace.rate_at(at_s * self._run.speedup) * self._run.speedup
        self._credit += min(max(rate, self._run.least_rate), self._run.most_rate) * passed_s
        while self._credit >= 1:
            self._credit -= 1
            self._send()

    def mark(self, now_s: float) -> None:
        with self._lock:
            self._marked_at_s = now_s
            self.recovered_at_s = None

    def result(self) -> TopicResult:
        with self._lock:
            tally = self.tally
            return TopicResult(
                topic=tally.topic,
                produced=len(tally.acknowledged),
                consumed=len(tally.received),
                lost=tally.missing,
                duplicated=tally.duplicated,
                out_of_order=tally.out_of_order,
                failed=tally.failed,
                longest_gap_s=round(tally.longest_gap_s, 4),
                gaps=tally.longest_gaps(_MOST_GAPS),
            )

    @property
    def outstanding(self) -> int:
        """The number of messages that have no receipt yet, plus the number that have a receipt and have not arrived."""
        with self._lock:
            waiting = self.tally.sent - len(self.tally.acknowledged) - self.tally.failed
            return waiting + self.tally.missing

    @property
    def recovery_s(self) -> float | None:
        if self._marked_at_s is None or self.recovered_at_s is None:
            return None
        return self.recovered_at_s - self._marked_at_s

    def _send(self) -> None:
        now_s = time.time()
        with self._lock:
            number = self.tally.next_number()

        def done(result: Any, message_id: Any) -> None:
            self._on_receipt(result, number, now_s)

        try:
            self._producer.send_async(_HEADER.pack(number, now_s) + self._padding, done)
        except pulsar.PulsarException:
            with self._lock:
                self.tally.failed += 1

    def _on_receipt(self, result: Any, number: int, sent_at_s: float) -> None:
        now_s = time.time()
        with self._lock:
            if result != pulsar.Result.Ok:
                self.tally.failed += 1
                return
            self.tally.on_acknowledged(number, sent_at_s, now_s, gap_from_s=self._run.gap_from_s)
            if self._marked_at_s is not None and self.recovered_at_s is None and sent_at_s >= self._marked_at_s:
                self.recovered_at_s = now_s

    def _on_message(self, consumer: Any, message: Any) -> None:
        number, _ = _HEADER.unpack_from(message.data())
        with self._lock:
            self.tally.on_received(number)
        with suppress(pulsar.PulsarException):  # not acknowledged: it comes again and is counted as a duplicate
            consumer.acknowledge(message)


class ClientRun:
    """The clients of all topics of a plan. One thread sends for all, at the rates of the plan."""

    def __init__(self, plan: ClientPlan, tell: "Tell") -> None:
        self._plan = plan
        self._tell = tell
        self._client = pulsar.Client(
            plan.service_url,
            io_threads=1,
            message_listener_threads=1,
            operation_timeout_seconds=60,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        self.topics = {topic.topic: TopicClients(self._client, topic, plan) for topic in plan.topics}

    def pace(self) -> None:
        """Send messages for the duration of the plan and report progress; then wait until all messages have arrived, at
        most for the plan's `drain_timeout_s`.
        """
        start = last = told = time.monotonic()
        while (now := time.monotonic()) - start < self._plan.duration_s:
            for topic in self.topics.values():
                topic.send_due(now - start, now - last)
            last = now
            if now - told >= _PROGRESS_EVERY_S:
                told = now
                self._tell(self.progress())
            time.sleep(_TICK_S)
        self._drain()

    def progress(self) -> Progress:
        tallies = [topic.tally for topic in self.topics.values()]
        return Progress(
            at=time.time(),
            produced=sum(len(tally.acknowledged) for tally in tallies),
            consumed=sum(len(tally.received) for tally in tallies),
            waiting=sum(topic.outstanding for topic in self.topics.values()),
            recovered=self._recovered(),
        )

    def result(self) -> ClientResult:
        return ClientResult(topics=[topic.result() for topic in self.topics.values()], recovered=self._recovered())

    def mark(self, mark: Mark) -> None:
        for name in mark.topics:
            self.topics[name].mark(time.time())

    def close(self) -> None:
        self._client.close()

    def _drain(self) -> None:
        deadline = time.monotonic() + self._plan.drain_timeout_s
        while any(topic.outstanding for topic in self.topics.values()) and time.monotonic() < deadline:
            self._tell(self.progress())
            time.sleep(_PROGRESS_EVERY_S)

    def _recovered(self) -> dict[str, float]:
        return {name: s for name, topic in self.topics.items() if (s := topic.recovery_s) is not None}


Tell = Callable[[Progress | ClientResult], None]


def line_writer() -> Tell:
    """Return a function that writes lines to what is standard output at the time of this call.

    What is written to standard output later, for example by the client library's logger, goes to standard error, so
    that it does not mix with the lines.
    """
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(line: Progress | ClientResult) -> None:
        lines.write(msgspec.json.encode(line) + b"\n")

    return tell


def main() -> None:
    tell = line_writer()
    run = ClientRun(msgspec.json.decode(sys.stdin.readline(), type=ClientPlan), tell)
    tell(run.progress())

    def listen() -> None:
        for line in sys.stdin:
            run.mark(msgspec.json.decode(line, type=Mark))

    threading.Thread(target=listen, name="marks", daemon=True).start()
    run.pace()
    tell(run.result())
    run.close()


if __name__ == "__main__":
    main()
