"""How fast a metadata store is: `python benchmarks/metadata_store.py [--seconds S] [--dir DIR | --url URL]`.

Prints, one line each: compare-and-set puts of one process, one after another and 64 at a time; the same with three
processes at once, on keys of their own and on one key; reads; how long a change takes to reach another process; what an
idle client costs. Without a URL it is SQLite, in a folder on the disk on which the store will be. With one, such as
`etcd:http://127.0.0.1:2379/benchmark`, `zk:127.0.0.1:2181/benchmark` or `oxia://127.0.0.1:6648/default/benchmark`, it
is that store, where keys stay; its servers' own work is not in what an idle client costs.
"""

import argparse
import asyncio
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MetadataStore, Notification, NotificationType

VALUE = b"x" * 200


async def repeat(seconds: float, action: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the duration of each run of `action`, in seconds."""
    durations = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        await action()
        durations.append(time.perf_counter() - began)
    return durations


async def cas_puts(store: MetadataStore, path: str, seconds: float) -> list[float]:
    """Time puts that expect the version of the last; one that loses to another process reads and goes on."""
    version = (await store.put(path, VALUE)).version

    async def put() -> None:
        nonlocal version
        while True:
            try:
                version = (await store.put(path, VALUE, expected_version=version)).version
            except BadVersionError:
                record = await store.get(path)
                assert record is not None
                version = record.stat.version
            else:
                return

    return await repeat(seconds, put)


def say(name: str, durations: list[float], seconds: float) -> None:
    quantiles = statistics.quantiles(durations, n=1000)
    print(
        f"{name:<58} {len(durations) / seconds:>9,.0f}/s   p50 {quantiles[499] * 1000:7.3f} ms"
        f"   p99 {quantiles[989] * 1000:7.3f} ms   max {max(durations) * 1000:7.1f} ms"
    )


async def child(arguments: list[str], stdin: bytes | None = None) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate(stdin)
    return output


async def puts_of_three(url: str, seconds: float, *, shared: bool) -> list[float]:
    keys = ["/shared" if shared else f"/own/{number}" for number in range(3)]
    outputs = await asyncio.gather(*(child(["--child", url, key, "--seconds", str(seconds)]) for key in keys))
    return [duration for output in outputs for duration in json.loads(output)]


async def be_child(url: str, key: str, seconds: float) -> None:
    store = await open_store(url)
    json.dump(await cas_puts(store, key, seconds), sys.stdout)
    await store.close()


async def notification_latency(url: str, store: MetadataStore, seconds: float) -> list[float]:
    """Time from another process's call of put until a listener here is told; the key's name says when."""
    latencies: list[float] = []

    def hear(change: Notification) -> None:
        name = change.path.removeprefix("/at/") if change.type is NotificationType.CREATED else ""
        if name.isdigit():
            latencies.append((time.monotonic_ns() - int(name)) / 1e9)

    stop = store.add_listener(hear)
    await child(["--writer", url, "--seconds", str(seconds)])
    stop()
    return latencies


async def be_writer(url: str, seconds: float) -> None:
    store = await open_store(url)
    end = time.monotonic() + seconds
    pause_s = 0.0137  # out of step with the poll
    while time.monotonic() < end:
        await store.put(f"/at/{time.monotonic_ns()}", b"", ephemeral=True)
        await asyncio.sleep(pause_s)
    await store.close()


async def idle_cpu(seconds: float) -> float:
    """Return the share of one core that this process, with its open clients, takes while nothing happens."""
    await asyncio.sleep(1)
    began, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - used) / (time.perf_counter() - began)


async def measure(url: str, seconds: float) -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {url}"
    )
    store = await open_store(url)
    say("CAS put, one process, one at a time", await cas_puts(store, "/one", seconds), seconds)
    many = await asyncio.gather(*(cas_puts(store, f"/many/{number}", seconds) for number in range(64)))
    say("CAS put, one process, 64 keys at a time", [each for durations in many for each in durations], seconds)
    say("get, one at a time", await repeat(seconds, lambda: store.get("/one")), seconds)
    say("CAS put, 3 processes, a key each, all together", await puts_of_three(url, seconds, shared=False), seconds)
    say("CAS put, 3 processes, one key, with retries", await puts_of_three(url, seconds, shared=True), seconds)
    say("notification to another process", await notification_latency(url, store, seconds), seconds)
    print(f"{'idle client':<58} {await idle_cpu(seconds):>9.2%} of a core")
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure")
    parser.add_argument("--dir", type=Path, help="where to put the store; a temporary folder if not given")
    parser.add_argument("--url", help="a store that is there, such as etcd:http://127.0.0.1:2379/benchmark")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        url, key = options.child
        asyncio.run(be_child(url, key, options.seconds))
    elif options.writer:
        asyncio.run(be_writer(options.writer, options.seconds))
    elif options.url:
        asyncio.run(measure(options.url, options.seconds))
    else:
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            asyncio.run(measure(f"sqlite:{folder}/metadata.db", options.seconds))


if __name__ == "__main__":
    main()
