"""One simulated history of a cluster: work, faults drawn from a seed, an end in peace, and the verdict.

    run_scenario(seed)  ->  Verdict, or SimulationError

The seed decides everything: the climate, delays, workload, which fault befalls whom and when.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName, heartbeat_namespaces
from support.simulation.client import (
    REAL_MAX_BACKOFF_S,
    CheckingConsumer,
    NumberingProducer,
    RetryError,
    SimClient,
)
from support.simulation.cluster import (
    BROKER_PORT,
    NAMESPACE,
    NEXT_TRY_S,
    OPERATION_TIMEOUT_S,
    BrokerProcess,
    Cluster,
    Settings,
    quiet_logs,
)
from support.simulation.faults import Faults, topic_in
from support.simulation.loop import START_S, Node, SimulationError, VirtualTimeLoop

FAULTS_S: Final = 20.0
"""For how long faults befall the cluster; work goes on as long."""
SETTLE_S: Final = 120.0
"""How long the cluster may take after the last fault until every message arrived."""
SERVED_S: Final = 2.0
"""Within a session timeout and this a client that comes at the last fault is served, whichever bundle it asks for,
besides what the store takes, and what is left of requests to it that faults swallowed. The client doubles its back-off
up to a minute, so few answers may send it away."""
LED_S: Final = 30.0
"""Within what a leader, and a bundle that is served, are found while bundles are moved."""
REQUESTS_UNTIL_SERVED: Final = 100
HAND_OVER_S: Final = 1.0
"""Within what a bundle that is unloaded is served again, besides what the store and the disk take."""
REQUESTS_OF_HAND_OVER: Final = 30
MORE_OF_CHANGE_OVER: Final = 10
"""Requests to the store that a hand-over takes besides these where brokers of both kinds run: lock and record."""
WRITES_OF_HAND_OVER: Final = 6
TOPICS: Final = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of events, for statistics over many seeds; `digest` shows whether two runs were the same."""

    seed: int
    settings: Settings
    steps: int
    simulated_s: float
    faults: dict[str, int]
    messages: int
    duplicates: int
    terms: int
    shed: int
    """How many bundles rounds of shedding moved."""
    splits: int
    served_s: float
    """After the last fault, until a client that comes then was served in every bundle."""
    settle_s: float
    """The same, until every message of those that were there all the time arrived."""
    hand_over_s: float
    """From the order to unload a bundle until a client is served by its next owner, with nothing else the matter."""
    digest: tuple[int, float, int] = field(repr=False)


def run_scenario(
    seed: int,
    *,
    settings: Settings | None = None,
    lines: list[str] | None = None,
    faults: tuple[str, ...] | None = None,
    befalling: type[Faults] = Faults,
) -> Verdict:
    """Play the history of `seed`; collect the brokers' events in `lines` if it is given. `befalling` may add faults.

    Raises:
        SimulationError: a check failed. Any other error is an uncaught fault of a broker.
    """
    loop = VirtualTimeLoop()  # type: ignore[abstract]
    return played(loop, Scenario(loop, seed, settings, faults, befalling), lines)


def played(loop: VirtualTimeLoop, scenario: "Scenario", lines: list[str] | None = None) -> Verdict:
    """Play a scenario on its loop to the end, and close the loop; see `run_scenario`."""
    try:
        with quiet_logs(lines), scenario.watching():
            try:
                playing: asyncio.Task[Verdict] = loop.create_task(scenario.play(), name="scenario")
                return loop.run_until_complete(playing)
            finally:
                with suppress(SimulationError):
                    loop.tear_down()
    finally:
        loop.close()


class Scenario:
    def __init__(
        self,
        loop: VirtualTimeLoop,
        seed: int,
        settings: Settings | None,
        faults: tuple[str, ...] | None = None,
        befalling: type[Faults] = Faults,
    ) -> None:
        self._loop = loop
        self._seed = seed
        self._random = random.Random(seed)
        asyncio._set_running_loop(loop)
        try:
            settings = settings or Settings.drawn(self._random)
            self.cluster = Cluster(loop, random.Random(self._random.getrandbits(64)), settings)
        finally:
            asyncio._set_running_loop(None)
        self.watching = self.cluster.referee.watching
        self._clients: list[SimClient] = []
        self._producers: list[NumberingProducer] = []
        self._consumers: list[CheckingConsumer] = []
        self._faults = befalling(loop, self.cluster, self._random, self._clients, self._producers, faults)

    async def play(self) -> Verdict:
        await self.cluster.start()
        await self._start_clients()
        await self._trouble()
        await self._faults.end()
        self.cluster.end_faults()
        settling = self._loop.time()
        served_s, _ = await asyncio.gather(self._serve_newcomer(), self.cluster.bring_up())
        await self._all_arrived()
        settle_s = self._loop.time() - settling
        await self._all_agree()
        await self.cluster.forget_trouble(within_s=SETTLE_S)
        hand_over_s = await self._hand_over_in_peace()
        if "lost registrations" in self._faults.names:
            await self._forgotten_in_peace()
        if self._random.random() < 0.3:
            await self._leave_in_order()
        for error in self._loop.unheard():
            raise SimulationError("nobody asked", repr(error)) from error
        referee = self.cluster.referee
        return Verdict(
            seed=self._seed,
            settings=self.cluster.settings,
            steps=self._loop.steps,
            simulated_s=self._loop.time() - START_S,
            faults=dict(self._faults.happened),
            messages=sum(producer.acknowledged for producer in self._producers),
            duplicates=sum(consumer.duplicates for consumer in self._consumers),
            terms=referee.terms_begun,
            shed=self._faults.shed,
            splits=referee.splits,
            served_s=served_s,
            settle_s=settle_s,
            hand_over_s=hand_over_s,
            digest=(self._loop.steps, self._loop.time(), referee.acknowledged_entries),
        )

    # ---- work

    async def _start_clients(self) -> None:
        """Subscribe first, so that nothing is trimmed unread; then produce."""
        topics = [f"persistent://{NAMESPACE}/topic-{number}" for number in range(TOPICS)]
        for number in range(2):
            node = Node(self._loop, f"client-{number}")
            source = random.Random(self._random.getrandbits(64))
            self._clients.append(SimClient(node, self.cluster.service_urls, source))
        for number, topic in enumerate(topics):
            consuming, producing = self._clients[number % 2], self._clients[(number + 1) % 2]
            consumer = CheckingConsumer(consuming, topic, "check", failover=number % 3 == 2)
            self._consumers.append(consumer)
            self._producers.append(NumberingProducer(producing, topic))
            consuming.node.spawn(consumer.run(), f"consume {topic}")
        for consumer, producer in zip(self._consumers, self._producers, strict=True):
            async with asyncio.timeout(60):
                await consumer.subscribed.wait()
            producer.client.node.spawn(producer.run(), f"produce {producer.topic}")
            producer.client.node.spawn(self._pace(producer), f"pace {producer.topic}")

    async def _pace(self, producer: NumberingProducer) -> None:
        source = producer.client.random
        until = self._loop.time() + FAULTS_S
        while self._loop.time() < until:
            producer.publish()
            await asyncio.sleep(source.uniform(0.02, 0.4))

    async def _trouble(self) -> None:
        until = self._loop.time() + FAULTS_S
        while self._loop.time() < until:
            await asyncio.sleep(self._random.expovariate(self.cluster.settings.faults_per_s))
            self._faults.strike()

    # ---- the end

    async def _serve_newcomer(self) -> float:
        """Let a new client get a message acknowledged in every bundle; return how long that took."""
        began, climate = self._loop.time(), self.cluster.settings
        within_s = climate.session_timeout_ms / 1000 + OPERATION_TIMEOUT_S + NEXT_TRY_S + SERVED_S
        within_s += self._longest_lease_s()
        within_s += REQUESTS_UNTIL_SERVED * 2 * climate.store_latency_s
        bundles = await self.cluster.stored_bundles()
        await asyncio.gather(*(self._publish_once(bundle, "newcomer", within_s=within_s) for bundle in bundles.bundles))
        return self._loop.time() - began

    def _longest_lease_s(self) -> float:
        """Return how long a new leader waits for brokers that were lost with the former one; 0 if the store knows it.

        Where the leader writes for all, it counts their sessions anew, after the session of the leader itself.
        """
        climate = self.cluster.settings
        if climate.config.get("leader_only_metadata_writes") != "true":
            return 0.0
        timeouts = (each.get("metadata_store_session_timeout_millis") for each in climate.alternatives)
        return max([climate.session_timeout_ms, *(int(each) for each in timeouts if each is not None)]) / 1000

    async def _hand_over_in_peace(self) -> float:
        """Unload one bundle; return the time until the owner at that time serves a client."""
        process, term = await self._any_served()
        began = self._loop.time()
        climate = self.cluster.settings
        more = MORE_OF_CHANGE_OVER if climate.config.get("load_manager_migration_enabled") else 0
        requests_s = (REQUESTS_OF_HAND_OVER + more) * 2 * climate.store_latency_s
        writes_s = WRITES_OF_HAND_OVER * climate.durability_delay_s
        await process.node.spawn(process.control.namespaces.unload_bundle(term.bundle), f"unload {term.bundle}")
        left_s = began + HAND_OVER_S + requests_s + writes_s - self._loop.time()
        await self._publish_once(term.bundle, "visitor", within_s=left_s)
        return self._loop.time() - began

    async def _leader(self) -> BrokerProcess:
        deadline = self._loop.time() + LED_S
        while self._loop.time() < deadline:
            for process in self.cluster.up():
                if process.control.leadership.is_leader():
                    return process
            await asyncio.sleep(0.1)
        raise SimulationError("somebody leads", f"nobody within {LED_S:g} s")

    async def _any_served(self) -> tuple[BrokerProcess, OwnedBundle]:
        """Return a served bundle and its broker; the balancing itself may be moving one at this moment."""
        deadline = self._loop.time() + LED_S
        while True:
            by_node = {id(process.node): process for process in self.cluster.up()}
            for node, term in self.cluster.referee.serving():
                if term.bundle.namespace == NAMESPACE and id(node) in by_node:
                    return by_node[id(node)], term
            if self._loop.time() > deadline:
                raise SimulationError("served in time", f"no bundle of {NAMESPACE} is")
            await asyncio.sleep(0.1)

    async def _publish_once(self, bundle: Bundle, name: str, *, within_s: float) -> None:
        client = SimClient(
            Node(self._loop, f"{name}-{bundle.range}"),
            self.cluster.service_urls,
            self._random,
            max_backoff_s=REAL_MAX_BACKOFF_S,
        )
        producer = NumberingProducer(client, topic_in(bundle))
        client.node.spawn(producer.run(), "produce")
        client.node.call(producer.publish)
        deadline = self._loop.time() + within_s
        while not producer.acknowledged:
            if self._loop.time() > deadline:
                raise SimulationError(
                    "served in time", f"{bundle} after {within_s:g} s: the {name} is {producer.state}"
                )
            await asyncio.sleep(0.02)
        client.node.crash()
        self.cluster.network.crashed(client.node)

    async def _all_arrived(self) -> None:
        deadline = self._loop.time() + SETTLE_S
        while any(each.acknowledged < each.sent for each in self._producers) or any(
            consumer.received < producer.sent
            for consumer, producer in zip(self._consumers, self._producers, strict=True)
        ):
            if self._loop.time() > deadline:
                raise SimulationError("every message arrives", self._where_it_hangs())
            await asyncio.sleep(0.2)

    def _where_it_hangs(self) -> str:
        return "; ".join(
            f"{producer.topic}: sent {producer.sent}, acknowledged {producer.acknowledged} ({producer.state}), "
            f"received {consumer.received} ({consumer.state})"
            for consumer, producer in zip(self._consumers, self._producers, strict=True)
            if consumer.received < producer.sent or producer.acknowledged < producer.sent
        )

    async def _all_agree(self) -> None:
        """Look up a topic of every bundle at every broker: one answer, and its broker serves; each broker owns its
        own namespaces."""
        deadline = self._loop.time() + SETTLE_S
        while disagreements := await self._disagreements():
            if self._loop.time() > deadline:
                raise SimulationError("all agree", "; ".join(disagreements))
            await asyncio.sleep(1)

    async def _forgotten_in_peace(self) -> None:
        """The store loses the registrations, long enough for all to notice, and has them again: the leader has the
        brokers' loads again, although no broker has anything new to report."""
        bring_back = self.cluster.backend.lose(BROKERS_ROOT, notify=False)
        await asyncio.sleep(7)
        bring_back()
        await asyncio.sleep(1)
        leader = await self._leader()
        bundle = Bundle.full(NamespaceName.parse("public/nobody-has-it"))
        placement = await leader.node.spawn(leader.control.load_manager.select_broker(bundle), f"place {bundle}")
        if placement is None or placement.reason.flags:
            raise SimulationError("loads are known again", f"placed: {placement}")

    async def _disagreements(self) -> list[str]:
        first, client = self.cluster.processes[0], self._clients[0]
        bundles = await first.node.spawn(first.control.bundles.fresh(NAMESPACE), "read the bundles")
        found = []
        for bundle in bundles.bundles:
            topic = topic_in(bundle)
            answers = await client.node.spawn(self._ask_all(client, topic), f"look up {topic}")
            servers = {
                f"pulsar://{node.name}:{BROKER_PORT}"
                for node, term in self.cluster.referee.serving()
                if term.bundle == bundle
            }
            if len(answers) != 1 or answers != servers:
                found.append(f"{bundle}: lookups say {sorted(answers)}, served by {sorted(servers)}")
        return found + self._unowned_heartbeats()

    def _unowned_heartbeats(self) -> list[str]:
        """Every broker owns its own namespaces, although no client looked them up."""
        return [
            f"{process.name} does not own {namespace}"
            for process in self.cluster.up()
            for namespace in heartbeat_namespaces(process.control.config.current.cluster_name, process.broker_id)
            if process.control.ownership.owned(Bundle.full(namespace)) is None
        ]

    async def _ask_all(self, client: SimClient, topic: str) -> set[str]:
        answers: set[str] = set()
        for url in self.cluster.service_urls:
            try:
                answers.add(await client.lookup(topic, at=url))
            except RetryError as retry:
                answers.add(f"{url}: {retry}")
        return answers

    async def _leave_in_order(self) -> None:
        for process in self.cluster.processes:
            try:
                async with asyncio.timeout(60):
                    await process.stop()
            except TimeoutError:
                raise SimulationError("stop", f"{process.name} does not stop") from None
