"""Brokers of Apache Pulsar and of Barycenter as one cluster with persistent topics, on one ZooKeeper and the same
bookies: each of them is killed or paused as a crash does, and topics are unloaded.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any, Final

import aiohttp

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.doctor.reading.bookies import read_bookies
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from pulsar_barycenter.standalone.errors import NotReadyError
from support.admin_tool import tool_class_path
from support.apache_pulsar import ApacheBroker, ApachePulsar, apache_pulsar
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.mixed_flow import Content, Flow, Interruptions, content_of
from support.running_cluster import eventually, lookup_path, running_cluster
from support.topics_of_both import JAVA_KEYS, PYTHON_KEYS, WITHOUT_TLS

NAMESPACE: Final = "public/mixed"
BOOKIES: Final = 3
_COPIES: Final = {
    # a ledger can be created while one bookie is down
    "managedLedgerDefaultEnsembleSize": "2",
    "managedLedgerDefaultWriteQuorum": "2",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerMaxEntriesPerLedger": "200",
    "metadataStoreSessionTimeoutMillis": "20000",
}
_JAVA_ONLY: Final = {"managedLedgerCursorPositionFlushSeconds": "1"}  # Barycenter's stores each position soon
_WITHIN_S: Final = 300


class MixedCluster:
    """All brokers, Java's first, and their admin REST; the bookies."""

    def __init__(self, java: ApachePulsar, cluster: StandaloneCluster, session: aiohttp.ClientSession) -> None:
        self.java = java
        self.cluster = cluster
        self.brokers: list[ApacheBroker | BrokerProcess] = [*java.brokers, *cluster.brokers]
        self.interruptions = Interruptions()
        self.missing_bookies: list[int] = []
        """The bookies that were killed and not started again."""
        self._missing_brokers: set[int] = set()
        self._session = session

    @property
    def service_url(self) -> str:
        return "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in self.brokers)

    def kind_of(self, number: int) -> str:
        return "java" if isinstance(self.brokers[number], ApacheBroker) else "python"

    def others(self, number: int) -> list[int]:
        return [other for other in range(len(self.brokers)) if other != number]

    async def call(self, method: str, path: str, *, broker: int = 0, json: Any = None) -> tuple[int, Any]:
        """Return the status and the body of an answer; status 0: there was none, as a broker does not run.

        Pulsar says of some of its texts that they are JSON.
        """
        url = f"{self.brokers[broker].web_url}{path}"
        try:
            async with self._session.request(method, url, json=json) as answer:
                status, text = answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return 0, str(error)
        try:
            return status, loads(text)
        except ValueError:
            return status, text.strip('"')

    async def owner(self, topic: str) -> int:
        """Return the number of the broker that serves a topic, as the first broker that runs says."""
        return await self._owner(topic, min(set(range(len(self.brokers))) - self._missing_brokers))

    async def _owner(self, topic: str, asked: int) -> int:
        found: list[int] = []
        answers: list[Any] = []

        async def has_one() -> bool:
            status, answer = await self.call("GET", lookup_path(topic), broker=asked)
            answers[:] = [status, answer]
            found[:] = [
                number
                for number, broker in enumerate(self.brokers)
                if status == 200 and broker.service_url == answer["brokerUrl"]
            ]
            return bool(found)

        try:
            await eventually(has_one, within_s=_WITHIN_S, what=f"{topic} has an owner")
        except AssertionError as error:
            error.add_note(f"broker {asked} answers {answers}")
            raise
        return found[0]

    async def unload(self, topic: str, target: int) -> None:
        status, bundle = await self.call("GET", f"{lookup_path(topic)}/bundle")
        assert status == 200, bundle
        path = f"/admin/v2/namespaces/{NAMESPACE}/{bundle}/unload?destinationBroker={self.brokers[target].broker_id}"

        async def is_done() -> bool:  # the owner may change meanwhile
            return (await self.call("PUT", path))[0] == 204

        await eventually(is_done, within_s=_WITHIN_S, what=f"{topic} is unloaded")

    async def kill(self, number: int) -> None:
        """End a broker as a crash does, and wait until the cluster knows."""
        self.interruptions.begin()
        self._missing_brokers.add(number)
        broker = self.brokers[number]
        if isinstance(broker, ApacheBroker):
            await asyncio.to_thread(broker.kill)
        else:
            await self.cluster.kill_broker(broker)

        async def is_missing() -> bool:
            return not await self._is_registered(number)

        await eventually(is_missing, within_s=_WITHIN_S, what="a broker that was killed is no longer registered")

    async def restart(self, number: int) -> None:
        broker = self.brokers[number]
        if isinstance(broker, ApacheBroker):
            await asyncio.to_thread(self.java.restart, broker)
        else:

            async def is_ready() -> bool:
                try:
                    await self.cluster.start_brokers([broker])
                except NotReadyError:  # on a busy machine
                    return False
                return True

            await eventually(is_ready, within_s=_WITHIN_S, what="a broker that was killed is ready again")
        self._missing_brokers.discard(number)

    async def pause(self, topic: str) -> int:
        """Stop the owner of a topic for longer than its session, let it go on beside its successor, and return its
        number."""
        number = await self.owner(topic)
        broker = self.brokers[number]
        process = broker.process if isinstance(broker, ApacheBroker) else broker
        assert process is not None
        assert process.pid is not None
        asked = self.others(number)[0]
        self.interruptions.begin()
        os.kill(process.pid, signal.SIGSTOP)
        try:

            async def is_taken() -> bool:
                return await self._owner(topic, asked) != number

            await eventually(is_taken, within_s=_WITHIN_S, what="a topic of a paused broker has another owner")
        finally:
            os.kill(process.pid, signal.SIGCONT)

        async def is_back() -> bool:
            return await self._is_registered(number)

        await eventually(is_back, within_s=_WITHIN_S, what="a broker that was paused is registered again")
        return number

    async def _is_registered(self, number: int) -> bool:
        status, ids = await self.call("GET", "/admin/v2/brokers", broker=self.others(number)[0])
        return status == 200 and self.brokers[number].broker_id in ids

    async def kill_bookie(self, number: int) -> None:
        await asyncio.to_thread(self.java.kill_bookie, number)
        self.missing_bookies.append(number)

    async def start_bookies(self) -> None:
        """Start the bookies that were killed, and wait until all bookies accept writes."""
        for number in self.missing_bookies:
            await asyncio.to_thread(self.java.start_bookie, number)
        self.missing_bookies.clear()

        async def all_write() -> bool:
            return (await read_bookies(self.java.metadata_url, "", "")).writable == BOOKIES

        await eventually(all_write, within_s=_WITHIN_S, what="all bookies accept writes")

    async def stats(self, flow: Flow) -> dict[str, Any]:
        """Return the internal stats of a topic at its owner."""
        answers: list[Any] = []

        async def has_answer() -> bool:
            answers[:] = await self.call("GET", f"{flow.path}/internalStats", broker=await self.owner(flow.topic))
            return bool(answers[0] == 200)

        try:
            await eventually(has_answer, within_s=_WITHIN_S, what=f"{flow.topic} has internal stats")
        except AssertionError as error:
            error.add_note(str(answers))
            raise
        found: dict[str, Any] = answers[1]
        return found

    async def settled(self, flow: Flow) -> Content:
        """Wait until everything sent arrived, and its owner reports as acknowledged what is not held; return what it
        reports. Nothing must be sent meanwhile.
        """
        await flow.has_all()
        answers: list[Any] = []

        async def is_acknowledged() -> bool:
            answers[:] = await self.call("GET", f"{flow.path}/stats", broker=await self.owner(flow.topic))
            return bool(answers[0] == 200 and answers[1]["subscriptions"]["work"]["msgBacklog"] == flow.held)

        try:
            await eventually(is_acknowledged, within_s=_WITHIN_S, what=f"{flow.topic} has a backlog of what is held")
        except AssertionError as error:
            error.add_note(f"held {flow.held}, {answers}")
            raise
        content = content_of(await self.stats(flow))
        flow.note_reported()
        return content

    async def check_ledgers(self, flows: list[Flow]) -> tuple[int, list[int]]:
        """Check that each ledger of the topics is on bookies, and closed unless it is the current one. Return how many
        there are, and the ledgers on bookies to which no topic and no subscription refers.
        """
        bookies = await read_bookies(self.java.metadata_url, "", "")
        assert (bookies.failure, bookies.lacking) == ("", ())
        store = await open_store(self.java.metadata_url)
        client = await LedgerClient.open(store)
        try:
            listed: set[int] = set()
            cursors: set[int] = set()
            for flow in flows:
                stats = await self.stats(flow)
                ledgers = [ledger["ledgerId"] for ledger in stats["ledgers"]]
                for ledger in ledgers[:-1]:
                    assert (await client.metadata(ledger)).state is LedgerState.CLOSED, (flow.topic, ledger)
                listed.update(ledgers)
                cursors.update(cursor["cursorLedger"] for cursor in stats["cursors"].values())
            stored = {ledger async for ledger in client.ids()}
            assert listed <= stored
            return len(listed), sorted(stored - listed - cursors)
        finally:
            await client.close()
            await store.close()


@asynccontextmanager
async def mixed_cluster(folder: Path, line: str) -> AsyncIterator[MixedCluster]:
    """Run two Java brokers of a line of versions and two Python brokers."""
    (folder / "java").mkdir()
    running = apache_pulsar(
        folder / "java",
        brokers=2,
        configuration={**JAVA_KEYS, **_COPIES, **_JAVA_ONLY},
        deployment=replace(
            WITHOUT_TLS,
            own_bookie=True,
            bookies=BOOKIES,
            zookeeper={**WITHOUT_TLS.zookeeper, "maxSessionTimeout": "60000"},
        ),
        java_and_jars=await asyncio.to_thread(tool_class_path, VERSION_5) if line == "5.x" else None,
    )
    java = await asyncio.to_thread(running.__enter__)
    try:
        async with running_cluster(
            folder / "python",
            brokers=2,
            configuration={**PYTHON_KEYS, **_COPIES},
            metadata_store_url=java.metadata_url,
            has_own_folders=True,
        ) as (cluster, _):
            # Pulsar refuses what comes without this header, even without a body
            headers = {"Content-Type": "application/json"}
            async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=15)) as session:
                yield MixedCluster(java, cluster, session)
    except BaseException as error:
        error.add_note(java.logs())
        raise
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
