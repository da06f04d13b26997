"""The faults of a simulated cluster: which there are, how each begins and how it ends.

Every fault is drawn, with its target and duration, from one random source. They overlap.
"""

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.lookup.namespace_service import NamespaceServiceError
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from support.simulation.client import NumberingProducer, RetryError, SimClient
from support.simulation.cluster import NAMESPACE, BrokerProcess, Cluster
from support.simulation.loop import VirtualTimeLoop

MAX_BUNDLES: Final = 8
HOUR_MS: Final = 3_600_000
SYNCER: Final = "load_balancer_service_unit_table_view_syncer"
"""Clusters that have it in their configuration are asked to move their ownership records now and then."""

REFUSALS: Final = (LookupFailedError, NamespaceServiceError, MetadataError, InvalidNameError, TimeoutError, OSError)
"""How a broker may refuse a command when things change under its hands."""

OF_ONE: Final = (
    *("crash", "stop", "pause", "session loss", "store partition", "partition", "reset", "notifications"),
    *("unload", "unload to", "split", "lookups", "burst", "full disk", "lost registrations"),
)
"""Faults that concern one broker, bundle or connection, or what all hear of the store."""
OF_ALL: Final = (
    *("all sessions", "restart of all", "rolling restart", "store restart", "read-only store"),
    *("lost answers", "disorder", "clock jump", "at once"),
)
"""Faults of the store, of time, and of all brokers in a row; and many changes of one bundle."""
OF_OUTAGES: Final = ("outages of all",)
"""Rounds in which no broker is there."""
OF_BALANCE: Final = ("shed", "rolling restart while shedding")
"""Rounds of the leader's shedding over loads that are made up."""
ROUNDS: Final = 3


class Faults:
    """`strike` begins one more fault; those that are drawn are `names`, all if there are none."""

    def __init__(
        self,
        loop: VirtualTimeLoop,
        cluster: Cluster,
        source: random.Random,
        clients: list[SimClient],
        producers: list[NumberingProducer],
        names: tuple[str, ...] | None,
    ) -> None:
        self.happened: Counter[str] = Counter()
        self.shed = 0
        """How many bundles the leaders' rounds of shedding moved."""
        self.cluster = cluster
        self._loop = loop
        self._random = source
        self._clients = clients
        self._producers = producers
        self._under_way: list[asyncio.Task[Any]] = []
        actions = self._all()
        self.names = names or tuple(actions)
        self._actions = [actions[name][1] for name in self.names]
        self._weights = [actions[name][0] for name in self.names]

    def _all(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Return the possible faults, and their relative frequencies."""
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
            "all sessions": (3, self._lose_all_sessions),
            "restart of all": (2, self._restart_all),
            "outages of all": (2, self._take_all_down),
            "rolling restart": (2, self._restart_in_turn),
            "store restart": (4, self._restart_store),
            "read-only store": (4, self._make_store_read_only),
            "lost answers": (6, self._lose_answers),
            "disorder": (4, self._disturb_notifications),
            "clock jump": (5, self._set_clock),
            "at once": (8, self._change_at_once),
            "shed": (8, self._shed),
            "rolling restart while shedding": (3, self._restart_while_shedding),
        }
        if SYNCER in self.cluster.settings.config:
            actions["move records"] = (12, self._move_records)
        return actions

    def strike(self) -> None:
        (index,) = self._random.choices(range(len(self.names)), self._weights)
        self.happened[self.names[index]] += 1
        self._actions[index]()

    async def end(self) -> None:
        """Wait until every fault has ended."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def guard(self, task: "asyncio.Task[Any]") -> None:
        """Requests to a broker may be refused, but must not fail otherwise."""

        def done(task: "asyncio.Task[Any]") -> None:
            if task.cancelled():
                return
            error = task.exception()
            if error is not None and not isinstance(error, REFUSALS):
                self._loop.failures.append(error)

        task.add_done_callback(done, context=contextvars.Context())  # of no broker, which may be dead by then

    def _later(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Continue a fault in parallel with the others."""
        task = self._loop.create_task(work, name=name)
        self._under_way.append(task)
        self.guard(task)

    def _command(self, process: BrokerProcess, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.guard(process.node.spawn(work, name))

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
        """The store loses the registrations, with or without notifications, and has them again after a while."""
        told = self._random.random() < 0.5
        bring_back = self.cluster.backend.lose(BROKERS_ROOT, notify=told)

        async def remember() -> None:
            await asyncio.sleep(self._random.choice((0.0, 0.01, 0.3, 2.0, 7.0)))
            bring_back()

        self._later(remember(), "registrations back")

    def _move_records(self) -> None:
        """Request the ownership records at one of the two locations, where they may be already."""
        if (process := self._any_up()) is not None:
            wanted = self._random.choice(("SystemTopicToMetadataStoreSyncer", "MetadataStoreToSystemTopicSyncer"))
            work = process.control.dynamic_configuration.set("loadBalancerServiceUnitTableViewSyncer", wanted)
            self._command(process, work, wanted)

    def _served(self) -> tuple[BrokerProcess, Bundle] | None:
        """Pick a bundle of the namespace that is served now, with its broker."""
        by_node = {id(process.node): process for process in self.cluster.up()}
        choices = [
            (by_node[id(node)], term.bundle)
            for node, term in self.cluster.referee.serving()
            if id(node) in by_node and term.bundle.namespace == NAMESPACE
        ]
        return self._random.choice(choices) if choices else None

    def _leading(self) -> BrokerProcess | None:
        return next((each for each in self.cluster.up() if each.control.leadership.is_leader()), None)

    def _unload(self) -> None:
        if (served := self._served()) is not None:
            process, bundle = served
            self._command(process, process.control.namespaces.unload_bundle(bundle), f"unload {bundle}")

    def _unload_to(self) -> None:
        served = self._served()
        leader = self._leading()
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
        if served is None or not self._may_split():
            return
        process, bundle = served
        algorithm = self._random.choice(("range_equally_divide", "topic_count_equally_divide"))
        unload = self._random.random() < 0.5
        work = process.control.namespaces.split_bundle(bundle, algorithm=algorithm, unload=unload)
        self._command(process, work, f"split {bundle}")

    def _may_split(self) -> bool:
        return len(self.cluster.referee.serving()) < MAX_BUNDLES + 2 * self.cluster.settings.brokers

    def _look_up_everywhere(self, topic: str = "") -> None:
        """Look a topic up at all brokers at once, by default one that no client uses yet."""
        topic = topic or f"persistent://{NAMESPACE}/looked-up-{self._random.randrange(1000)}"
        client = self._random.choice(self._clients)

        async def ask(url: str) -> None:
            with suppress(RetryError):
                await client.lookup(topic, at=url)

        for url in self.cluster.service_urls:
            self.guard(client.node.spawn(ask(url), f"look up {topic} at {url}"))

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

    # ---- of the store, of time, of all brokers

    def _lose_all_sessions(self) -> None:
        for process in self.cluster.up():
            self.cluster.referee.on_disowned(process.node, self._loop.time() + self._session_s())
            self.cluster.backend.expire_session(process.store)

    def _restart_all(self) -> None:
        for process in self.cluster.up():
            process.crash()
            self._later(self._restart(process, self._random.uniform(0.05, self._session_s())), "restart")

    def _take_all_down(self) -> None:
        """All brokers are killed or stopped, and come back; several times, whether or not they served in between."""

        async def rounds() -> None:
            for _ in range(self._random.randint(1, 3)):
                victims = self.cluster.up()
                stopped = [each for each in victims if self._random.random() < 0.5]
                for process in victims:
                    if process in stopped:
                        process.pause()
                    else:
                        process.crash()
                await asyncio.sleep(self._random.uniform(0.05, 2 * self._session_s()))
                for process in victims:
                    if process.node.alive and process.node.paused:
                        process.resume()
                    elif not process.node.alive:
                        await self._restart(process, 0)
                await asyncio.sleep(self._random.uniform(0, self._session_s()))

        self._later(rounds(), "outages of all")

    def _restart_in_turn(self) -> None:
        """Each broker leaves in order and comes back, while bundles are moved."""

        async def move_about() -> None:
            for _ in range(10):
                self._unload_to()
                await asyncio.sleep(self._random.uniform(0.1, 0.6))

        self._later(self._stop_and_start_each(), "restart in turn")
        self._later(move_about(), "moves during restarts")

    async def _stop_and_start_each(self) -> None:
        for index in range(len(self.cluster.processes)):
            process = self.cluster.processes[index]
            if not process.is_up or len(self.cluster.up()) < 2:
                continue
            async with asyncio.timeout(60):
                await process.stop()
            await self._restart(process, 0.1)
            with suppress(Exception):  # it may die meanwhile
                async with asyncio.timeout(10):
                    await asyncio.shield(self.cluster.processes[index].main)

    # ---- of the balance

    def _shed(self) -> None:
        """One broker has too much load, and the leader unloads bundles from it."""
        self._later(self._shed_rounds(ROUNDS), "shedding")

    def _restart_while_shedding(self) -> None:
        """Each broker leaves in order and comes back, including the leader, while the present leader moves bundles."""
        self._later(self._stop_and_start_each(), "restart in turn")
        self._later(self._shed_rounds(3 * ROUNDS), "shedding during restarts")

    async def _shed_rounds(self, count: int) -> None:
        """Report unbalanced loads, different ones in each round, and let the leader act on them."""
        for _ in range(count):
            if (served := self._served()) is not None:
                busiest, _ = served
                bundles = sorted({term.bundle for _, term in self.cluster.referee.serving()}, key=str)
                of_clients = [bundle for bundle in bundles if bundle.namespace == NAMESPACE]
                self.cluster.loads.make_up(self._random, busiest.broker_id, of_clients)
                for process in self.cluster.up():
                    self._command(process, process.control.load_manager.write_report(force=True), "report")
            await asyncio.sleep(self._random.uniform(0.02, 0.6))
            if (leader := self._leading()) is not None:
                self._command(leader, self._shed_once(leader), "shed")
            await asyncio.sleep(self._random.uniform(0.02, 0.6))
        self.cluster.loads.forget()

    async def _shed_once(self, leader: BrokerProcess) -> None:
        manager = leader.control.load_manager
        log: DecisionLog = manager.decisions  # type: ignore[attr-defined]
        before = log.made
        await manager.shed()
        self.shed += sum(record.kind == "unload" for record in log.recent(log.made - before))

    def _restart_store(self) -> None:
        self.cluster.backend.stop()

        async def start() -> None:
            await asyncio.sleep(self._random.uniform(0.05, 2 * self._session_s()))
            self.cluster.backend.start()

        self._later(start(), "start of the store")

    def _make_store_read_only(self) -> None:
        self.cluster.backend.read_only = True

        async def end() -> None:
            await asyncio.sleep(self._random.uniform(0.1, 2 * self._session_s()))
            self.cluster.backend.read_only = False

        self._later(end(), "writable store again")

    def _lose_answers(self) -> None:
        """The writes of one broker are carried out, and their answers are lost."""
        if (process := self._any_up()) is not None:
            self.cluster.backend.lose_answers(process.store)
            self._later(self._answer_again(process, self._random.uniform(0.01, 3)), "answers again")

    async def _answer_again(self, process: BrokerProcess, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.cluster.backend.lose_answers(process.store, lost=False)

    def _disturb_notifications(self) -> None:
        """Notifications, including those of load reports, arrive twice and overtake each other."""
        if (process := self._any_up()) is None:
            return
        self.cluster.backend.disturb_notifications(process.store)
        self.cluster.late_notifications_s = self._random.choice((0.1, 0.5))

        async def end() -> None:
            await asyncio.sleep(self._random.uniform(0.5, 6))
            self.cluster.late_notifications_s = 0.0
            self.cluster.backend.disturb_notifications(process.store, disorderly=False)

        self._later(end(), "end of disorder")

    def _set_clock(self) -> None:
        """The wall clock of one machine is set forward or back by an hour, and corrected after a while."""
        if (process := self._any_up()) is None:
            return
        jump_ms = self._random.choice((-HOUR_MS, HOUR_MS))
        process.clock.skew_ms += jump_ms

        async def put_right() -> None:
            await asyncio.sleep(self._random.uniform(0.1, 8))
            process.clock.skew_ms -= jump_ms

        self._later(put_right(), "clock put right")

    def _change_at_once(self) -> None:
        """One bundle is split, unloaded, released for good and looked up, all in one moment."""
        if (served := self._served()) is None:
            return
        process, bundle = served
        service = process.control.namespaces
        changes: list[tuple[Coroutine[Any, Any, object], str]] = [
            (service.unload_bundle(bundle), f"unload {bundle}"),
            (service.delete_bundle(bundle, force=True), f"delete {bundle}"),
            (service.unload_bundle(bundle), f"unload {bundle} again"),
        ]
        if self._may_split():
            split = service.split_bundle(bundle, algorithm="range_equally_divide")
            changes += [(split, f"split {bundle}")]
        self._random.shuffle(changes)
        for work, name in changes:
            self._command(process, work, name)
        self._look_up_everywhere(topic_in(bundle))


def topic_in(bundle: Bundle) -> str:
    """Return the name of a topic of `bundle` that is not one of the workload."""
    for number in range(100_000):
        name = f"persistent://{bundle.namespace}/probe-{number}"
        if bundle.range.contains(TopicName.parse(name).hash32):
            return name
    raise AssertionError(f"no probe for {bundle}")
