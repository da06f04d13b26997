"""A broker of Barycenter and one of Apache Pulsar as one cluster on one ZooKeeper; either leads in its turn.

Pulsar is 4.x, or 5.x with --peer-version 5.x.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pulsar
import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from support.admin_tool import tool_class_path
from support.apache_pulsar import MIXED, MODULAR, ApacheBroker, ApachePulsar, apache_pulsar, perf_command
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.maven import PeerUnavailableError
from support.numbered_messages import NumberedProducer, stock_client
from support.running_cluster import Admin, eventually, lookup_path, running_cluster
from support.wire_client import WireClient
from support.wire_lookup import LookupRefusedError, lookup_over_wire

pytestmark = [
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.xdist_group("apache pulsar"),
    pytest.mark.asyncio(loop_scope="module"),
]

APACHE, BARYCENTER = 0, 1
NAMES = {APACHE: "Apache Pulsar leads", BARYCENTER: "Barycenter leads"}
_COMMON = {
    "metadataStoreSessionTimeoutMillis": "5000",
    "loadManagerClassName": MODULAR,
    "enablePersistentTopics": "false",
    "loadBalancerBrokerOverloadedThresholdPercentage": "100",  # a busy machine is none of the cluster's
}
_APACHE_KEYS = _COMMON | {
    "systemTopicEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
}
_BARYCENTER_KEYS = _COMMON | {
    "clusterName": "c1",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
}


_TO_BE_ASKED_AGAIN = "is being unloaded"


@dataclass(frozen=True, slots=True)
class Mixed:
    """Both brokers, by the numbers APACHE and BARYCENTER, and their admin REST."""

    pulsar: ApachePulsar
    cluster: StandaloneCluster
    admin: Admin
    store: KazooClient

    @property
    def brokers(self) -> list[ApacheBroker | BrokerProcess]:
        return [self.pulsar.brokers[0], self.cluster.brokers[0]]

    @property
    def ids(self) -> set[str]:
        return {broker.broker_id for broker in self.brokers}

    @property
    def service_url(self) -> str:
        return "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in self.brokers)

    async def at(self, path: str) -> Any:
        """Return what a node of ZooKeeper holds."""
        value, _ = await asyncio.to_thread(self.store.get, path)
        return json.loads(value)

    async def below(self, path: str) -> set[str]:
        return set(await asyncio.to_thread(self.store.get_children, path))

    async def leaders(self) -> set[str]:
        """Return who leads, as each of them says."""
        answers = [await self.admin.call("GET", "/admin/v2/brokers/leaderBroker", broker=broker) for broker in NAMES]
        return {answer["brokerId"] if status == 200 else "" for status, answer in answers}

    async def owner(self, topic: str) -> int:
        """Return who serves a topic, as each of them says over both of its ports.

        Pulsar may refuse at first, to be asked again, while a record of ownership is on its way to it.
        """
        urls: set[str] = set()

        async def answers() -> bool:
            urls.clear()  # an answer of before may name a former owner
            try:
                urls.update([await lookup_over_wire(broker.service_url, topic) for broker in self.brokers])
            except LookupRefusedError as refusal:
                if _TO_BE_ASKED_AGAIN not in str(refusal):
                    raise
                return False
            for number in NAMES:
                status, answer = await self.admin.call("GET", lookup_path(topic), broker=number)
                if status == 500 and _TO_BE_ASKED_AGAIN in str(answer):
                    return False
                assert status == 200, answer
                urls.add(answer["brokerUrl"])
            return len(urls) == 1

        await eventually(answers, within_s=10, what=f"all answer the same for {topic}")
        (owner,) = (number for number, broker in enumerate(self.brokers) if broker.service_url in urls)
        assert urls == {self.brokers[owner].service_url}
        return owner

    async def next_owner(self, topic: str) -> int:
        """Return the same of a topic whose bundle has just gone, or whose look-up was just refused.

        Pulsar refuses look-ups until it knows that the bundle has gone, and hands a refusal on to whoever asks for the
        same bundle before that is forgotten.
        """

        async def answers() -> bool:
            said = [await self.admin.call("GET", lookup_path(topic), broker=number) for number in NAMES]
            return {status for status, _ in said} == {200}

        await eventually(answers, within_s=10, what=f"either answers for {topic}")
        return await self.owner(topic)

    async def restart(self, broker: int) -> None:
        """Have a broker end, and start it anew once the cluster goes on without it."""
        if broker == APACHE:
            await asyncio.to_thread(self.pulsar.brokers[0].kill)
        else:
            await self.cluster.brokers[0].terminate(timeout_s=60)

        async def is_gone() -> bool:
            return await self.below("/loadbalance/brokers") == {self.brokers[1 - broker].broker_id}

        await eventually(is_gone, within_s=60, what="a broker that ended is no longer registered")
        if broker == APACHE:
            await asyncio.to_thread(self.pulsar.restart, self.pulsar.brokers[0])
        else:
            await self.cluster.start_brokers([self.cluster.brokers[0]])

    async def bundles(self, namespace: str) -> list[str]:
        answer = await self.admin.expect(200, "GET", f"/admin/v2/namespaces/{namespace}/bundles", broker=BARYCENTER)
        edges = answer["boundaries"]
        return [f"{low}_{high}" for low, high in pairwise(edges)]


@contextmanager
def apache_side(request: pytest.FixtureRequest, folder: Path, line: str) -> Iterator[ApachePulsar]:
    try:
        java_and_jars = tool_class_path(VERSION_5) if line == "5.x" else None
        with apache_pulsar(
            folder, brokers=1, configuration=_APACHE_KEYS, deployment=MIXED, java_and_jars=java_and_jars
        ) as started:
            yield started
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mixed]:
    line = "5.x" if request.config.getoption("--peer-version") == "5.x" else "4.x"
    side = apache_side(request, tmp_path_factory.mktemp("apache"), line)
    apache = await asyncio.to_thread(side.__enter__)
    try:
        async with running_cluster(
            tmp_path_factory.mktemp("barycenter"),
            brokers=1,
            configuration=_BARYCENTER_KEYS,
            metadata_store_url=apache.metadata_url,
        ) as (cluster, _):
            store = KazooClient(apache.metadata_url.removeprefix("zk:"))
            await asyncio.to_thread(store.start)
            headers = {"Content-Type": "application/json"}  # Pulsar refuses what comes without, even without a body
            async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=60)) as session:
                both = SimpleNamespace(brokers=[apache.brokers[0], cluster.brokers[0]])
                yield Mixed(apache, cluster, Admin(session, both), store)
            await asyncio.to_thread(store.stop)
            store.close()
    finally:
        print(apache.logs())
        await asyncio.to_thread(side.__exit__, None, None, None)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=NAMES, ids=NAMES.values())
async def led(request: pytest.FixtureRequest, mixed: Mixed) -> Mixed:
    """The cluster with one of both in the lead: the other one is restarted for that, if need be."""
    if request.param == BARYCENTER and not request.config.getoption("--peer-required"):
        pytest.skip("the short form has Apache Pulsar lead; --peer-required has each")
    leader = mixed.brokers[request.param].broker_id
    if await mixed.leaders() != {leader}:
        await mixed.restart(1 - request.param)

    async def leads() -> bool:
        return await mixed.leaders() == {leader}

    await eventually(leads, within_s=30, what=f"{leader} leads, and both know it")
    return mixed


@pytest.fixture
def client(led: Mixed) -> Iterator[pulsar.Client]:
    made = stock_client(led.service_url)
    yield made
    made.close()


async def namespace(led: Mixed, name: str, *, made_at: int, bundles: int) -> str:
    """Make a namespace of `name` for whoever leads."""
    leader = next(iter(await led.leaders()))
    full = f"public/{name}-{'apache' if leader == led.brokers[APACHE].broker_id else 'barycenter'}"
    body = {"bundles": {"numBundles": bundles}}
    await led.admin.expect(204, "PUT", f"/admin/v2/namespaces/{full}", broker=made_at, json=body)
    return full


async def test_either_lists_both(led: Mixed) -> None:
    for broker in NAMES:
        for path in ("/admin/v2/brokers", "/admin/v2/brokers/c1"):
            assert set(await led.admin.expect(200, "GET", path, broker=broker)) == led.ids
        assert await led.admin.expect(200, "GET", "/admin/v2/clusters", broker=broker) == ["c1"]
    assert await led.below("/loadbalance/brokers") == led.ids
    assert {(await led.at("/loadbalance/leader"))["brokerId"]} == await led.leaders()


@pytest.mark.parametrize("made_at", NAMES, ids=["made at Apache Pulsar", "made at Barycenter"])
async def test_a_lookup_at_either_has_the_owner_that_the_leader_chose(led: Mixed, made_at: int) -> None:
    """Over both ports of both; both get some of sixteen bundles, and each is owned by the record in the store."""
    name = await namespace(led, f"lookups-{made_at}", made_at=made_at, bundles=16)
    found = set()
    for number in range(24):
        topic = f"non-persistent://{name}/t{number}"
        first = await led.admin.owner(topic, broker=number % 2)
        owner = await led.owner(topic)
        assert led.brokers[owner] is first
        bundle = await led.admin.bundle_range(topic, broker=BARYCENTER)
        assert (await led.at(f"/namespace/{name}/{bundle}"))["nativeUrl"] == first.service_url
        found.add(owner)
    assert found == set(NAMES)


async def test_an_unload_moves_a_topic_under_a_running_client(led: Mixed, client: pulsar.Client) -> None:
    """To the other broker and back, asked at each: the client sends and receives on, in order."""
    name = await namespace(led, "moves", made_at=APACHE, bundles=4)
    topic = f"non-persistent://{name}/moved"
    arrived: list[int] = []
    await asyncio.to_thread(
        client.subscribe, topic, "s", message_listener=lambda _, message: arrived.append(int(message.data()))
    )
    producer = await asyncio.to_thread(NumberedProducer, client, topic, batching=False)
    sending = asyncio.create_task(asyncio.to_thread(producer.send, 1_000_000, pause_s=0.01))
    bundle = await led.admin.bundle_range(topic, broker=BARYCENTER)
    for asked in (APACHE, BARYCENTER, BARYCENTER, APACHE):
        owner = await led.owner(topic)
        target = led.brokers[1 - owner].broker_id
        path = f"/admin/v2/namespaces/{name}/{bundle}/unload?destinationBroker={target}"
        await led.admin.expect(204, "PUT", path, broker=asked)
        assert await led.next_owner(topic) == 1 - owner
        sent, had = producer.sent, len(arrived)

        async def goes_on(sent: int = sent, had: int = had) -> bool:
            return len(arrived) > had and arrived[-1] >= sent

        await eventually(goes_on, within_s=30, what=f"messages arrive by way of {target}")
    producer.stop()
    await sending
    await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=30)
    assert not producer.failures
    assert arrived == sorted(set(arrived))


async def test_a_split_at_either_is_seen_by_the_other(led: Mixed) -> None:
    for asked in NAMES:
        name = await namespace(led, f"split-{asked}", made_at=1 - asked, bundles=2)
        topics = [f"non-persistent://{name}/t{number}" for number in range(20)]
        for topic in topics:
            await led.owner(topic)
        for bundle in await led.bundles(name):
            path = f"/admin/v2/namespaces/{name}/{bundle}/split?unload=true"
            await led.admin.expect(204, "PUT", path, broker=asked)
        for broker in NAMES:

            async def has_heard(broker: int = broker, name: str = name) -> bool:
                answer = await led.admin.expect(200, "GET", f"/admin/v2/namespaces/{name}/bundles", broker=broker)
                return answer["numBundles"] == 4

            await eventually(has_heard, within_s=10, what="a broker knows of the splits at the other")
        for topic in topics:
            await led.next_owner(topic)
        assert await led.below(f"/namespace/{name}") <= set(await led.bundles(name))


async def test_what_one_stores_of_a_namespace_the_other_keeps(led: Mixed) -> None:
    """Both write into one record; what only one of them knows of survives the other's writing."""
    name = await namespace(led, "policies", made_at=BARYCENTER, bundles=4)
    path = f"/admin/v2/namespaces/{name}"
    await led.admin.expect(204, "POST", f"{path}/messageTTL", broker=APACHE, json=77)
    await led.admin.expect(204, "POST", f"{path}/subscriptionTypesEnabled", broker=APACHE, json=["Shared"])
    await led.admin.expect(204, "POST", f"{path}/deduplication", broker=BARYCENTER, json=True)
    for broker in NAMES:

        async def has_both(broker: int = broker) -> bool:
            found = await led.admin.expect(200, "GET", path, broker=broker)
            return found["message_ttl_in_seconds"] == 77 and found.get("deduplicationEnabled") is True

        await eventually(has_both, within_s=10, what="a broker sees what the other stored")
    assert (await led.at(f"/admin/policies/{name}"))["subscription_types_enabled"] == ["Shared"]
    await led.admin.expect(204, "DELETE", path, broker=APACHE)

    async def is_gone() -> bool:
        return (await led.admin.call("GET", path, broker=BARYCENTER))[0] == 404

    await eventually(is_gone, within_s=10, what="a namespace that the other deleted is gone")


async def test_either_refuses_a_persistent_topic(led: Mixed) -> None:
    """It would have its messages in two places: nobody owns a bundle for it, and whoever has its bundle refuses it."""
    name = await namespace(led, "persistent", made_at=APACHE, bundles=1)
    for broker in led.brokers:
        with pytest.raises(LookupRefusedError, match=r"[Nn]o broker (was|is) available"):
            await lookup_over_wire(broker.service_url, f"persistent://{name}/t")
    owner = await led.next_owner(f"non-persistent://{name}/t")
    asking = await WireClient.connect(urlsplit(led.brokers[owner].service_url).port)
    refusal = await asking.produce(f"persistent://{name}/t")
    assert refusal.error == api.NotAllowedError, refusal
    asking.close()


async def test_pulsars_own_monitor_shows_both(
    led: Mixed, client: pulsar.Client, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`pulsar-perf monitor-brokers` reads what each wrote into ZooKeeper: the broker with the traffic has its rates."""
    if not request.config.getoption("--peer-required"):
        pytest.skip("Apache Pulsar reports once a minute: with --peer-required")
    name = await namespace(led, "monitored", made_at=BARYCENTER, bundles=16)
    topics = {await led.owner(topic): topic for topic in (f"non-persistent://{name}/t{n}" for n in range(20))}
    assert set(topics) == set(NAMES)
    producers = [await asyncio.to_thread(NumberedProducer, client, topic) for topic in topics.values()]
    sending = [asyncio.create_task(asyncio.to_thread(each.send, 10**9, pause_s=0.005)) for each in producers]

    async def has_traffic() -> bool:
        reports = [await led.at(f"/loadbalance/brokers/{broker}") for broker in led.ids]
        return all(report["msgRateIn"] > 0 for report in reports)

    await eventually(has_traffic, within_s=120, what="both report their traffic")
    connect = "--connect-string", led.pulsar.metadata_url.removeprefix("zk:")
    command = perf_command("monitor-brokers", *connect, logging=led.pulsar.logging)
    said = tmp_path / "monitor.log"
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:

        async def shows_both() -> bool:
            text = said.read_text(errors="replace")
            return all(broker in text for broker in led.ids)

        await eventually(shows_both, within_s=60, what="the monitor shows both brokers")
    finally:
        process.kill()
        await process.wait()
        print(said.read_text(errors="replace")[-8_000:])
        for producer in producers:
            producer.stop()
        await asyncio.gather(*sending)


async def test_what_a_dead_broker_served_is_the_others(led: Mixed, client: pulsar.Client) -> None:
    """Of whoever follows; its topics are served as soon as its session ended, and the lead stays where it was."""
    name = await namespace(led, "survived", made_at=APACHE, bundles=16)
    leaders = await led.leaders()
    follower = next(number for number, broker in enumerate(led.brokers) if broker.broker_id not in leaders)
    topics = [f"non-persistent://{name}/t{number}" for number in range(10)]
    assert {await led.owner(topic) for topic in topics} == set(NAMES)
    await led.restart(follower)
    assert await led.leaders() == leaders
    for topic in topics:
        await led.next_owner(topic)
