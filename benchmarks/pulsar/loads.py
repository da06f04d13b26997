"""The measurements of one system (Barycenter or Pulsar): each function measures a running system and returns values by
their names.

Costs are processor microseconds of all the server's processes for one message or lookup, whatever the client took.
"""

import asyncio
import http.client
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import pulsar

from benchmarks.data_plane import publish
from benchmarks.lookups import binary
from benchmarks.lookups import http as lookups_over_http
from benchmarks.machine import percentile
from benchmarks.pulsar.systems import STARTS, System, quiet_client
from benchmarks.unload_gap import Pulse
from pulsar_barycenter.standalone.scheduling import take_short_turns
from support.apache_pulsar import perf_command

Figures: TypeAlias = dict[str, float]

_LOOKUPS: Final = {"binary": 100_000, "HTTP": 24_000}
_TOPICS_LOOKED_UP: Final = 64
_STEADY_RATE: Final = 1000
_STEADY_S: Final = 15
_TOPICS_IN_MEMORY: Final = 1000
_UNLOADS: Final = 10
_PERF_S: Final = 22
"""It tells every 10 s; the second time counts, when it is warm itself."""
_AS_FAST_AS_IT_CAN: Final = 10_000_000
_SIZES: Final = {100: "100 B", 1024: "1 KiB"}
_HELD_RATES: Final = {(False, 100): 80_000, (False, 1024): 60_000, (True, 100): 250_000, (True, 1024): 120_000}
"""Messages a second that both systems hold, so that their latencies can be compared: by whether batched, and bytes."""
_PERF_INTERVAL: Final = re.compile(r"([0-9.]+) msg/s.*med: *([0-9.]+).*99pct: *([0-9.]+)")
_PERF_TOTAL: Final = re.compile(r"--- *(\d+) records sent")


class CpuMeter:
    """Counts the processor time of a system from now on, that of its shared store by itself."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._server_s, self._store_s = system.cpu_s(), system.store_cpu_s()

    def each(self, count: int) -> Figures:
        """Return the microseconds for each of `count` messages or other units."""
        found = {"CPU µs each": 1e6 * (self._system.cpu_s() - self._server_s) / count}
        if self._system.store_ids:
            found["store's CPU µs each"] = 1e6 * (self._system.store_cpu_s() - self._store_s) / count
        return found


def messages(system: System, *, size: int, batched: bool, scale: float) -> Figures:
    """Durable messages as fast as the Python client sends them; latencies under this load."""
    count = int((400_000 if batched else 60_000) * scale)
    meter = CpuMeter(system)
    got = publish(system, size=size, count=count, batched=batched, consume=False)  # type: ignore[arg-type]
    cpu = meter.each(count) | {"CPU µs each": got.cpu_us}
    return {"msg/s": got.rate, "p50 ms": got.p50_ms, "p99 ms": got.p99_ms, **cpu}


def perf(system: System, *, size: int, batched: bool, scale: float, most_per_s: int = _AS_FAST_AS_IT_CAN) -> Figures:
    """The same by `pulsar-perf produce`, at most 1,000 messages under way and `most_per_s` a second."""
    topic = f"persistent://public/default/perf-{time.time_ns()}"
    limits = ["-r", str(most_per_s), "-o", "1000", "-p", "1000", "-time", str(_PERF_S)]
    kind = [] if batched else ["--disable-batching"]
    if system.trust_file is not None:
        kind += [f"--trust-cert-file={system.trust_file}", "--tls-enable-hostname-verification"]
    meter = CpuMeter(system)
    done = subprocess.run(
        perf_command("produce", "-u", system.url, "-s", str(size), *limits, *kind, topic),
        capture_output=True,
        text=True,
        timeout=_PERF_S + 240,
        check=False,
    )
    intervals, total = _PERF_INTERVAL.findall(done.stdout), _PERF_TOTAL.search(done.stdout)
    if len(intervals) < 2 or total is None:
        raise RuntimeError(f"pulsar-perf did not tell its figures:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    rate, p50_ms, p99_ms = map(float, intervals[1])
    return {"msg/s": rate, "p50 ms": p50_ms, "p99 ms": p99_ms, **meter.each(int(total[1]))}


def steady(system: System, *, burners: int, scale: float) -> Figures:
    """1,000 messages/s of 1 KiB one by one; from the call of send to the receipt. `burners` processes do nothing else
    than use a processor meanwhile."""
    with _burning(burners), ThreadPoolExecutor(1) as client:
        return client.submit(_send_steadily, system, int(_STEADY_RATE * _STEADY_S * scale)).result()


def _send_steadily(system: System, count: int) -> Figures:
    """Takes short turns, in its thread and those of the client, so that what waits long is the server."""
    take_short_turns()
    client = quiet_client(system.url)
    producer = client.create_producer(
        f"persistent://public/default/steady-{time.time_ns()}", batching_enabled=False, max_pending_messages=50_000
    )
    payload = bytes(1024)
    latencies: list[float] = []
    all_came = threading.Event()

    def receipt(sent_at: float, result: object, _: object) -> None:
        latencies.append(time.perf_counter() - sent_at if result == pulsar.Result.Ok else float("inf"))
        if len(latencies) == count:
            all_came.set()

    producer.send(payload)
    meter, start = CpuMeter(system), time.perf_counter()
    for number in range(count):
        ahead_s = start + number / _STEADY_RATE - time.perf_counter()
        if ahead_s > 0:
            time.sleep(ahead_s)
        producer.send_async(payload, partial(receipt, time.perf_counter()))
    if not all_came.wait(60):
        raise RuntimeError(f"{count - len(latencies)} of {count} messages got no receipt")
    seconds, cpu = time.perf_counter() - start, meter.each(count)
    client.close()
    return {
        "msg/s": count / seconds,
        "p50 ms": 1000 * percentile(latencies, 50),
        "p99 ms": 1000 * percentile(latencies, 99),
        **cpu,
    }


@contextmanager
def _burning(count: int) -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def lookups(system: System, *, port: str, scale: float) -> Figures:
    """Lookups of topics whose bundles are owned."""
    for number in range(_TOPICS_LOOKED_UP):
        admin(system, "GET", f"/lookup/v2/topic/persistent/public/default/topic-{number}")
    count = int(_LOOKUPS[port] * scale) // 16 * 16
    before, start = system.cpu_s(), time.perf_counter()
    tls = system.client_context()
    asyncio.run(binary(system.url, count, tls) if port == "binary" else lookups_over_http(system.web_url, count, tls))
    seconds, cpu_s = time.perf_counter() - start, system.cpu_s() - before
    return {"lookups/s": count / seconds, "CPU µs each": 1e6 * cpu_s / count}


def unload(system: System, *, scale: float) -> Figures:
    """The longest time without a receipt around an unload by the admin REST; the only broker takes the bundle again."""
    admin(system, "PUT", "/admin/v2/namespaces/public/gap", b'{"bundles": {"numBundles": 1}}', or_status=409)
    client = quiet_client(system.url)
    pulse = Pulse(client)
    gaps_ms = []
    try:
        time.sleep(1)
        for _ in range(max(2, int(_UNLOADS * scale))):
            start = time.perf_counter()
            admin(system, "PUT", "/admin/v2/namespaces/public/gap/0x00000000_0xffffffff/unload", b"")
            time.sleep(1.5)
            gaps_ms.append(1000 * pulse.longest_gap_s(start, time.perf_counter()))
    finally:
        pulse.close()
        client.close()
    return {"gap p50 ms": percentile(gaps_ms, 50), "gap max ms": max(gaps_ms)}


def fresh(system: System, *, scale: float) -> Figures:
    """Another one of the same kind: its start in an empty folder, and its memory, idle and with topics."""
    topics = int(_TOPICS_IN_MEMORY * scale)
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder, STARTS[system.name](Path(folder)) as other:
        time.sleep(3)
        idle = other.resident_mib()
        client = quiet_client(other.url)
        for number in range(topics):
            producer = client.create_producer(f"persistent://public/default/memory-{number}")
            producer.send(b"x")
            producer.close()
        client.close()
        time.sleep(3)
        return {
            "start s": other.started_in_s,
            "idle MiB": idle,
            f"MiB with {topics:,} topics": other.resident_mib(),
        }


def admin(system: System, method: str, path: str, body: bytes | None = None, *, or_status: int = 0) -> None:
    """Ask the admin REST for something that it must do."""
    address = urlsplit(system.web_url)
    host, tls = address.hostname or "", system.client_context()
    connection = (
        http.client.HTTPConnection(host, address.port, timeout=60)
        if tls is None
        else http.client.HTTPSConnection(host, address.port, timeout=60, context=tls)
    )
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status // 100 != 2 and answer.status != or_status:
            raise RuntimeError(f"{system.name}: {method} {path}: {answer.status} {said[:300]!r}")
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    run: Callable[..., Figures]
    warm_runs: int = 0
    """How often it is run before it counts, as a JVM wants it."""


def message_rows() -> Iterator[tuple[str, Row]]:
    for run, name, title, warm_runs in ((messages, "", "Python client", 4), (perf, "perf-", "pulsar-perf", 1)):
        for batched in (False, True):
            for size in _SIZES:
                row = partial(run, size=size, batched=batched)
                yield f"{name}{_kind(batched, size)}", Row(f"{title}, {_shown(batched, size)}", row, warm_runs)


def rows_of_one_rate(rates: Mapping[tuple[bool, int], int] = _HELD_RATES) -> Iterator[tuple[str, Row]]:
    """Yield the rows at which all systems get the same messages a second, by whether batched and bytes."""
    for (batched, size), rate in rates.items():
        row = partial(perf, size=size, batched=batched, most_per_s=rate)
        yield f"held-{_kind(batched, size)}", Row(f"pulsar-perf, {_shown(batched, size)}, {rate:,} msg/s", row)


def _kind(batched: bool, size: int) -> str:
    return f"{'batched' if batched else 'single'}-{size}"


def _shown(batched: bool, size: int) -> str:
    return f"{'batched' if batched else 'single'}, {_SIZES[size]}"


def rows(burners: int) -> dict[str, Row]:
    """All rows by their names, in the order in which they are measured."""
    return {
        **dict(message_rows()),
        **dict(rows_of_one_rate()),
        "latency-quiet": Row("1,000 msg/s of 1 KiB", partial(steady, burners=0), 1),
        "latency-busy": Row(f"1,000 msg/s of 1 KiB, {burners} processes burn CPU", partial(steady, burners=burners), 1),
        "lookup-binary": Row("lookups, binary port", partial(lookups, port="binary"), 8),
        "lookup-http": Row("lookups, HTTP", partial(lookups, port="HTTP"), 8),
        "unload": Row("unload of a bundle", unload),
        "start": Row("a fresh server", fresh),
    }
