"""Measures what policies cost each message: broker CPU and rate without any, and with all at limits never reached.

`python -m benchmarks topic_policies --before CHECKOUT --rounds 5`: one broker process for each round and case, the
cases in turns. CHECKOUT is another checkout, whose broker without policies is measured in the same turns.
"""

import argparse
import asyncio
import os
import statistics
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.cluster import running_cluster
from benchmarks.data_plane import RunningBroker, publish
from benchmarks.machine import print_table
from pulsar_barycenter.admin.client import AdminClient

_MESSAGES = 10_000_000
_BYTES = 10_000_000_000
_DISPATCH = {"dispatchThrottlingRateInMsg": _MESSAGES, "dispatchThrottlingRateInByte": _BYTES, "ratePeriodInSecond": 1}
POLICIES: Mapping[str, object] = {
    "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100_000},
    "messageTTL": 3600,
    "backlogQuota": {"limitSize": 1 << 36, "policy": "producer_exception"},
    "maxUnackedMessagesPerConsumer": 1_000_000,
    "delayedDelivery": {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 86_400_000},
    "publishRate": {"publishThrottlingRateInMsg": _MESSAGES, "publishThrottlingRateInByte": _BYTES},
    "dispatchRate": _DISPATCH,
    "subscriptionDispatchRate": _DISPATCH,
}
RATES = ("publishRate", "dispatchRate", "subscriptionDispatchRate")
LIMITS = tuple(name for name in POLICIES if name not in (*RATES, "delayedDelivery"))


@contextmanager
def broker_of(checkout: Path | None, policies: tuple[str, ...]) -> Iterator[RunningBroker]:
    """Run a cluster of one broker, of another checkout if it is given, with policies of the namespace."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    own = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = own if checkout is None else str(checkout / "src")
    cluster = running_cluster(1, {"loadBalancerSheddingEnabled": "false"})
    try:
        running = asyncio.run_coroutine_threadsafe(cluster.__aenter__(), loop).result(60)
        broker = running.brokers[0]
        assert broker.pid is not None
        asyncio.run_coroutine_threadsafe(set_policies(broker.web_url, policies), loop).result(60)
        yield RunningBroker(broker.service_url, psutil.Process(broker.pid))
        asyncio.run_coroutine_threadsafe(cluster.__aexit__(None, None, None), loop).result(60)
    finally:
        os.environ["PYTHONPATH"] = own
        loop.call_soon_threadsafe(loop.stop)


async def set_policies(web_url: str, names: tuple[str, ...]) -> None:
    client = AdminClient()
    try:
        for name in names:
            await client.call("POST", web_url, f"/admin/v2/namespaces/public/default/{name}", body=POLICIES[name])
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=100_000)
    arguments = parser.parse_args()
    cases: dict[str, tuple[Path | None, tuple[str, ...]]] = {
        "no policies": (None, ()),
        "retention, TTL, quota, unacknowledged": (None, LIMITS),
        "the same and rates": (None, (*LIMITS, *RATES)),
        "the same and a longest delay": (None, tuple(POLICIES)),
    }
    if arguments.before is not None:
        cases = {"no policies, before": (arguments.before, ()), **cases}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(arguments.rounds):
        for name, (checkout, policies) in cases.items():
            with broker_of(checkout, policies) as broker:
                figures = publish(broker, size=100, count=arguments.messages, batched=False, consume=True)
            found[name].append((figures.cpu_us, figures.rate))
    least = min(cpu_us for cpu_us, _ in next(iter(found.values())))
    rows = []
    for name, measured in found.items():
        cpus_us, rates = zip(*measured, strict=True)
        difference = f"{(min(cpus_us) / least - 1) * 100:+.1f} %"
        rows.append([name, min(cpus_us), difference, statistics.median(cpus_us), max(rates)])
    print_table(
        f"Single messages of 100 B with a consumer, {arguments.rounds} rounds",
        ["policies", "broker CPU µs/msg, least", "difference", "median", "msg/s, most"],
        rows,
    )


if __name__ == "__main__":
    main()
