"""One simulated history of a cluster: work, faults drawn from a seed, an end in peace, and the verdict.

    run_scenario(seed)  ->  Verdict, or SimulationError

The seed decides everything: the climate, delays, workload, which fault befalls whom and when.
"""

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from barycenter.broker.cluster.lookup_answers import LookupFailedError
from barycenter.broker.cluster.registration import BROKERS_ROOT
from barycenter.broker.lookup.namespace_service import NamespaceServiceError
from barycenter.metadata.errors import MetadataError
from barycenter.naming.bundle import Bundle
from barycenter.naming.errors import InvalidNameError
from barycenter.naming.namespace import NamespaceName, heartbeat_namespaces
from barycenter.naming.topic import TopicName
from support.simulation.client import CheckingConsumer, NumberingProducer, RetryError, SimClient
from support.simulation.cluster import BROKER_PORT, NAMESPACE, BrokerProcess, Cluster, Settings, quiet_logs
from support.simulation.loop import START_S, Node, SimulationError, VirtualTimeLoop

FAULTS_S: Final = 20.0
"""For how long faults befall the cluster; work goes on as long."""
SETTLE_S: Final = 120.0
"""How long the cluster may take after the last fault until every message arrived."""
TOPICS: Final = 4
MAX_BUNDLES: Final = 8

REFUSALS: Final = (LookupFailedError, NamespaceServiceError, MetadataError, InvalidNameError, TimeoutError, OSError)
"""How a broker may refuse a command when things change under its hands."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened, for statistics over many seeds; `digest` tells whether two runs were the same."""

    seed: int
    settings: Settings
    steps: int
    simulated_s: float
    faults: dict[str, int]
    messages: int
    duplicates: int
    terms: int
    splits: int
    settle_s: float
    digest: tuple[int, float, int] = field(repr=False)


def run_scenario(
    seed: int,
    *,
    settings: Settings | None = None,
    lines: list[str] | None = None,
    faults: tuple[str, ...] | None = None,
) -> Verdict:
    """Play the history of `seed`; collect the brokers' events in `lines` if it is given.

    Raises:
        SimulationError: a check failed. Whatever else is raised is a fault of a broker that nobody caught.
    """
    loop = VirtualTimeLoop()  # type: ignore[abstract]
    scenario = Scenario(loop, seed, settings, faults)
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
        self, loop: VirtualTimeLoop, seed: int, settings: Settings | None, faults: tuple[str, ...] | None = None
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
        self._happened: Counter[str] = Counter()
        self._under_way: list[asyncio.Task[Any]] = []
        self._clients: list[SimClient] = []
        self._producers: list[NumberingProducer] = []
        self._consumers: list[CheckingConsumer] = []
        actions: dict[str, tuple[int, Callable[[], None]]] = {
            "crash": (8, self._crash),
            "stop": (4, self._stop),
            "pause": (10, self._pause),
            "session loss": (6, self._lose_session),
            "store partition": (6, self._cut_off_store),
            "partition": (5, self._partition),
            "reset": (8, self._reset),
            "notifications": (6, self._trouble_notifications),
            "unload": (14, self._unload),
            "unload to": (10, self._unload_to),
            "split": (8, self._split),
            "lookups": (10, self._look_up_everywhere),
            "burst": (8, self._burst),
            "full disk": (3, self._fill_disk),
            "lost registrations": (5, self._lose_registrations),
        }
        chosen = faults or tuple(actions)
        self._actions = [actions[name][1] for name in chosen]
        self._weights = [actions[name][0] for name in chosen]
        self._names = chosen

    async def play(self) -> Verdict:
        await self.cluster.start()
        await self._start_clients()
        await self._trouble()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self.cluster.settle()
        settling = self._loop.time()
        await self._all_arrived()
        settle_s = self._loop.time() - settling
        await self._all_agree()
        if "lost registrations" in self._names:
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
            faults=dict(self._happened),
            messages=sum(producer.acknowledged for producer in self._producers),
            duplicates=sum(consumer.duplicates for consumer in self._consumers),
            terms=referee.terms_begun,
            splits=referee.splits,
            settle_s=settle_s,
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

    # ---- faults

    async def _trouble(self) -> None:
        until = self._loop.time() + FAULTS_S
        while self._loop.time() < until:
            await asyncio.sleep(self._random.expovariate(self.cluster.settings.faults_per_s))
            (index,) = self._random.choices(range(len(self._names)), self._weights)
            self._happened[self._names[index]] += 1
            self._actions[index]()

    def _later(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Go on with a fault beside the others."""
        task = self._loop.create_task(work, name=name)
        self._under_way.append(task)
        self._guard(task)

    def _command(self, process: BrokerProcess, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Have a broker do something; it may refuse, but not break."""
        self._guard(process.node.spawn(work, name))

    def _guard(self, task: "asyncio.Task[Any]") -> None:
        def done(task: "asyncio.Task[Any]") -> None:
            if task.cancelled():
                return
            error = task.exception()
            if error is not None and not isinstance(error, REFUSALS):
                self._loop.failures.append(error)

        task.add_done_callback(done, context=contextvars.Context())  # of no broker, which may be dead by then

    def _any_up(self) -> BrokerProcess | None:
        up = self.cluster.up()
        return self._random.choice(up) if up else None

    def _session_s(self) -> float:
        return self.cluster.settings.session_timeout_ms / 1000

    def _crash(self) -> None:
        process = self._any_up()
        if process is None:
            return
        process.crash()
        self._later(self._restart(process, self._random.uniform(0.05, 2 * self._session_s())), "restart")

    async def _restart(self, process: BrokerProcess, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        if self.cluster.processes[process.index] is process:
            again = self.cluster.restart(process.index)
            again.main.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _stop(self) -> None:
        process = self._any_up()
        if process is None or len(self.cluster.up()) < 2:
            return

        async def stop() -> None:
            async with asyncio.timeout(60):
                await process.stop()
            await self._restart(process, self._random.uniform(0.05, 3))

        self._later(stop(), f"stop {process.name}")

    def _pause(self) -> None:
        process = self._any_up()
        if process is None:
            return
        session_s = self._session_s()
        short = self._random.random() < 0.5
        duration_s = self._random.uniform(0.01, 0.9 * session_s) if short else self._random.uniform(1, 2.5) * session_s
        process.pause()

        async def resume() -> None:
            await asyncio.sleep(duration_s)
            if process.node.alive and process.node.paused:
                process.resume()

        self._later(resume(), f"resume {process.name}")

    def _lose_session(self) -> None:
        if (process := self._any_up()) is not None:
            self.cluster.referee.on_disowned(process.node, self._loop.time() + self._session_s())
            self.cluster.backend.expire_session(process.store)

    def _cut_off_store(self) -> None:
        process = self._any_up()
        if process is None:
            return
        self.cluster.backend.partition(process.store)
        duration_s = self._random.uniform(0.1, 2 * self._session_s())

        async def heal() -> None:
            await asyncio.sleep(duration_s)
            if process.node.alive:
                self.cluster.backend.heal(process.store)

        self._later(heal(), f"heal store of {process.name}")

    def _partition(self) -> None:
        names = [process.name for process in self.cluster.processes] + [each.node.name for each in self._clients]
        one, other = self._random.sample(names, 2)
        self.cluster.network.partition(one, other)

        async def heal() -> None:
            await asyncio.sleep(self._random.uniform(0.1, 6))
            self.cluster.network.heal(one, other)

        self._later(heal(), f"heal {one}, {other}")

    def _reset(self) -> None:
        connections = self.cluster.network.connections()
        if connections:
            self.cluster.network.reset(self._random.choice(connections))

    def _trouble_notifications(self) -> None:
        self.cluster.lost_notifications = self._random.choice((0.0, 0.3, 1.0))
        self.cluster.late_notifications_s = self._random.choice((0.0, 0.5, 3.0))

        async def end() -> None:
            await asyncio.sleep(self._random.uniform(0.5, 6))
            self.cluster.lost_notifications = self.cluster.late_notifications_s = 0.0

        self._later(end(), "end of notification trouble")

    def _lose_registrations(self) -> None:
        """The store forgets who is registered, with or without a word, and for a while does not remember."""
        told = self._random.random() < 0.5
        bring_back = self.cluster.backend.lose(BROKERS_ROOT, told=told)

        async def remember() -> None:
            await asyncio.sleep(self._random.choice((0.0, 0.01, 0.3, 2.0, 7.0)))
            bring_back()

        self._later(remember(), "registrations back")

    def _served(self) -> tuple[BrokerProcess, Bundle] | None:
        """Pick a bundle of the namespace that is served now, with its broker."""
        by_node = {id(process.node): process for process in self.cluster.up()}
        choices = [
            (by_node[id(node)], term.bundle)
            for node, term in self.cluster.referee.serving()
            if id(node) in by_node and term.bundle.namespace == NAMESPACE
        ]
        return self._random.choice(choices) if choices else None

    def _unload(self) -> None:
        if (served := self._served()) is not None:
            process, bundle = served
            self._command(process, process.control.namespaces.unload_bundle(bundle), f"unload {bundle}")

    def _unload_to(self) -> None:
        served = self._served()
        leader = next((each for each in self.cluster.up() if each.control.leadership.is_leader()), None)
        target = self._any_up()
        if served is None or leader is None or target is None:
            return
        process, bundle = served

        async def unload_to() -> None:
            leader.control.namespaces.set_destination(bundle, target.broker_id)
            destination = None if target is process else target.broker_id
            unload = process.control.namespaces.unload_bundle(bundle, destination=destination)
            self._command(process, unload, f"unload {bundle}")

        self._command(leader, unload_to(), f"unload {bundle} to {target.name}")

    def _split(self) -> None:
        served = self._served()
        if served is None or len(self.cluster.referee.serving()) >= MAX_BUNDLES + 2 * self.cluster.settings.brokers:
            return
        process, bundle = served
        algorithm = self._random.choice(("range_equally_divide", "topic_count_equally_divide"))
        unload = self._random.random() < 0.5
        work = process.control.namespaces.split_bundle(bundle, algorithm=algorithm, unload=unload)
        self._command(process, work, f"split {bundle}")

    def _look_up_everywhere(self) -> None:
        """Ask all brokers at once for a topic that nobody uses yet."""
        topic = f"persistent://{NAMESPACE}/looked-up-{self._random.randrange(1000)}"
        client = self._random.choice(self._clients)

        async def ask(url: str) -> None:
            with suppress(RetryError):
                await client.lookup(topic, at=url)

        for url in self.cluster.service_urls:
            self._guard(client.node.spawn(ask(url), f"look up {topic} at {url}"))

    def _burst(self) -> None:
        producer = self._random.choice(self._producers)
        for _ in range(self._random.randint(5, 40)):
            producer.client.node.call(producer.publish)

    def _fill_disk(self) -> None:
        disk = self.cluster.disk
        disk.capacity_bytes = disk.used_bytes + self._random.randint(0, 500)

        async def clear() -> None:
            await asyncio.sleep(self._random.uniform(0.1, 3))
            disk.capacity_bytes = None

        self._later(clear(), "space on the disk again")

    # ---- the end

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
        """Look up a topic of every bundle at every broker: one answer, and its broker serves; each owns its own."""
        deadline = self._loop.time() + SETTLE_S
        while disagreements := await self._disagreements():
            if self._loop.time() > deadline:
                raise SimulationError("all agree", "; ".join(disagreements))
            await asyncio.sleep(1)

    async def _forgotten_in_peace(self) -> None:
        """The store forgets who is registered, long enough for all to see, and remembers: the leader knows the brokers'
        loads again, though nobody has anything new to report."""
        bring_back = self.cluster.backend.lose(BROKERS_ROOT, told=False)
        await asyncio.sleep(7)
        bring_back()
        await asyncio.sleep(1)
        leader = next(each for each in self.cluster.up() if each.control.leadership.is_leader())
        bundle = Bundle.full(NamespaceName.parse("public/nobody-has-it"))
        placement = await leader.node.spawn(leader.control.load_manager.select_broker(bundle), f"place {bundle}")
        if placement is None or placement.reason.flags:
            raise SimulationError("loads are known again", f"placed: {placement}")

    async def _disagreements(self) -> list[str]:
        first, client = self.cluster.processes[0], self._clients[0]
        bundles = await first.node.spawn(first.control.bundles.fresh(NAMESPACE), "read the bundles")
        found = []
        for bundle in bundles.bundles:
            topic = _topic_in(bundle)
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
        """Every broker owns its own namespaces, though nobody looked them up."""
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


def _topic_in(bundle: Bundle) -> str:
    """Return the name of a topic of `bundle` that is in none of the workload's."""
    for number in range(100_000):
        name = f"persistent://{bundle.namespace}/probe-{number}"
        if bundle.range.contains(TopicName.parse(name).hash32):
            return name
    raise AssertionError(f"no probe for {bundle}")
