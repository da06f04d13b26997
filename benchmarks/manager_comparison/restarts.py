"""X1 and X2: brokers that are restarted, all at once or one by one. Intervals are those of a broker as shipped."""

import asyncio
import time
from typing import Final

from benchmarks.machine import percentile
from benchmarks.manager_comparison.managers import Compared, Figures, Manager, compared

X1_BROKERS: Final = 4
X1_BUNDLES: Final = 1_000
X1_PUBLISHERS: Final = 2_000
X2_BROKERS: Final = 4
X2_BUNDLES: Final = 100
X2_PARTITIONS: Final = 1_000
X2_RATE: Final = 1_000.0
_PAYLOAD: Final = 100
_BEFORE_S: Final = 2.0
_BETWEEN_S: Final = 2.0
_STOP_S: Final = 90.0
"""Longer than `brokerShutdownTimeoutMs`, after which a broker ends whatever it holds."""
_RECOVERY_S: Final = 180.0


async def all_at_once(manager: Manager) -> dict[str, Figures]:
    """X1: SIGTERM to all brokers side by side, and a start of all once they have ended; until each publisher, still the
    same client, has a receipt for a message sent meanwhile."""
    async with compared(manager, brokers=X1_BROKERS, bundles=X1_BUNDLES, partitions=X1_PUBLISHERS) as system:
        brokers = system.cluster.brokers
        with await asyncio.to_thread(system.publishers, _PAYLOAD) as publishers:
            publishers.send_to_all()
            await asyncio.to_thread(publishers.drain, _RECOVERY_S)
            began_s = time.perf_counter()
            in_order = await asyncio.gather(*(broker.terminate(timeout_s=_STOP_S) for broker in brokers))
            stopped_s = time.perf_counter()
            publishers.send_to_all()
            await system.cluster.start_brokers(brokers)
            started_s = time.perf_counter()
            await asyncio.to_thread(publishers.drain, _RECOVERY_S)
            ended_s = time.perf_counter()
    assert all(in_order), "a broker did not stop in order"
    figures = {
        "until all publishers are connected again, s": ended_s - began_s,
        "of it until brokers have stopped, s": stopped_s - began_s,
        "of it after brokers have started, s": ended_s - started_s,
    }
    return {"X1": figures}


async def one_by_one(manager: Manager) -> dict[str, Figures]:
    """X2: each broker stopped and started while messages come; from the call of send to the receipt."""
    async with compared(manager, brokers=X2_BROKERS, bundles=X2_BUNDLES, partitions=X2_PARTITIONS) as system:
        with await asyncio.to_thread(system.publishers, _PAYLOAD) as publishers:
            publishers.send_to_all()
            await asyncio.to_thread(publishers.drain, _RECOVERY_S)
            before = len(publishers.latencies_s)
            with publishers.sending(X2_RATE):
                await _restart_each(system)
            await asyncio.to_thread(publishers.drain, _RECOVERY_S)
            latencies_s = publishers.latencies_s[before:]
    return {
        "X2": {f"publish latency p{p:g}, ms": 1000 * percentile(latencies_s, p) for p in (99.99, 100, 99.9, 99, 50)}
    }


async def _restart_each(system: Compared) -> None:
    await asyncio.sleep(_BEFORE_S)
    for broker in system.cluster.brokers:
        await broker.terminate(timeout_s=_STOP_S)
        await system.cluster.start_brokers([broker])
        await asyncio.sleep(_BETWEEN_S)
