"""Measures the cost of a scrape of a broker's metrics, and how long the broker answers no other client meanwhile.

Each topic has one message and one subscription. `GET /metrics` is asked several times as text, and as Prometheus asks
(OpenMetrics, compressed), with figures of every topic and without (`exposeTopicLevelMetricsInPrometheus`). Meanwhile
another connection sends a PING every few ms: the longest wait for its PONG is how long the event loop was busy. It is
also measured over the same time without a scrape. CPU is the broker's, less what it and the PINGs take without a
scrape.
"""

import argparse
import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import psutil
import pulsar

from benchmarks.cluster import running_cluster
from benchmarks.machine import print_table
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import PING, PONG, encode
from pulsar_barycenter.standalone.scheduling import take_short_turns

_CLIENTS: Final = 8
"""That load topics side by side."""
_PING_EVERY_S: Final = 0.003
_SETTLE_S: Final = 5.0
"""After the topics were loaded."""
_PAUSE_S: Final = 0.5
"""Before each scrape."""
_AS_PROMETHEUS: Final = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
_LOG_END: Final = 2000
"""Characters that are told of a broker that failed."""
WAYS: Final = {"text": {}, "OpenMetrics, gzip": _AS_PROMETHEUS}
"""Headers of the request by how it is asked for."""


@dataclass(frozen=True, slots=True)
class Scrape:
    began_s: float
    ended_s: float
    body: bytes
    """As it came."""


def load_topics(service_url: str, topics: int) -> None:
    """Give each topic one subscription and one message."""

    def load(first: int) -> None:
        client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        for number in range(first, topics, _CLIENTS):
            name = f"persistent://public/default/scrape-{number}"
            consumer = client.subscribe(name, "subscription")
            producer = client.create_producer(name)
            producer.send(b"x")
            producer.close()
            consumer.close()
        client.close()

    with ThreadPoolExecutor(_CLIENTS) as threads:
        list(threads.map(load, range(_CLIENTS)))


def scrape(web_url: str, headers: dict[str, str]) -> Scrape:
    """Ask once; this process does little else than wait, so that it leaves the broker its core.

    Raises:
        RuntimeError: the broker refused, or did not say all.
    """
    address = urlsplit(web_url)
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    request = f"GET /metrics HTTP/1.0\r\nHost: {address.netloc}\r\n{''.join(lines)}\r\n".encode()
    began_s = time.perf_counter()
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
    ended_s = time.perf_counter()
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise RuntimeError(f"/metrics: {head[:300]!r} {body[:300]!r}")
    return Scrape(began_s, ended_s, body)


class Pings:
    """A connection that asks whether the broker is there, again and again."""

    def __init__(self, service_url: str) -> None:
        address = urlsplit(service_url)
        self._connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=60)
        self._stream = self._connection.makefile("rb")
        self._waits: list[tuple[float, float]] = []
        self._failure: Exception | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="pings")
        connect = api.BaseCommand(type=api.BaseCommand.CONNECT)
        connect.connect.client_version = "benchmark"
        connect.connect.protocol_version = 19
        self._connection.sendall(encode(connect))
        self._until(api.BaseCommand.CONNECTED)
        self._thread.start()

    def longest_wait_ms(self, began_s: float, ended_s: float) -> float:
        """Return the longest of those that waited at some time between the two.

        Raises:
            RuntimeError: the broker answers no more.
        """
        waits = [got - sent for sent, got in list(self._waits) if got >= began_s and sent <= ended_s]
        if self._failure is not None or not waits:
            raise RuntimeError("the broker does not answer PINGs") from self._failure
        return 1000 * max(waits)

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self._stream.close()
        self._connection.close()

    def _ask(self) -> None:
        try:
            while not self._ends.wait(_PING_EVERY_S):
                sent_s = time.perf_counter()
                self._connection.sendall(PING)
                self._until(api.BaseCommand.PONG)
                self._waits.append((sent_s, time.perf_counter()))
        except (OSError, RuntimeError) as error:
            self._failure = error

    def _until(self, kind: api.BaseCommand.Type.ValueType) -> None:
        """Read until a command of this kind came; what the broker asks is answered."""
        while True:
            size = int.from_bytes(self._stream.read(4), "big")
            frame = self._stream.read(size)
            if not size or len(frame) < size:
                raise RuntimeError("the connection was closed")
            command = api.BaseCommand.FromString(frame[4:])
            if command.type == kind:
                return
            if command.type == api.BaseCommand.PING:
                self._connection.sendall(PONG)


@contextmanager
def pinging(service_url: str) -> Iterator[Pings]:
    pings = Pings(service_url)
    try:
        yield pings
    finally:
        pings.close()


def figures(web_url: str, service_url: str, process_id: int, way: dict[str, str], times: int) -> dict[str, object]:
    """Ask `times` times, and wait as long without asking."""
    process = psutil.Process(process_id)

    def cpu_s() -> float:
        return sum(process.cpu_times()[:2])

    scrape(web_url, way)  # the first one has Python's library make its tables
    scrapes, used_s, idle_waits_ms = [], 0.0, []
    with pinging(service_url) as pings:
        time.sleep(1)
        for _ in range(times):
            time.sleep(_PAUSE_S)
            before_s = cpu_s()
            scrapes.append(scrape(web_url, way))
            used_s += cpu_s() - before_s
        took_s = [each.ended_s - each.began_s for each in scrapes]
        time.sleep(_PAUSE_S)
        before_s, idle_began_s = cpu_s(), time.perf_counter()
        for each_s in took_s:
            began_s = time.perf_counter()
            time.sleep(max(each_s, 0.1))
            idle_waits_ms.append(pings.longest_wait_ms(began_s, time.perf_counter()))
        idle_share = (cpu_s() - before_s) / (time.perf_counter() - idle_began_s)
        waits_ms = [pings.longest_wait_ms(each.began_s, each.ended_s) for each in scrapes]
    body = scrapes[-1].body
    text = gzip.decompress(body) if "Accept-Encoding" in way else body
    return {
        "wall time p50, ms": 1000 * median(took_s),
        "wall time max, ms": 1000 * max(took_s),
        "size of the text, MiB": len(text) / 2**20,
        "size as sent, MiB": len(body) / 2**20,
        "lines": f"{len(text.splitlines()):,}",
        "broker CPU of a scrape, ms": 1000 * (used_s - idle_share * sum(took_s)) / times,
        "longest wait for a PONG in a scrape: p50, ms": median(waits_ms),
        "longest wait for a PONG in a scrape: max, ms": max(waits_ms),
        "the same without a scrape: p50, ms": median(idle_waits_ms),
        "the same without a scrape: max, ms": max(idle_waits_ms),
    }


async def measure(topics: int, times: int) -> dict[str, dict[str, object]]:
    """Return the figures by what is shown and how it is asked for."""
    found = {}
    for shown, by_topic in (("topics", "true"), ("namespaces alone", "false")):
        keys = {
            "brokerDeleteInactiveTopicsEnabled": "false",
            "exposeTopicLevelMetricsInPrometheus": by_topic,
            "loadBalancerSheddingEnabled": "false",
            "loadBalancerAutoBundleSplitEnabled": "false",
        }
        async with running_cluster(1, keys) as cluster:
            broker = cluster.brokers[0]
            assert broker.pid is not None
            await asyncio.to_thread(load_topics, broker.service_url, topics)
            await asyncio.sleep(_SETTLE_S)
            for name, way in WAYS.items():
                try:
                    told = await asyncio.to_thread(figures, broker.web_url, broker.service_url, broker.pid, way, times)
                except RuntimeError as error:
                    error.add_note(f"the end of the broker's log:\n{broker.log.read_text()[-_LOG_END:]}")
                    raise
                found[f"{shown}: {name}"] = told
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=20, help="scrapes of each kind")
    arguments = parser.parse_args()
    take_short_turns()  # as a broker does
    found = asyncio.run(measure(arguments.topics, arguments.times))
    rows = [[figure, *(told[figure] for told in found.values())] for figure in next(iter(found.values()))]
    print_table(f"A scrape of {arguments.topics:,} topics", ["", *found], rows)


if __name__ == "__main__":
    main()
