"""Measures for how long clients of a topic get no receipts when its bundle moves, and when its broker is killed.

A producer sends a message each millisecond without waiting, and a consumer acknowledges what arrives. The gap of an
event is the longest time around it in which messages were under way and no receipt came. Three clusters, one after the
other: one of the modular load manager, which unloads and lets clients look the topic up; and two of the extensible one,
with its records in a topic and in the metadata store, where transfers and plain unloads take turns under one load.
"""

import argparse
import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import aiohttp
import pulsar

from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table
from pulsar_barycenter.load.managers import ManagerKind

_TOPIC: Final = "persistent://public/gap/topic"
_LOOKUP: Final = "/lookup/v2/topic/persistent/public/gap/topic"
_UNLOAD: Final = "/admin/v2/namespaces/public/gap/0x00000000_0xffffffff/unload"
_EVERY_S: Final = 0.001
_SETTLES_S: Final = 0.4
"""How long after the answer to an unload the next one comes."""
_CALM_S: Final = 2.0
"""How long after the last of them its owner is killed: what is left of that gap is none of this one."""
_CHANNEL: Final = "org.apache.pulsar.broker.loadbalance.extensions.channel"
_PLACES: Final = {
    "topic": f"{_CHANNEL}.ServiceUnitStateTableViewImpl",
    "store": f"{_CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
}
_TRANSFER: Final = "transfer"
_PLAIN: Final = "plain unload"
GIVEN: Final = "unload to a given broker"


class Pulse:
    """Send numbers steadily, `every_s` seconds apart, and keep when each receipt came and in which order the numbers
    arrived."""

    def __init__(self, client: Any, topic: str = _TOPIC, every_s: float = _EVERY_S) -> None:
        self.failures: list[str] = []
        self.sent = 0
        self._sent_at: list[float] = []
        self._receipts_at: list[float] = []
        self._arrived: list[int] = []
        self._consumer = client.subscribe(topic, "gap", initial_position=pulsar.InitialPosition.Earliest)
        self._producer = client.create_producer(topic, send_timeout_millis=0, max_pending_messages=50_000)
        self._every_s = every_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._stop.wait(self._every_s):
            sent_at = time.perf_counter()
            text = str(self.sent).encode()
            self._producer.send_async(text, lambda result, _, sent_at=sent_at: self._receipt(result, sent_at))
            self.sent += 1

    def _receipt(self, result: Any, sent_at: float) -> None:
        if result != pulsar.Result.Ok:
            self.failures.append(str(result))
        self._sent_at.append(sent_at)
        self._receipts_at.append(time.perf_counter())

    def _receive(self) -> None:
        while not (self._stop.is_set() and len(self._receipts_at) == self.sent):
            self._take(1_000)
        while self._take(2_000):
            pass

    def _take(self, timeout_ms: int) -> bool:
        try:
            message = self._consumer.receive(timeout_ms)
        except pulsar.Timeout:
            return False
        self._consumer.acknowledge(message)
        self._arrived.append(int(message.data()))
        return True

    def longest_gap_s(self, from_s: float, until_s: float) -> float:
        """Return the longest time without a receipt that began between the two; the one that ended it may be later."""
        first, last = bisect_left(self._receipts_at, from_s), from_s
        gaps = [0.0]
        for sent_at, at in zip(self._sent_at[first:], self._receipts_at[first:], strict=True):
            gaps.append(at - max(last, sent_at))
            last = at
            if at > until_s:
                break
        return max(gaps)

    def close(self) -> None:
        """Wait until everything that was sent has its receipt and has arrived."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def verdict(self) -> str:
        """Say what became of the messages.

        Raises:
            AssertionError: one was lost or refused, or came before one that was sent earlier.
        """
        firsts = list(dict.fromkeys(self._arrived))
        assert not self.failures, self.failures[:3]
        assert firsts == list(range(self.sent)), f"{len(firsts)} of {self.sent} messages arrived, or not in order"
        return f"{self.sent:,} messages arrived in order, {len(self._arrived) - len(firsts):,} of them again"


class Member(Protocol):
    """A broker of a cluster that is measured."""

    @property
    def broker_id(self) -> str: ...
    @property
    def web_url(self) -> str: ...
    @property
    def service_url(self) -> str: ...


class Cluster(Protocol):
    @property
    def brokers(self) -> Sequence[Member]: ...
    @property
    def service_url(self) -> str: ...


Kill = Callable[[int], Awaitable[None]]
"""Ends the broker in that place as a crash does."""


async def owner_index(session: aiohttp.ClientSession, cluster: Cluster, ask: int = 0) -> int:
    async with session.get(cluster.brokers[ask].web_url + _LOOKUP) as answer:
        url = (await answer.json(content_type=None))["brokerUrl"]
    return next(place for place, broker in enumerate(cluster.brokers) if broker.service_url == url)


async def unload(session: aiohttp.ClientSession, cluster: Cluster, *, to_next: bool) -> tuple[float, float]:
    """Unload the bundle, to the broker after its owner or to whoever is chosen; return when that was."""
    owner = await owner_index(session, cluster)
    target = (owner + 1) % len(cluster.brokers)
    query = {"destinationBroker": cluster.brokers[target].broker_id} if to_next else {}
    start = time.perf_counter()
    url = cluster.brokers[owner].web_url + _UNLOAD
    async with session.put(url, params=query, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 204, await answer.text()
    await asyncio.sleep(_SETTLES_S)
    end = time.perf_counter()
    if to_next:
        assert await owner_index(session, cluster) == target, "the bundle did not go where it was told"
    return start, end


def turns(transfers: int, unloads: int) -> list[str]:
    """Return the events of a run, the plain unloads spread evenly among the transfers."""
    at = [((number + 0.5) / count, event) for event, count in ((_TRANSFER, transfers), (_PLAIN, unloads))
          for number in range(count)]  # fmt: skip
    return [event for _, event in sorted(at)]


async def run(
    configuration: dict[str, str], events: list[str], session_ms: int, *, metadata_store_url: str = ""
) -> tuple[dict[str, list[float]], str]:
    """Return the gaps in seconds of each kind of event, that of the owner's death last, and what became of messages."""
    common = {"loadBalancerSheddingEnabled": "false", "metadataStoreSessionTimeoutMillis": str(session_ms)}
    started = running_cluster(3, common | configuration, metadata_store_url=metadata_store_url)
    async with started as cluster:
        return await gaps_of(cluster, lambda place: cluster.kill_broker(cluster.brokers[place]), events, session_ms)


async def gaps_of(
    cluster: Cluster, kill: Kill, events: list[str], session_ms: int
) -> tuple[dict[str, list[float]], str]:
    """As `run`, of a cluster that runs; of it one broker is dead afterwards."""
    async with aiohttp.ClientSession() as session:
        url = f"{cluster.brokers[0].web_url}/admin/v2/namespaces/public/gap"
        async with session.put(url, json={"bundles": {"numBundles": 1}}) as answer:
            assert answer.status in (204, 409), await answer.text()
        client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        pulse = await asyncio.to_thread(Pulse, client)
        await asyncio.sleep(1)
        windows = [(event, await unload(session, cluster, to_next=event != _PLAIN)) for event in events]
        await asyncio.sleep(_CALM_S)
        killed = await owner_index(session, cluster)
        start = time.perf_counter()
        await kill(killed)
        await asyncio.sleep(session_ms / 1000 + 5)
        windows.append((f"owner killed (session {session_ms} ms)", (start, time.perf_counter())))
        await asyncio.to_thread(pulse.close)
        await asyncio.to_thread(client.close)
    gaps: dict[str, list[float]] = {}
    for event, window in windows:
        gaps.setdefault(event, []).append(pulse.longest_gap_s(*window))
    return gaps, pulse.verdict()


async def measure(transfers: int, unloads: int, session_ms: int, places: list[str]) -> None:
    extensible = {"loadManagerClassName": ManagerKind.EXTENSIBLE.class_name}
    clusters: dict[str, tuple[dict[str, str], list[str]]] = {"modular": ({}, [GIVEN] * unloads)}
    for place in places:
        where = {"loadManagerServiceUnitStateTableViewClassName": _PLACES[place]}
        clusters[f"extensible, records in the {place}"] = extensible | where, turns(transfers, unloads)
    rows: list[list[object]] = []
    verdicts = []
    for name, (configuration, events) in clusters.items():
        gaps, verdict = await run(configuration, events, session_ms)
        verdicts.append(f"{name}: {verdict}")
        for event, found in gaps.items():
            rows.append([name, event, len(found), *(1000 * percentile(found, p) for p in (50, 90, 99, 100))])
    print_table("Client-visible gap", ["load manager", "event", "times", "p50 ms", "p90 ms", "p99 ms", "max ms"], rows)
    print("\n" + "\n".join(verdicts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transfers", type=int, default=300)
    parser.add_argument("--unloads", type=int, default=50)
    parser.add_argument("--session-ms", type=int, default=10_000)
    parser.add_argument("--places", nargs="*", choices=list(_PLACES), default=list(_PLACES))
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.transfers, arguments.unloads, arguments.session_ms, arguments.places))


if __name__ == "__main__":
    main()
