"""Measures how many lookups of owned topics a broker answers per second of CPU, over the binary protocol and HTTP.

The client runs on another core; what counts is the broker's own processor time, so that a slow client does not
make the broker look slow, nor an idle one fast.
"""

import argparse
import asyncio
import ssl
import time
from urllib.parse import urlsplit

import aiohttp
import psutil

from benchmarks.cluster import running_cluster
from benchmarks.machine import print_table
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_TOPICS = 64
_IN_FLIGHT = 256


def _frame(command: api.BaseCommand) -> bytes:
    body = command.SerializeToString()
    return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def _lookup(number: int) -> bytes:
    command = api.BaseCommand(type=api.BaseCommand.LOOKUP)
    command.lookupTopic.topic = f"persistent://public/default/topic-{number % _TOPICS}"
    command.lookupTopic.request_id = number
    return _frame(command)


async def connected(service_url: str, tls: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection whose CONNECT was answered."""
    address = urlsplit(service_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
    connect = api.BaseCommand(type=api.BaseCommand.CONNECT)
    connect.connect.client_version = "benchmark"
    connect.connect.protocol_version = 19
    writer.write(_frame(connect))
    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return reader, writer


async def binary(service_url: str, count: int, tls: ssl.SSLContext | None = None) -> None:
    scheme = urlsplit(service_url).scheme.encode()
    reader, writer = await connected(service_url, tls)
    frames = [_lookup(number) for number in range(_IN_FLIGHT)]
    for start in range(0, count, _IN_FLIGHT):
        writer.write(b"".join(frames[: min(_IN_FLIGHT, count - start)]))
        for _ in range(min(_IN_FLIGHT, count - start)):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert scheme + b"://" in frame, frame
    writer.close()
    await writer.wait_closed()


async def http(web_url: str, count: int, tls: ssl.SSLContext | None = None) -> None:
    """Keep-alive connections that write requests one after the other and count answers."""
    address = urlsplit(web_url)

    async def connection(share: int) -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
        for number in range(share):
            path = f"/lookup/v2/topic/persistent/public/default/topic-{number % _TOPICS}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(connection(count // 16) for _ in range(16)))


async def measure(count: int) -> None:
    rows = []
    async with running_cluster(1) as cluster:
        broker = cluster.brokers[0]
        assert broker.pid is not None
        process = psutil.Process(broker.pid)
        async with aiohttp.ClientSession() as session:
            for number in range(_TOPICS):
                path = f"{broker.web_url}/lookup/v2/topic/persistent/public/default/topic-{number}"
                async with session.get(path) as answer:
                    assert answer.status == 200, await answer.text()
        for name, ask, done in (
            ("binary", binary(broker.service_url, count), count),
            ("HTTP", http(broker.web_url, count // 4), count // 4 // 16 * 16),
        ):
            before, start = sum(process.cpu_times()[:2]), time.perf_counter()
            await ask
            wall_s, cpu_s = time.perf_counter() - start, sum(process.cpu_times()[:2]) - before
            rows.append([name, done, done / wall_s, done / cpu_s, 1e6 * cpu_s / done])
    print_table(
        "Lookups of owned topics, one broker",
        ["front end", "lookups", "per second (client included)", "per second of broker CPU", "µs of broker CPU each"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    asyncio.run(measure(parser.parse_args().count))


if __name__ == "__main__":
    main()
