"""X3 and X4: brokers join and leave under load, and bundles move until all carry their share.

What a broker carries is the share of all messages that go to the topics of its bundles, as the publishers know it:
every topic gets as many. Brokers are *in balance* when all topics are served and the busiest carries at most RATIO
times what the least busy does. That is the line below which the TransferShedder lets brokers be; those of AvgShedder
(15 points of usage) and ThresholdShedder (10 points above the mean) are narrower here.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.manager_comparison.managers import (
    BALANCING_KEYS,
    NAMESPACE,
    TOPIC,
    Compared,
    Figures,
    Manager,
    compared,
)
from benchmarks.manager_comparison.publishers import Publishers
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

FEW: Final = 3
MANY: Final = 6
BUNDLES: Final = 60
TOPICS: Final = 600
RATE: Final = 3_000.0
PAYLOAD: Final = 1_024
RATIO: Final = 2.0

_FEW_BUSY: Final = 0.7
"""Usage of each of the few brokers; network speed is set to that end, since brokers share the processors here."""
_KEYS: Final = {
    **BALANCING_KEYS,
    "loadBalancerOverrideBrokerNics": "lo",
    "loadBalancerOverrideBrokerNicSpeedGbps": f"{RATE * PAYLOAD * 8 / FEW / _FEW_BUSY / 1e9:.6f}",
    "minUnloadMessage": "10",
    "minUnloadMessageThroughput": "10485",
    "loadBalancerBundleUnloadMinThroughputThreshold": "0.1",
}
"""What traffic is worth a move is a hundredth of the default, as the load here is small."""

_LOOK_S: Final = 0.1
_QUIET_S: Final = 12.0
"""Without a move for so long, brokers have settled: AvgShedder moves after at most eight rounds, of a second each."""
_LONGEST_S: Final = 45.0
_STOP_S: Final = 60.0
_SETTLE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """Who owned each bundle at a moment."""

    at_s: float
    owners: dict[str, str]


class Watch:
    """Looks at the owners of all bundles again and again."""

    def __init__(self, system: Compared) -> None:
        namespace = NamespaceName.parse(NAMESPACE)
        bundles = NamespaceBundles.equal(namespace, BUNDLES)
        topics = (TopicName.parse(f"{TOPIC}-partition-{number}") for number in range(TOPICS))
        self.topics = Counter(str(bundles.find(topic)) for topic in topics)
        self._system = system
        self._looks: list[Look] = []
        self._moved_s: list[float] = []

    async def run(self) -> None:
        known: dict[str, str] = {}
        while True:
            look = Look(time.perf_counter(), await self._system.owners())
            moved = [bundle for bundle, owner in look.owners.items() if known.get(bundle, owner) != owner]
            self._moved_s += [look.at_s] * len(moved)
            known.update(look.owners)
            self._looks.append(look)
            await asyncio.sleep(_LOOK_S)

    async def settled(self, since_s: float) -> None:
        """Wait until nothing moved for a while, or that may go on for ever."""
        while (now_s := time.perf_counter()) < since_s + _LONGEST_S:
            if now_s > max([since_s, *self._moved_s]) + _QUIET_S:
                return
            await asyncio.sleep(_LOOK_S)

    def figures(self, since_s: float, brokers: int) -> Figures:
        """Return how so many brokers came into balance after `since_s`; times are seconds from then on."""
        looks = [look for look in self._looks if look.at_s >= since_s]
        spreads = [self._carried(look, brokers) for look in looks]
        unbalanced_s = [
            look.at_s for look, carried in zip(looks, spreads, strict=True) if max(carried) > RATIO * min(carried)
        ]
        balanced_s = next((look.at_s for look in looks if look.at_s > max([since_s, *unbalanced_s])), math.inf)
        moved_s = [at_s for at_s in self._moved_s if at_s > since_s]
        return {
            "until in balance, s": balanced_s - since_s,
            "until the last move, s": max([since_s, *moved_s]) - since_s,
            "moves of bundles": len(moved_s),
            "busiest / mean in the end": max(spreads[-1]) / (TOPICS / brokers),
            "least busy / mean in the end": min(spreads[-1]) / (TOPICS / brokers),
        }

    def _carried(self, look: Look, brokers: int) -> list[float]:
        """Return the topics of each broker, 0 where some are missing."""
        found: Counter[str] = Counter()
        for bundle, owner in look.owners.items():
            found[owner] += self.topics[bundle]
        carried = [float(topics) for topics in found.values() if topics]
        if sum(carried) < TOPICS:
            carried.append(0.0)
        return carried + [0.0] * (brokers - len(carried))


async def doubled_and_halved(manager: Manager) -> dict[str, Figures]:
    """X3, then X4: FEW brokers with equal numbers of bundles become MANY, and FEW again. X3 counts from when the new
    ones are ready, X4 from the SIGTERM to them all, side by side."""
    async with _loaded(manager) as (system, publishers):
        newcomers = system.cluster.brokers[FEW:]
        watch = Watch(system)
        watching = asyncio.create_task(watch.run(), name="watch owners")
        try:
            with publishers.sending(RATE):
                await _spread_evenly(system, watch)
                await asyncio.sleep(_SETTLE_S)
                await system.cluster.start_brokers(newcomers)
                joined_s = time.perf_counter()
                await watch.settled(joined_s)
                joining = watch.figures(joined_s, MANY)
                before = len(publishers.latencies_s)
                left_s = time.perf_counter()
                await asyncio.gather(*(broker.terminate(timeout_s=_STOP_S) for broker in newcomers))
                await watch.settled(left_s)
                leaving = watch.figures(left_s, FEW)
            await asyncio.to_thread(publishers.drain, _LONGEST_S)
        finally:
            watching.cancel()
    longest_s = max(publishers.latencies_s[before:])
    return {"X3": joining, "X4": {**leaving, "longest that a message waits for its receipt, s": longest_s}}


@asynccontextmanager
async def _loaded(manager: Manager) -> AsyncIterator[tuple[Compared, Publishers]]:
    async with compared(manager, brokers=MANY, started=FEW, bundles=BUNDLES, partitions=TOPICS, keys=_KEYS) as system:
        with await asyncio.to_thread(system.publishers, PAYLOAD) as publishers:
            yield system, publishers


async def _spread_evenly(system: Compared, watch: Watch) -> None:
    """Give the first brokers equal numbers of bundles, as whoever looks them up first would not."""
    owners = await system.owners()
    for number, bundle in enumerate(sorted(watch.topics)):
        broker = system.cluster.brokers[number % FEW].broker_id
        if owners.get(bundle) != broker:
            await system.call("PUT", f"namespaces/{bundle}/unload", params={"destinationBroker": broker})
