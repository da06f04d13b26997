"""Outages of a running cluster of processes on etcd, under traffic: how long until it serves again, and why."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from pulsar_barycenter.standalone.errors import ProcessFailedError
from support.outages import BROKERS, Deed, Outage, Recovery
from support.running_cluster import Admin, running_cluster
from support.serving_intervals import conflicts, read_terms
from support.traffic import Traffic
from support.wire_client import WireClient
from support.wire_lookup import LookupRefusedError, lookup_over_wire

BUSY: Final = NamespaceName.parse("public/busy")
BUNDLES: Final = 4
TOPICS: Final = 6
READY_S: Final = 60.0
"""What a start may take on a busy machine, besides the end of the session of the former process."""
BACK_OFF_S: Final = 60.0
"""The longest pause that the stock client makes between two tries."""
_ASK_AGAIN_S: Final = 0.1
_ATTEMPT_S: Final = 10.0


class OutageRun:
    """`session_s` is the session timeout of the brokers."""

    def __init__(
        self, cluster: StandaloneCluster, admin: Admin, traffic: Traffic, session_s: float, client_log: Path
    ) -> None:
        self.cluster = cluster
        self.admin = admin
        self.traffic = traffic
        self.session_s = session_s
        self._client_log = client_log
        self._probes = _one_topic_of_each_bundle()
        self._asked = 0
        self._starting: list[BrokerProcess] = []

    async def befall(self, outage: Outage) -> tuple[Recovery, list[str]]:
        """Begin and end an outage; return when every producer succeeded again, with a time line."""
        for number, each in enumerate(outage.rounds):
            if number:
                await asyncio.sleep(outage.rounds[number - 1].pause_sessions * self.session_s)
            victims = [(self.cluster.brokers[index], deed) for index, deed in each.deeds]
            for victim, deed in victims:
                await self._strike(victim, deed)
            await asyncio.sleep(each.for_sessions * self.session_s)
            for victim, deed in victims:
                await self._undo(victim, deed)
        loop = asyncio.get_running_loop()
        began, at = loop.time(), datetime.now(UTC)
        told: list[tuple[float, str]] = []

        async def timed(what: str, work: Awaitable[None]) -> float:
            await work
            took_s = loop.time() - began
            told.append((took_s, what))
            return took_s

        starting, self._starting = self._starting, []
        served_s = self.session_s + READY_S
        ready = [timed(f"{each.name} is ready", self._ready(each, served_s)) for each in starting]
        served = [
            timed(f"a client is served in {bundle}", self._served(topic, served_s)) for bundle, topic in self._probes
        ]
        through = timed("all producers got through", self.traffic.gets_through(within_s=served_s + BACK_OFF_S))
        times = await asyncio.gather(*ready, *served, through)
        recovery = Recovery(
            outage,
            ready_s=max(times[: len(ready)], default=0.0),
            served_s=max(times[len(ready) : -1]),
            through_s=times[-1],
        )
        told += self._logged(at, recovery.through_s)
        return recovery, [f"{time_s:8.2f} {what}" for time_s, what in sorted(told)]

    async def _strike(self, victim: BrokerProcess, deed: Deed) -> None:
        if deed is Deed.KILL:
            self._starting = [each for each in self._starting if each is not victim]
            await self.cluster.kill_broker(victim)
        else:
            victim.signal(signal.SIGSTOP)

    async def _undo(self, victim: BrokerProcess, deed: Deed) -> None:
        if deed is Deed.KILL:
            await victim.start()
            self._starting.append(victim)
        else:
            victim.signal(signal.SIGCONT)

    async def _ready(self, broker: BrokerProcess, within_s: float) -> None:
        """Return when a broker has started. If its start fails, for example because it was stopped for longer than
        its session, it is started again, as by a supervisor."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await broker.wait_ready(timeout_s=within_s)
                    return
                except ProcessFailedError:
                    await broker.start()

    async def _served(self, topic: str, within_s: float) -> None:
        """Return when a client that tries every 0.1 s had a message acknowledged."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while True:
            assert loop.time() < deadline, f"{topic} is not served within {within_s:g} s"
            with suppress(OSError, LookupRefusedError, asyncio.IncompleteReadError, TimeoutError, AssertionError):
                async with asyncio.timeout(_ATTEMPT_S):
                    if await self._publish(topic):
                        return
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _publish(self, topic: str) -> bool:
        self._asked += 1
        asked = self.cluster.brokers[self._asked % BROKERS]
        url = await lookup_over_wire(asked.service_url, topic)
        client = await WireClient.connect(int(url.rpartition(":")[2]))
        try:
            if isinstance(await client.produce(topic), api.CommandError):
                return False
            await client.send_all(1)
            return True
        finally:
            client.close()

    def _logged(self, began: datetime, took_s: float) -> list[tuple[float, str]]:
        """Return what brokers and clients logged meanwhile, each line with its time after the last fault."""
        lines = []
        for broker in self.cluster.brokers:
            for line in broker.log.read_text(errors="replace").splitlines():
                with suppress(ValueError, KeyError):
                    entry = json.loads(line)
                    at_s = (datetime.fromisoformat(entry.pop("timestamp")) - began).total_seconds()
                    if -30 <= at_s <= took_s + 0.5 and entry.get("level") != "debug":
                        lines.append((at_s, f"{broker.name} {json.dumps(entry)[:300]}"))
        for line in self._client_log.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                at_s = (datetime.fromisoformat(line[:23].replace(" ", "T")).replace(tzinfo=UTC) - began).total_seconds()
                if -1 <= at_s <= took_s + 0.5:
                    lines.append((at_s, f"client {line[24:]}"))
        return lines


def _one_topic_of_each_bundle() -> list[tuple[Bundle, str]]:
    bundles, found = NamespaceBundles.equal(BUSY, BUNDLES), dict[Bundle, str]()
    number = 0
    while len(found) < BUNDLES:
        topic = f"persistent://{BUSY}/probe-{number}"
        found.setdefault(bundles.find(TopicName.parse(topic)), topic)
        number += 1
    return list(found.items())


@asynccontextmanager
async def outage_run(folder: Path, store_url: str, configuration: Mapping[str, str]) -> AsyncIterator[OutageRun]:
    """Run a cluster on a store, with traffic; on leaving, prove that nothing was lost, reordered or served by two."""
    client_log = folder / "client.log"
    session_s = int(configuration["metadataStoreSessionTimeoutMillis"]) / 1000
    async with running_cluster(
        folder / "data", brokers=BROKERS, configuration=configuration, metadata_store_url=store_url
    ) as (cluster, admin):
        await admin.create_namespace(str(BUSY), BUNDLES)
        traffic = await asyncio.to_thread(
            Traffic,
            cluster.service_url,
            busy=[f"persistent://{BUSY}/topic-{number}" for number in range(TOPICS)],
            quiet=[],
            pause_s=0.1,
            client_log=client_log,
        )
        try:
            yield OutageRun(cluster, admin, traffic, session_s, client_log)
            await traffic.finish(cluster.service_url)
        finally:
            await asyncio.to_thread(traffic.close)
        logs = [broker.log for broker in cluster.brokers]
    assert conflicts(read_terms(logs)) == []
