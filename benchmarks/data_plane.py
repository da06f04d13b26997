"""Durable messages per second through one broker with the stock client: rate, latency, broker CPU per message.

`python -m benchmarks.data_plane`: a cluster of one broker process, everything in it switched on but the pipeline.
Producer and consumer run in this process, so that with two cores each side has one. Every message has its receipt,
and so is on disk, before a run counts as done. With `--profile FILE` the data plane alone runs instead, under the
profiler.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pulsar

from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table

_PATIENCE_S = 240
"""How long the client waits for a broker on a busy machine."""
_REPOSITORY = Path(__file__).parents[1]


def serve(directory: str, *, profile: str) -> None:
    """Run the broker until standard input closes; the first line printed is its service URL."""
    import cProfile

    import structlog
    import uvloop

    sys.path.insert(0, str(_REPOSITORY / "tests"))
    from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
    from support.one_broker import OneBroker

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))

    async def run() -> None:
        broker = await OneBroker(ledgers=FileLedgerStorage(directory)).start()
        print(broker.lookup.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await broker.stop()

    profiler = cProfile.Profile()
    profiler.enable()
    uvloop.run(run())
    profiler.disable()
    profiler.dump_stats(profile)


@dataclass
class RunningBroker:
    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system


@contextmanager
def data_plane_alone(directory: str, profile: str) -> Iterator[RunningBroker]:
    command = [sys.executable, "-m", "benchmarks.data_plane", "--serve", directory, "--profile", profile]
    child = subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield RunningBroker(child.stdout.readline().strip(), psutil.Process(child.pid))
    finally:
        child.stdin.close()
        child.wait(30)


@dataclass
class Figures:
    rate: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


def publish(broker: RunningBroker, *, size: int, count: int, batched: bool, consume: bool) -> Figures:
    """Send `count` messages as fast as the client can and wait for all receipts, and for the consumer to get all.

    The latency is that of every 100th message, from the call of send to its receipt, under this full load.
    """
    client = pulsar.Client(
        broker.url,
        operation_timeout_seconds=_PATIENCE_S,
        io_threads=1,
        message_listener_threads=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    topic = f"persistent://public/default/bench-{size}-{batched}-{consume}-{time.time_ns()}"
    taken = threading.Semaphore(0)
    consumer = client.subscribe(topic, "bench", receiver_queue_size=5000) if consume else None
    producer = client.create_producer(
        topic,
        batching_enabled=batched,
        batching_max_publish_delay_ms=2,
        block_if_queue_full=True,
        max_pending_messages=1000 if not batched else 10_000,
    )
    payload = bytes(size)
    latencies: list[float] = []
    failures: list[object] = []

    def timed(sent_at: float) -> object:
        def callback(result: object, _: object) -> None:
            latencies.append(time.perf_counter() - sent_at)
            if result != pulsar.Result.Ok:
                failures.append(result)

        return callback

    def drain() -> None:
        assert consumer is not None
        for _ in range(count):
            message = consumer.receive(60_000)
        consumer.acknowledge_cumulative(message)
        taken.release()

    producer.send(payload)
    if consumer is not None:
        consumer.receive()
        threading.Thread(target=drain).start()
    cpu_before, started = broker.cpu_s(), time.perf_counter()
    for n in range(count):
        # A Python callback for each message would measure the client's interpreter lock.
        producer.send_async(payload, timed(time.perf_counter()) if n % 100 == 0 else None)
    producer.flush()
    assert not failures, failures[0]
    if consumer is not None:
        taken.acquire(timeout=120)
    seconds = time.perf_counter() - started
    cpu = broker.cpu_s() - cpu_before
    client.close()
    return Figures(
        count / seconds,
        percentile(latencies, 50) * 1000,
        percentile(latencies, 99) * 1000,
        cpu / count * 1e6,
    )


def latency_one_at_a_time(broker: RunningBroker, count: int) -> Figures:
    """Send one message after the other, each waiting for its receipt."""
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(f"persistent://public/default/bench-{time.time_ns()}")
    producer.send(b"x")
    latencies = []
    cpu_before, started = broker.cpu_s(), time.perf_counter()
    for _ in range(count):
        before = time.perf_counter()
        producer.send(bytes(100))
        latencies.append(time.perf_counter() - before)
    seconds = time.perf_counter() - started
    cpu = broker.cpu_s() - cpu_before
    client.close()
    return Figures(
        count / seconds,
        percentile(latencies, 50) * 1000,
        percentile(latencies, 99) * 1000,
        cpu / count * 1e6,
    )


@contextmanager
def whole_broker() -> Iterator[RunningBroker]:
    """A cluster of one broker process, kept by an event loop in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cluster = running_cluster(1, {"loadBalancerSheddingEnabled": "false"})
    try:
        running = asyncio.run_coroutine_threadsafe(cluster.__aenter__(), loop).result(60)
        pid = running.brokers[0].pid
        assert pid is not None
        try:
            yield RunningBroker(running.brokers[0].service_url, psutil.Process(pid))
        finally:
            asyncio.run_coroutine_threadsafe(cluster.__aexit__(None, None, None), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="DIR", help="be the broker")
    parser.add_argument("--profile", metavar="FILE", help="profile the broker (it is slower then)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of messages")
    parser.add_argument("--only", choices=["single", "batched", "latency"], help="one part alone")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, profile=arguments.profile)
        return
    rows = []
    with (
        tempfile.TemporaryDirectory() as directory,
        data_plane_alone(directory, arguments.profile) if arguments.profile else whole_broker() as broker,
    ):
        for batched in (False, True):
            if arguments.only not in (None, "batched" if batched else "single"):
                continue
            for size in (100, 1024):
                count = int((1_000_000 if batched else 150_000) * arguments.scale)
                for consume in (False, True):
                    figures = publish(broker, size=size, count=count, batched=batched, consume=consume)
                    what = f"{'batched' if batched else 'single'}, {size} B{', with consumer' if consume else ''}"
                    rows.append([what, figures.rate, figures.p50_ms, figures.p99_ms, figures.cpu_us])
        if arguments.only in (None, "latency"):
            figures = latency_one_at_a_time(broker, int(5000 * arguments.scale))
            rows.append(["one at a time, 100 B", figures.rate, figures.p50_ms, figures.p99_ms, figures.cpu_us])
    print_table("Durable messages through one broker", ["load", "msg/s", "p50 ms", "p99 ms", "broker CPU µs/msg"], rows)


if __name__ == "__main__":
    main()
