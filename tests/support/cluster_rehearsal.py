"""Faults and operations of a running cluster, step by step, while clients use it; observed only from outside.

Nothing here depends on a load manager except on what it guarantees to clients and operators.
"""

import asyncio
import random
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from support.numbered_messages import NumberedProducer
from support.running_cluster import QUICK, Admin, eventually, lookup_path, running_cluster
from support.serving_intervals import Term, conflicts, read_terms
from support.traffic import Traffic, own_client
from support.wire_client import TYPE, WireClient
from support.wire_lookup import LookupRefusedError, lookup_over_wire

SESSION_S: Final = int(QUICK["metadataStoreSessionTimeoutMillis"]) / 1000
FAIL_OVER_S: Final = SESSION_S + 2.0
"""Within what all topics of a broker that died are served again."""
SETTLED_S: Final = 20.0
"""Within what clients get through again, whatever happened; far more than it takes."""
ASK_S: Final = 5.0
NOBODY: Final = "nobody"
BUSY: Final = NamespaceName.parse("public/busy")
QUIET: Final = NamespaceName.parse("public/quiet")
QUIET_BUNDLES: Final = 8


@dataclass(frozen=True)
class Manager:
    """How brokers are configured, and what differs for operators.

    `hands_over`: an owner gives a bundle directly to the next one, so that must be another broker.
    `distrusts_store`: a broker that lost its session leads for three minutes without considering any broker lost, as
    in Pulsar.
    """

    configuration: dict[str, str]
    hands_over: bool = False
    distrusts_store: bool = False


@dataclass(frozen=True)
class Size:
    """`topics` always get messages, and sometimes six times the number. The seed draws the brokers and topics of a
    step."""

    rounds: int
    topics: int
    seed: int


class Rehearsal:
    """Each step leaves all three brokers running, and every producer succeeding."""

    def __init__(
        self, cluster: StandaloneCluster, admin: Admin, manager: Manager, size: Size, traffic: Traffic
    ) -> None:
        self.cluster = cluster
        self.admin = admin
        self.manager = manager
        self.size = size
        self.traffic = traffic
        self.random = random.Random(size.seed)
        self.topics = [line.topic for line in traffic.busy]
        self._races = 0
        self._stopped: set[BrokerProcess] = set()
        """Who lost his session since he was started."""

    @property
    def brokers(self) -> list[BrokerProcess]:
        return self.cluster.brokers

    async def play(self) -> None:
        """Take all steps: in the first round in the order of this file, later in any order."""
        for turn in range(self.size.rounds):
            steps: list[Callable[[], Awaitable[None]]] = [
                self.first_look_ups_at_once,
                self.look_ups_follow_the_rule,
                self.unload,
                self.unload_to_a_broker,
                self.split,
                self.kill_an_owner,
                self.kill_the_leader,
                self.stop_the_leader_for_long,
                self.stop_an_owner_for_long,
                self.restart_all,
            ]
            if turn:
                self.random.shuffle(steps)
            for step in steps:
                try:
                    await step()
                    await self.traffic.gets_through(within_s=SETTLED_S)
                    await self.one_owner(self.topics)
                except Exception as error:
                    error.add_note(f"in round {turn} at the step {step.__name__}")
                    raise

    # ---- who serves

    async def ask(self, topic: str, broker: BrokerProcess) -> set[str]:
        """Return the service URLs that one broker returns for a topic by either protocol, NOBODY if it returns none."""
        try:
            async with asyncio.timeout(ASK_S):
                told = await asyncio.gather(
                    self._ask_over_http(topic, broker),
                    lookup_over_wire(broker.service_url, topic),
                    return_exceptions=True,
                )
        except TimeoutError:
            return {NOBODY}  # it, or whom it names, stands still
        failures = (aiohttp.ClientError, OSError, AssertionError, asyncio.IncompleteReadError)
        for answer in told:
            refused_for_now = isinstance(answer, LookupRefusedError) and answer.for_now
            if isinstance(answer, BaseException) and not (refused_for_now or isinstance(answer, failures)):
                raise answer
        return {answer if isinstance(answer, str) else NOBODY for answer in told}

    async def _ask_over_http(self, topic: str, broker: BrokerProcess) -> str:
        answer = await self.admin.expect(200, "GET", lookup_path(topic), broker=broker.index)
        return str(answer["brokerUrl"])

    async def one_owner(self, topics: Iterable[str], *, asked: Iterable[BrokerProcess] = ()) -> dict[str, str]:
        """Wait until all brokers name one owner of each topic, and return the service URL of each."""
        topics, found = list(topics), dict[str, str]()
        asked = list(asked) or self.brokers
        answers: dict[str, set[str]] = {}

        async def agree() -> bool:
            pairs = [(topic, broker) for topic in topics for broker in asked]
            told = await asyncio.gather(*(self.ask(topic, broker) for topic, broker in pairs))
            answers.clear()
            for (topic, _), urls in zip(pairs, told, strict=True):
                answers.setdefault(topic, set()).update(urls)
            found.update({topic: next(iter(urls)) for topic, urls in answers.items()})
            return all(len(urls) == 1 and NOBODY not in urls for urls in answers.values())

        try:
            await eventually(agree, within_s=SETTLED_S, what="all name one owner")
        except AssertionError as error:
            error.add_note(f"they name {answers}")
            raise
        return found

    async def owner(self, topic: str, *, asked: Iterable[BrokerProcess] = ()) -> BrokerProcess:
        url = (await self.one_owner([topic], asked=asked))[topic]
        return next(broker for broker in self.brokers if broker.service_url == url)

    async def leader(self, *, asked: Iterable[BrokerProcess] = ()) -> BrokerProcess:
        """Return the broker that all others name as leader."""
        asked, told = list(asked) or self.brokers, set[str]()

        async def agree() -> bool:
            told.clear()
            for broker in asked:
                status, answer = await self.admin.call("GET", "/admin/v2/brokers/leaderBroker", broker=broker.index)
                told.add(answer["brokerId"] if status == 200 else NOBODY)
            return len(told) == 1 and NOBODY not in told

        await eventually(agree, within_s=SETTLED_S, what="all name one leader")
        return next(broker for broker in self.brokers if broker.broker_id in told)

    def others(self, *brokers: BrokerProcess) -> list[BrokerProcess]:
        return [broker for broker in self.brokers if broker not in brokers]

    async def moved_to(self, topic: str, broker: BrokerProcess) -> None:
        """Move the topic's bundle to that broker, if it is elsewhere."""
        if await self.owner(topic) is not broker:
            await self._unload(topic, destination=broker.broker_id)
            await self._owned_by(topic, broker)

    async def _owned_by(self, topic: str, broker: BrokerProcess) -> None:
        async def is_owned() -> bool:
            return await self.owner(topic) is broker

        await eventually(is_owned, within_s=SETTLED_S, what=f"{topic} is served by {broker.name}")

    async def _unload(self, topic: str, *, status: int = 204, destination: str = "") -> None:
        """Unload the topic's bundle through any broker; the request follows redirects to the owner."""
        asked = self.random.choice(self.brokers).index
        namespace = TopicName.parse(topic).namespace
        path = f"/admin/v2/namespaces/{namespace}/{await self.admin.bundle_range(topic, broker=asked)}/unload"
        query = f"?destinationBroker={destination}" if destination else ""
        await self.admin.expect(status, "PUT", path + query, broker=asked)

    async def start_again(self, broker: BrokerProcess) -> None:
        """Start a broker that ended, and return when all others list it."""
        self._stopped.discard(broker)
        await self.cluster.start_brokers([broker])

        async def is_known() -> bool:
            asked = [self.admin.expect(200, "GET", "/admin/v2/brokers", broker=each.index) for each in self.brokers]
            return all(broker.broker_id in active for active in await asyncio.gather(*asked))

        await eventually(is_known, within_s=SETTLED_S, what=f"all know {broker.name}")

    async def _can_lose(self, victim: BrokerProcess) -> None:
        """Ensure that the leader considers this broker lost when it is gone, and not the store unreliable."""
        while self.manager.distrusts_store:
            leader = await self.leader()
            doubtful = self._stopped - {victim} if leader is victim else self._stopped & {leader}
            if not doubtful:
                return
            await self._restart(doubtful.pop())

    # ---- the steps

    async def first_look_ups_at_once(self) -> None:
        """64 first look-ups of one bundle, at all brokers by both protocols, give one owner."""
        self._races += 1
        namespace = f"public/race-{self._races}"
        await self.admin.create_namespace(namespace, 1)
        topic = f"persistent://{namespace}/first"
        answers = await asyncio.gather(
            *(lookup_over_wire(self.brokers[number % 3].service_url, topic) for number in range(32)),
            *(self._ask_over_http(topic, self.brokers[number % 3]) for number in range(32)),
        )
        assert len(set(answers)) == 1

    async def look_ups_follow_the_rule(self) -> None:
        """All brokers agree on each topic's bundle, by the hash, and on one owner of each bundle; all bundles are
        owned."""
        by_rule = NamespaceBundles.equal(QUIET, QUIET_BUNDLES)
        owners: dict[Bundle, set[str]] = {}
        found = await self.one_owner(line.topic for line in self.traffic.quiet)
        for topic, url in found.items():
            bundle = by_rule.find(TopicName.parse(topic))
            owners.setdefault(bundle, set()).add(url)
            told = {await self.admin.bundle_range(topic, broker=broker.index) for broker in self.brokers}
            assert told == {str(bundle.range)}
        assert {len(urls) for urls in owners.values()} == {1}
        assert len(owners) == QUIET_BUNDLES

    async def unload(self) -> None:
        """A bundle unloaded without a destination is served again."""
        for _ in range(2):
            topic = self.random.choice(self.topics)
            async with self.traffic.burst(topic):
                await self._unload(topic)
            await self.traffic.gets_through(within_s=SETTLED_S)

    async def unload_to_a_broker(self) -> None:
        """A bundle unloaded to a given broker is served by it; an absent destination is refused."""
        for topic in self.random.sample(self.topics, 3):
            destination = self.random.choice(self.others(await self.owner(topic)))
            async with self.traffic.burst(topic):
                await self._unload(topic, destination=destination.broker_id)
            await self._owned_by(topic, destination)
        owner = await self.owner(topic)
        await self._unload(topic, status=412, destination="127.0.0.1:1")
        await self._unload(topic, status=412 if self.manager.hands_over else 204, destination=owner.broker_id)
        await self._owned_by(topic, owner)

    async def split(self) -> None:
        """The parts of a bundle are where it was, and every broker has them."""
        topic = self.random.choice(self.topics)
        before = await self._boundaries()
        whole = BundleRange.parse(await self.admin.bundle_range(topic))
        owner = await self.owner(topic)
        asked = self.random.choice(self.brokers).index
        path = f"/admin/v2/namespaces/{BUSY}/{whole}/split?splitAlgorithmName=range_equally_divide"
        async with self.traffic.burst(topic):
            await self.admin.expect(204, "PUT", path, broker=asked)
        after = await self._boundaries()
        (cut,) = set(after) - set(before)
        assert (after, whole.lower < cut < whole.upper) == (sorted([*before, cut]), True), (before, after)
        bundles = NamespaceBundles.from_boundaries(BUSY, after)
        for each in self.topics:
            if not whole.contains(TopicName.parse(each).hash32):
                continue
            part = str(bundles.find(TopicName.parse(each)).range)

            async def is_known(each: str = each, part: str = part) -> bool:
                return {await self.admin.bundle_range(each, broker=broker.index) for broker in self.brokers} == {part}

            await eventually(is_known, within_s=SETTLED_S, what="all brokers know the parts")
            assert await self.owner(each) is owner

    async def _boundaries(self) -> list[int]:
        answer = await self.admin.expect(200, "GET", f"/admin/v2/namespaces/{BUSY}/bundles")
        return [int(boundary, 16) for boundary in answer["boundaries"]]

    async def kill_an_owner(self) -> None:
        """A broker that does not lead is killed: other brokers serve all its topics within a session."""
        topic = self.random.choice(self.topics)
        victim = self.random.choice(self.others(await self.leader()))
        await self._can_lose(victim)
        await self.moved_to(topic, victim)
        await self.cluster.kill_broker(victim)
        await self.traffic.gets_through(within_s=FAIL_OVER_S)
        assert await self.owner(topic, asked=self.others(victim)) is not victim
        await self.start_again(victim)

    async def stop_an_owner_for_long(self) -> None:
        """A broker that is paused for two sessions acknowledges nothing of what it lost, and says so on request."""
        topic = self.random.choice(self.topics)
        victim = self.random.choice(self.others(await self.leader()))
        await self._stop_for_long(topic, victim)

    async def stop_the_leader_for_long(self) -> None:
        """The same for the leader: another broker leads meanwhile, and continues to lead."""
        topic, victim = self.random.choice(self.topics), await self.leader()
        await self._stop_for_long(topic, victim)

    async def kill_the_leader(self) -> None:
        """The leader is killed while a bundle is unloaded: another leads, and moves bundles."""
        topic, victim = self.random.choice(self.topics), await self.leader()
        await self._can_lose(victim)
        others = self.others(victim)
        path = f"/admin/v2/namespaces/{BUSY}/{await self.admin.bundle_range(topic)}/unload"
        unloading = asyncio.ensure_future(self.admin.call("PUT", path, broker=others[0].index))
        await self.cluster.kill_broker(victim)
        await asyncio.gather(unloading, return_exceptions=True)  # it may or may not have been done
        await self.traffic.gets_through(within_s=SETTLED_S)
        assert await self.leader(asked=others) is not victim
        await self.start_again(victim)
        await self.moved_to(topic, victim)

    async def _stop_for_long(self, topic: str, victim: BrokerProcess) -> None:
        await self._can_lose(victim)
        await self.moved_to(topic, victim)
        self._stopped.add(victim)
        witness = await WireClient.connect(victim.broker_port)
        name = topic + "-witness"  # of its own, in whichever bundle
        await self.moved_to(name, victim)
        await witness.produce(name)
        await witness.send_all(1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._stop_outside_the_store(victim)
        try:
            others = self.others(victim)
            for each in (topic, name):

                async def is_elsewhere(each: str = each) -> bool:
                    urls = set().union(*[await self.ask(each, broker) for broker in others])
                    return len(urls) == 1 and urls.isdisjoint({victim.service_url, NOBODY})

                await eventually(is_elsewhere, within_s=SETTLED_S, what=f"{each} is served by another broker")
            await asyncio.to_thread(self._send_once, name, others)
            witness.send(1, b"too late")
            await asyncio.sleep(max(0.0, began + 2 * SESSION_S - loop.time()))
        finally:
            victim.signal(signal.SIGCONT)
        for _ in range(3):
            for each in (topic, name):
                assert victim.service_url not in await self.ask(each, victim)
        await self.traffic.gets_through(within_s=SETTLED_S)
        assert witness.pending(TYPE.SEND_RECEIPT) == []
        witness.close()

    async def _stop_outside_the_store(self, victim: BrokerProcess) -> None:
        """Stop a process, but not in the middle of a write to the store, which would lock the file for all."""
        store = self.cluster.settings.directory.metadata
        for _ in range(100):
            victim.signal(signal.SIGSTOP)
            if await asyncio.to_thread(can_write, store):
                return
            victim.signal(signal.SIGCONT)
            await asyncio.sleep(0.01)
        raise AssertionError(f"{victim.name} is always writing to the store")

    def _send_once(self, topic: str, brokers: list[BrokerProcess]) -> None:
        """Send a message with a new client."""
        url = "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in brokers)
        with own_client(url) as client:
            producer = NumberedProducer(client, topic)
            producer.send(1)
            producer.wait_acknowledged(1, within_s=SETTLED_S)
            assert producer.failures == []

    async def restart_all(self) -> None:
        """Each broker in turn leaves in order and comes back; the others serve clients meanwhile."""
        for broker in self.brokers:
            await self._restart(broker)

    async def _restart(self, broker: BrokerProcess) -> None:
        assert await broker.terminate(timeout_s=SETTLED_S)
        assert broker.exit_code == 0
        await self.traffic.gets_through(within_s=SETTLED_S)
        await self.start_again(broker)


@asynccontextmanager
async def rehearsal(folder: Path, manager: Manager, size: Size) -> AsyncIterator[Rehearsal]:
    """Run a cluster with traffic; on leaving, check that nothing was lost and no two brokers served one bundle."""
    async with running_cluster(folder, configuration={**QUICK, **manager.configuration}) as (cluster, admin):
        await admin.create_namespace(str(BUSY), 2)
        await admin.create_namespace(str(QUIET), QUIET_BUNDLES)
        traffic = await asyncio.to_thread(
            Traffic,
            cluster.service_url,
            busy=[f"persistent://{BUSY}/topic-{number}" for number in range(size.topics)],
            quiet=[f"persistent://{QUIET}/topic-{number}" for number in range(6 * size.topics)],
            pause_s=0.03,
        )
        try:
            yield Rehearsal(cluster, admin, manager, size, traffic)
            await traffic.finish(cluster.service_url)
        finally:
            await asyncio.to_thread(traffic.close)
        logs = [broker.log for broker in cluster.brokers]
    check_terms(read_terms(logs))
    for log in logs:
        unexpected = [line for line in log.read_text().splitlines() if '"exception":' in line or line[:1] not in "{"]
        assert unexpected == []


def can_write(store: Path) -> bool:
    """Return whether a process could write to an SQLite store within a second."""
    with closing(sqlite3.connect(store, timeout=1.0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        db.execute("ROLLBACK")
        return True


def check_terms(terms: list[Term]) -> None:
    """Check that no two brokers acknowledged messages of a bundle at once, and that enough terms are known to say
    so."""
    assert conflicts(terms) == []
    acknowledged = [term for term in terms if term.bundle.namespace == BUSY and term.first_acknowledged_ms is not None]
    assert len(acknowledged) >= 12
