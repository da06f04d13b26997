"""Two brokers of Apache Pulsar and two of Barycenter as one cluster with persistent topics on the same bookies.

Topics move at random by unload, and because their owner is killed or paused, while numbered messages flow. At the end,
Java alone serves and reads everything.
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from json import loads
from pathlib import Path
from typing import Any

import aiohttp
import pulsar
import pytest

from pulsar_barycenter.doctor.reading.bookies import read_bookies
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from support.apache_pulsar import ApacheBroker, ApachePulsar, apache_pulsar
from support.maven import PeerUnavailableError
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import eventually, lookup_path, running_cluster
from support.topics_of_both import JAVA_KEYS, PYTHON_KEYS, WITHOUT_TLS

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

NAMESPACE = "public/mixed"
SUBSCRIPTION = "work"
KINDS = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
    "shared": pulsar.ConsumerType.Shared,
    "key-shared": pulsar.ConsumerType.KeyShared,
}
IN_ORDER = ("exclusive", "failover")
STEPS = ("unload", "kill", "unload", "pause")
SESSION = {"metadataStoreSessionTimeoutMillis": "10000"}
_PAUSE_S = 0.02


class Flow:
    """Numbered messages through one topic, and what its consumer got."""

    def __init__(self, client: Any, kind: str) -> None:
        self.kind = kind
        self.topic = f"persistent://{NAMESPACE}/{kind}"
        self.arrived: list[int] = []
        subscribe_before_sending(client, self.topic)
        self.consumer = client.subscribe(
            self.topic,
            SUBSCRIPTION,
            KINDS[kind],
            initial_position=pulsar.InitialPosition.Earliest,
            message_listener=self._take,
        )
        self.producer = NumberedProducer(client, self.topic, batching=False)

    def _take(self, consumer: Any, message: Any) -> None:
        self.arrived.append(int(message.data()))
        consumer.acknowledge(message)

    def check(self) -> None:
        """Check that each message that has a receipt arrived, and in order, where the subscription keeps it."""
        assert not self.producer.failures
        assert self.producer.acknowledged <= set(self.arrived)
        if self.kind in IN_ORDER:
            firsts = list(dict.fromkeys(self.arrived))
            assert firsts == sorted(firsts)


class Mixed:
    """All four brokers, Java's first, and their admin REST."""

    def __init__(self, java: ApachePulsar, cluster: StandaloneCluster, session: aiohttp.ClientSession) -> None:
        self.java = java
        self.cluster = cluster
        self.brokers: list[ApacheBroker | BrokerProcess] = [*java.brokers, *cluster.brokers]
        self._session = session
        self.sent: dict[str, int] = {}
        self.interruptions = 0

    @property
    def service_url(self) -> str:
        return "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in self.brokers)

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

    async def owner(self, topic: str, *, asked: int = 0) -> int:
        """Return the number of the broker that serves a topic, as the broker `asked` says."""
        found: list[int] = []

        async def has_one() -> bool:
            status, answer = await self.call("GET", lookup_path(topic), broker=asked)
            found[:] = [
                number
                for number, broker in enumerate(self.brokers)
                if status == 200 and broker.service_url == answer["brokerUrl"]
            ]
            return bool(found)

        await eventually(has_one, within_s=120, what=f"{topic} has an owner")
        return found[0]

    async def unload(self, topic: str, target: int) -> None:
        status, bundle = await self.call("GET", f"{lookup_path(topic)}/bundle")
        assert status == 200, bundle
        path = f"/admin/v2/namespaces/{NAMESPACE}/{bundle}/unload?destinationBroker={self.brokers[target].broker_id}"

        async def is_done() -> bool:  # the owner may change meanwhile
            return (await self.call("PUT", path))[0] == 204

        await eventually(is_done, within_s=120, what=f"{topic} is unloaded")

    async def kill(self, number: int) -> None:
        """End a broker as a crash does, wait until the cluster knows, and start it again."""
        self.interruptions += 1
        broker = self.brokers[number]
        if isinstance(broker, ApacheBroker):
            await asyncio.to_thread(broker.kill)
        else:
            await self.cluster.kill_broker(broker)
        asked = next(other for other in range(len(self.brokers)) if other != number)

        async def is_gone() -> bool:
            status, ids = await self.call("GET", "/admin/v2/brokers", broker=asked)
            return status == 200 and broker.broker_id not in ids

        await eventually(is_gone, within_s=120, what="a broker that was killed is no longer registered")
        if isinstance(broker, ApacheBroker):
            await asyncio.to_thread(self.java.restart, broker)
        else:
            await self.cluster.start_brokers([broker])

    async def pause(self, topic: str) -> None:
        """Stop the owner of a topic for longer than its session, and let it go on beside its successor."""
        number = await self.owner(topic)
        broker = self.brokers[number]
        process = broker.process if isinstance(broker, ApacheBroker) else broker
        assert process is not None
        assert process.pid is not None
        asked = next(other for other in range(len(self.brokers)) if other != number)
        self.interruptions += 1
        os.kill(process.pid, signal.SIGSTOP)
        try:

            async def is_taken() -> bool:
                return await self.owner(topic, asked=asked) != number

            await eventually(is_taken, within_s=120, what="a topic of a paused broker has another owner")
        finally:
            os.kill(process.pid, signal.SIGCONT)

        async def is_back() -> bool:
            status, ids = await self.call("GET", "/admin/v2/brokers", broker=asked)
            return status == 200 and broker.broker_id in ids

        await eventually(is_back, within_s=120, what="a broker that was paused is registered again")


@asynccontextmanager
async def mixed_cluster(folder: Path) -> AsyncIterator[Mixed]:
    (folder / "java").mkdir()
    running = apache_pulsar(
        folder / "java",
        brokers=2,
        configuration={**JAVA_KEYS, **SESSION},
        deployment=WITHOUT_TLS,
    )
    java = await asyncio.to_thread(running.__enter__)
    try:
        async with running_cluster(
            folder / "python",
            brokers=2,
            configuration={**PYTHON_KEYS, **SESSION},
            metadata_store_url=java.metadata_url,
            has_own_folders=True,
        ) as (cluster, _):
            # Pulsar refuses what comes without this header, even without a body
            headers = {"Content-Type": "application/json"}
            async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=15)) as session:
                mixed = Mixed(java, cluster, session)
                yield mixed
        await _java_alone(java, mixed.sent)
    except BaseException as error:
        error.add_note(java.logs())
        raise
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def _java_alone(java: ApachePulsar, counts: Mapping[str, int]) -> None:
    """Check that Java reads every message, and knows that all were acknowledged. `counts` has how many messages were
    sent to each topic.
    """

    def read() -> None:
        client = stock_client(java.service_url)
        try:
            for kind, sent in counts.items():
                topic = f"persistent://{NAMESPACE}/{kind}"
                assert receive_all(client, topic, sent, within_s=120) == list(range(sent))
                stats = java.expect(200, "GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
                assert stats["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0
        finally:
            client.close()

    await asyncio.to_thread(read)


@pytest.mark.full_form
async def test_topics_move_among_java_and_python_brokers(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    rounds = 2 * int(request.config.getoption("--rehearsal-rounds"))
    chance = random.Random(int(request.config.getoption("--rehearsal-seed")))
    try:
        async with mixed_cluster(tmp_path) as mixed:
            await _play(mixed, rounds, chance)
    except PeerUnavailableError as error:
        pytest.fail(str(error))


async def _play(mixed: Mixed, rounds: int, chance: random.Random) -> None:
    body = {"bundles": {"numBundles": 8}}
    assert await mixed.call("PUT", f"/admin/v2/namespaces/{NAMESPACE}", json=body) == (204, "")
    client = await asyncio.to_thread(stock_client, mixed.service_url)
    flows = [await asyncio.to_thread(Flow, client, kind) for kind in KINDS]
    sending = [asyncio.create_task(asyncio.to_thread(flow.producer.send, 10**9, pause_s=_PAUSE_S)) for flow in flows]
    try:
        served = await _move(mixed, flows, rounds, chance)
    except BaseException:
        await asyncio.to_thread(client.close)  # or a producer that waits for room would wait for ever
        raise
    finally:
        for flow in flows:
            flow.producer.stop()
        await asyncio.gather(*sending, return_exceptions=True)
    for flow in flows:
        await asyncio.to_thread(flow.producer.wait_acknowledged, flow.producer.sent, within_s=120)
        await _has_all(flow)
        await _is_acknowledged(mixed, flow)
        flow.check()
        mixed.sent[flow.kind] = flow.producer.sent
    await asyncio.to_thread(client.close)
    assert served == set(range(len(mixed.brokers)))
    bookies = await read_bookies(mixed.java.metadata_url, "", "")
    assert (bookies.failure, bookies.lacking) == ("", ())
    assert len(bookies.unlisted) <= mixed.interruptions, bookies.unlisted


async def _move(mixed: Mixed, flows: list[Flow], rounds: int, chance: random.Random) -> set[int]:
    """Move topics, and return the numbers of the brokers that served one."""
    served: set[int] = set()
    for step in STEPS * rounds:
        for flow in flows:
            before = await mixed.owner(flow.topic)
            served.add(before)
            if step == "unload":
                target = chance.choice([number for number in range(len(mixed.brokers)) if number != before])
                await mixed.unload(flow.topic, target)
        if step == "kill":
            await mixed.kill(await mixed.owner(chance.choice(flows).topic))
        if step == "pause":
            await mixed.pause(chance.choice(flows).topic)
        for flow in flows:
            await _goes_on(flow)
    return served


async def _goes_on(flow: Flow) -> None:
    sent, had = flow.producer.sent, len(flow.arrived)

    async def has_newer() -> bool:
        return len(flow.arrived) > had and max(flow.arrived[had:]) >= sent

    await eventually(has_newer, within_s=180, what=f"messages of {flow.topic} arrive")


async def _has_all(flow: Flow) -> None:
    async def has_all() -> bool:
        return flow.producer.acknowledged <= set(flow.arrived)

    await eventually(has_all, within_s=120, what=f"all messages of {flow.topic} arrive")


async def _is_acknowledged(mixed: Mixed, flow: Flow) -> None:
    async def is_acknowledged() -> bool:
        status, stats = await mixed.call("GET", f"/admin/v2/{flow.topic.replace('://', '/')}/stats")
        return status == 200 and stats["subscriptions"][SUBSCRIPTION]["msgBacklog"] == 0

    await eventually(is_acknowledged, within_s=120, what=f"all messages of {flow.topic} are acknowledged")
