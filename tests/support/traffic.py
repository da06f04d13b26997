"""Traffic through the stock client that continues during all faults of the brokers, and its results.

Each topic has some producers that number their messages, consumers of two subscriptions that receive them as they
arrive, and a third subscription that is used only at the end to read everything again.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import pulsar

from support.numbered_messages import NumberedProducer, stock_client, subscribe_before_sending
from support.running_cluster import eventually

CLIENTS: Final = 2
BURST: Final = 1_200
"""More than a producer of the stock client has in flight."""
AGAIN: Final = "again"
"""The subscription that is used at the end."""


class Arrivals:
    """The messages of one subscription of a topic: the numbers of each producer in the order of their first arrival."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.repeated = 0
        self._seen: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def take(self, data: bytes) -> None:
        name, _, digits = data.decode().partition(":")
        number = int(digits)
        with self._lock:
            if (name, number) in self._seen:
                self.repeated += 1
                return
            self._seen.add((name, number))
            self.numbers[name].append(number)

    def __len__(self) -> int:
        return len(self._seen)


class Line:
    """One topic: its producers, and what arrived by each of its subscriptions."""

    def __init__(self, topic: str, clients: Sequence[Any], *, producers: int, is_consumed: bool) -> None:
        self.topic = topic
        self.arrivals: dict[str, Arrivals] = {AGAIN: Arrivals()}
        subscribe_before_sending(clients[0], topic, subscription=AGAIN)
        if is_consumed:
            self._consume("alone", pulsar.ConsumerType.Exclusive, clients[:1])
            self._consume("in turns", pulsar.ConsumerType.Failover, clients)
        self.steady = [
            NumberedProducer(clients[number % len(clients)], topic, batching=number % 2 == 0, name=f"p{number}")
            for number in range(producers)
        ]
        """They send now and then, as `Traffic` has it."""
        self.sudden = NumberedProducer(clients[0], topic, name="sudden")
        """It sends many at once when it is told to."""

    def _consume(self, subscription: str, kind: Any, clients: Iterable[Any]) -> None:
        arrivals = self.arrivals[subscription] = Arrivals()

        def take(consumer: Any, message: Any) -> None:
            arrivals.take(message.data())
            consumer.acknowledge(message)

        for client in clients:
            client.subscribe(self.topic, subscription, kind, message_listener=take)

    @property
    def producers(self) -> list[NumberedProducer]:
        return [*self.steady, self.sudden]

    @property
    def sent(self) -> int:
        return sum(producer.sent for producer in self.producers)

    def lacks(self) -> list[str]:
        """Return what is not acknowledged, or did not arrive by the subscriptions that are consumed during the
        traffic."""
        receipts = {each.prefix: len(each.acknowledged) + len(each.failures) for each in self.producers}
        of_producers = [
            f"{self.topic}: {receipts[each.prefix]} of {each.sent} receipts of {each.prefix}"
            for each in self.producers
            if receipts[each.prefix] < each.sent
        ]
        return of_producers + [
            f"{self.topic}: {len(each)} of {self.sent} messages by {name!r}"
            for name, each in self.arrivals.items()
            if name != AGAIN and len(each) < self.sent
        ]

    def read_again(self, client: Any) -> None:
        """Read everything by the subscription that was not used before."""
        consumer = client.subscribe(self.topic, AGAIN)
        try:
            while len(self.arrivals[AGAIN]) < self.sent:
                message = consumer.receive(timeout_millis=30_000)
                self.arrivals[AGAIN].take(message.data())
        finally:
            consumer.close()

    def check(self) -> None:
        """Check that nothing failed, and that each subscription got every message of every producer, first in order."""
        for producer in self.producers:
            assert producer.failures == [], (self.topic, producer.failures[:5])
            assert producer.acknowledged == set(range(producer.sent))
            for subscription, arrivals in self.arrivals.items():
                came = arrivals.numbers[producer.prefix.rstrip(":")]
                assert came == list(range(producer.sent)), (self.topic, subscription, producer.prefix, _break_of(came))


def _break_of(numbers: list[int]) -> str:
    """Return where a sequence of numbers differs from 0, 1, 2, …"""
    at = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
    return f"{len(numbers)} numbers; from place {at} on {numbers[max(0, at - 2) : at + 5]}"


class Traffic:
    """`busy` topics always get messages, from two producers each; `quiet` ones get one on each request."""

    def __init__(
        self,
        service_url: str,
        *,
        busy: Sequence[str],
        quiet: Sequence[str],
        pause_s: float,
        client_log: Path | None = None,
    ) -> None:
        """The clients log to the file `client_log`; without one they print errors."""
        self._clients = [stock_client(service_url, log=client_log) for _ in range(CLIENTS)]
        self._pause_s = pause_s
        self._enough = threading.Event()
        self.busy = [Line(topic, self._clients, producers=2, is_consumed=True) for topic in busy]
        self.quiet = [Line(topic, self._clients, producers=1, is_consumed=False) for topic in quiet]
        self._pump = threading.Thread(target=self._send, name="traffic", daemon=True)
        self._pump.start()

    @property
    def lines(self) -> list[Line]:
        return [*self.busy, *self.quiet]

    def _send(self) -> None:
        while not self._enough.wait(self._pause_s):
            for line in self.busy:
                for producer in line.steady:
                    producer.send(1)

    @asynccontextmanager
    async def burst(self, topic: str) -> AsyncIterator[None]:
        """Send BURST messages to a topic as fast as they are accepted while something is done to it."""
        (line,) = [line for line in self.lines if line.topic == topic]
        sending = asyncio.ensure_future(asyncio.to_thread(line.sudden.send, BURST))
        try:
            yield
        finally:
            await sending

    async def gets_through(self, *, within_s: float) -> None:
        """Return when every steady producer of every topic had a message acknowledged that it sends from now on."""
        goals = {producer: producer.sent for line in self.lines for producer in line.steady}
        for line in self.quiet:
            for producer in line.steady:
                await asyncio.to_thread(producer.send, 1)

        def late() -> list[str]:
            names = {producer: f"{line.topic} {producer.prefix}" for line in self.lines for producer in line.steady}
            return [names[producer] for producer, goal in goals.items() if goal not in producer.acknowledged]

        async def is_through() -> bool:
            return not late()

        try:
            await eventually(is_through, within_s=within_s, what="every producer gets through")
        except AssertionError as error:
            error.add_note(f"not through: {late()}")
            raise

    async def finish(self, service_url: str) -> None:
        """Send no more, wait until all is acknowledged and has arrived, read everything again, and check it."""
        await asyncio.to_thread(self._stop_sending)

        lacking: list[str] = []

        async def is_all_there() -> bool:
            lacking[:] = [what for line in self.lines for what in line.lacks()]
            return not lacking

        try:
            await eventually(is_all_there, within_s=60, what="all that was sent is acknowledged, and has come")
        except AssertionError as error:
            error.add_note(f"lacking: {lacking}")
            raise
        await asyncio.to_thread(self._read_again, service_url)
        for line in self.lines:
            line.check()

    def _read_again(self, service_url: str) -> None:
        with own_client(service_url) as client, ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda line: line.read_again(client), self.lines))

    def _stop_sending(self) -> None:
        self._enough.set()
        self._pump.join(60)
        assert not self._pump.is_alive(), "a producer's queue stays full"

    def close(self) -> None:
        self._enough.set()
        for client in self._clients:
            client.close()


@contextmanager
def own_client(service_url: str) -> Iterator[Any]:
    client = stock_client(service_url)
    try:
        yield client
    finally:
        client.close()
