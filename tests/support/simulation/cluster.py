"""A cluster of real brokers on virtual time: one store, one disk, one network, one seed."""

import asyncio
import contextvars
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import structlog

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError, Owner
from pulsar_barycenter.broker.cluster.metadata_writing import MetadataWriting
from pulsar_barycenter.broker.control.record_way import RecordWay
from pulsar_barycenter.broker.control_plane import ControlPlane
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.errors import ServiceError
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import LoadManager
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.namespaces.policies import BundlesData, Policies
from pulsar_barycenter.broker.ownership.channel.places.place import SOURCES
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.partition_changes.partition_owner import PartRequest
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.service_units.service_unit_state import StorageType
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.metadata.store import Notification
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.process_state import kept_log
from support.simulation.loads import SHEDS_AT_ONCE, MadeUpLoads
from support.simulation.loop import NODE, START_S, Node, SimulationError, VirtualTimeLoop
from support.simulation.network import Network
from support.simulation.referee import Referee, RefereedBackend

T = TypeVar("T")

NAMESPACE = NamespaceName.parse("public/default")
WALL_CLOCK_START_MS = 1_800_000_000_000
BROKER_PORT = 6650
WEB_PORT = 8080
OPERATION_TIMEOUT_S = 5.0
"""After what a broker gives up a request to the store whose answer does not come."""
NEXT_TRY_S = 2.0
"""Within what is asked again, by whoever was not answered at first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The parameters of one history."""

    brokers: int = 3
    bundles: int = 2
    session_timeout_ms: int = 4_000
    store_latency_s: float = 0.002
    """What a request to the store, and its answer, take at most."""
    durability_delay_s: float = 0.01
    """What a group commit takes at most."""
    faults_per_s: float = 1.2
    config: dict[str, Any] = field(default_factory=dict)
    alternatives: tuple[dict[str, Any], ...] = ()
    """Settings of which each life of a broker draws one, on top of `config`."""

    @staticmethod
    def drawn(source: random.Random) -> "Settings":
        """Draw parameters: mostly mild, sometimes with a slow store, slow disks or one fault after the other."""
        return Settings(
            bundles=source.randint(1, 4),
            session_timeout_ms=source.choice((1_500, 4_000, 4_000, 8_000)),
            store_latency_s=source.choice((0.002, 0.002, 0.02, 0.2)),
            durability_delay_s=source.choice((0.01, 0.01, 0.3)),
            faults_per_s=source.choice((0.6, 1.2, 1.2, 3.0)),
        )


class SimClock:
    """Wall clock of one machine: the loop's time, off by `skew_ms`, which may be set."""

    def __init__(self, loop: VirtualTimeLoop, skew_ms: int) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return WALL_CLOCK_START_MS + round((self._loop.time() - START_S) * 1000) + self.skew_ms


class SimPeers:
    """Carries out the other brokers' commands in their processes after the network's delay."""

    def __init__(self, cluster: "Cluster", node: Node) -> None:
        self._cluster = cluster
        self._node = node

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        await self._cluster.command(self._node, broker_url, "unload", bundle, destination, epoch)

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        await self._cluster.command(self._node, broker_url, "split", bundle, algorithm, epoch)

    async def write_by_leader(self, broker_url: str, secret: str, request: bytes) -> bytes:
        return await self._cluster.bring(self._node, broker_url, request)

    async def change_partition(self, broker_url: str, request: bytes) -> bytes:
        return await self._cluster.ask_owner(self._node, request)

    async def owner_urls(self, broker_url: str, topic: TopicName) -> tuple[str | None, str | None]:
        raise ConnectionRefusedError(f"no HTTP in a simulation: {broker_url} is not asked for the owner of {topic}")

    async def close(self) -> None:
        return


class BrokerProcess:
    """One incarnation of one broker."""

    def __init__(self, cluster: "Cluster", index: int) -> None:
        self.index = index
        self.name = f"broker-{index}"
        self.node = Node(cluster.loop, self.name)
        self.clock: SimClock
        self.store: MemoryStore
        self.ledgers: MemoryLedgerStorage
        self.died = cluster.loop.create_future()
        """Done when this life is over."""
        self._cluster = cluster
        self.broker: Broker = self.node.call(self._build)
        self.main = self.node.spawn(self._start(), "start")

    @property
    def broker_id(self) -> str:
        return f"{self.name}:{WEB_PORT}"

    @property
    def url(self) -> str:
        return f"pulsar://{self.name}:{BROKER_PORT}"

    @property
    def web_url(self) -> str:
        return f"http://{self.name}:{WEB_PORT}"

    @property
    def control(self) -> ControlPlane:
        return self.broker.control

    @property
    def is_up(self) -> bool:
        """Whether the process started and has neither crashed nor stopped since."""
        return self.node.alive and self.main.done() and not self.main.cancelled() and self.main.exception() is None

    def _build(self) -> Broker:
        cluster = self._cluster
        source = cluster.random
        clock = self.clock = SimClock(cluster.loop, source.randint(-500, 500))
        self.store = cluster.backend.connect(
            clock, cluster.settings.session_timeout_ms, operation_timeout_ms=round(OPERATION_TIMEOUT_S * 1000)
        )
        cluster.backend.route_notifications(self.store, cluster.notification_delay_s)
        self.ledgers = MemoryLedgerStorage(
            cluster.disk, durability_delay_s=lambda: source.uniform(0.0002, cluster.settings.durability_delay_s)
        )
        environment = Environment(
            store=self.store,
            ledgers=self.ledgers,
            clock=clock,
            random=random.Random(source.getrandbits(32)),
            peers=SimPeers(cluster, self.node),
        )
        return cluster.make_broker(self.name, environment)

    async def _start(self) -> None:
        await self.broker.start()

    async def _stop(self) -> None:
        await self.broker.stop()
        await self.ledgers.close()
        await self.store.close()

    def crash(self) -> None:
        """End as by SIGKILL, or by a lost machine."""
        cluster = self._cluster
        self._end(silently=cluster.random.random() < 0.2)
        cluster.backend.crash(self.store)
        self.ledgers.crash(survivors=lambda queued: cluster.random.randint(0, queued))

    def pause(self) -> None:
        self.node.pause()

    def resume(self) -> None:
        self.node.resume()
        self._cluster.referee.on_resumed(self.node)

    async def stop(self) -> None:
        """Leave the cluster in order, and end the process; returns early if it dies meanwhile."""
        stopping = self.node.spawn(self._stop(), "stop")
        await asyncio.wait([stopping, self.died], return_when=asyncio.FIRST_COMPLETED)
        if self.node.alive:
            stopping.result()
            self._end(silently=False)

    def _end(self, *, silently: bool) -> None:
        self.node.crash()
        self._cluster.network.crashed(self.node, silently=silently)
        self._cluster.referee.on_crashed(self.node)
        self.died.set_result(None)


class Cluster:
    """Create it inside the running loop; `start` starts every broker."""

    def __init__(self, loop: VirtualTimeLoop, source: random.Random, settings: Settings) -> None:
        self.loop = loop
        self.random = source
        self.settings = settings
        self.referee = Referee(loop)
        self.network = Network(loop, source)
        self.backend: MemoryBackend = RefereedBackend(self.referee, latency=self._store_latency_s)
        self.disk = MemoryDisk()
        self.loads = MadeUpLoads()
        self.processes: list[BrokerProcess] = []
        self.without_owner: set[tuple[Bundle, int | None]] = set()
        """The bundle and the epoch of each command that arrived when no broker owned the bundle: nothing was done."""
        self.lost_notifications = 0.0
        """The part of notifications that are lost, 0 to 1."""
        self.late_notifications_s = 0.0
        """By how much the others may be late."""

    # ---- what a broker is made of

    def make_broker(self, name: str, environment: Environment) -> Broker:
        drawn = self.random.choice(self.settings.alternatives) if self.settings.alternatives else {}
        config = BrokerConfig(
            bind_address=name,
            advertised_address=name,
            broker_service_port=BROKER_PORT,
            web_service_port=WEB_PORT,
            load_report_log_enabled=False,
            **{
                "metadata_store_session_timeout_millis": self.settings.session_timeout_ms,
                **SHEDS_AT_ONCE,
                **self.settings.config,
                **drawn,
            },
        )
        return Broker(config, environment, load_manager=self._balancing_in_memory)

    def _balancing_in_memory(self, context: LoadManagerContext) -> LoadManager:
        made, environment = self.loads.measuring(context)
        match manager_in_force(context.config.current):
            case ManagerKind.EXTENSIBLE:
                return ExtensibleLoadManager(made, environment)
            case ManagerKind.SIMPLE:
                return SimpleLoadManager(made, environment)
            case _:
                return ModularLoadManager(made, environment)

    def _store_latency_s(self, operation: str, path: str) -> float:
        return self.random.uniform(0.0001, self.settings.store_latency_s)

    def notification_delay_s(self, notification: Notification) -> float | None:
        if self.lost_notifications and self.random.random() < self.lost_notifications:
            return None
        return self.random.uniform(0.0001, self.settings.store_latency_s + self.late_notifications_s)

    # ---- life

    async def start(self) -> None:
        """Create tenant and namespace, start all brokers at once, return when all are up."""
        admin = self.backend.connect(SimClock(self.loop, 0), 3_600_000)
        bundles = NamespaceBundles.equal(NAMESPACE, self.settings.bundles)
        policies = Policies(replication_clusters=("standalone",), bundles=BundlesData.from_bundles(bundles))
        await admin.put("/admin/clusters/standalone", b"{}")
        await admin.put("/admin/policies/public", b'{"adminRoles":[],"allowedClusters":["standalone"]}')
        await admin.put(f"/admin/policies/{NAMESPACE}", msgspec.json.encode(policies))
        await admin.close()
        self.processes = [BrokerProcess(self, index) for index in range(self.settings.brokers)]
        await asyncio.gather(*(process.main for process in self.processes))

    def restart(self, index: int) -> BrokerProcess:
        """Start the broker of `index` again; its former process must be dead."""
        assert not self.processes[index].node.alive
        process = self.processes[index] = BrokerProcess(self, index)
        return process

    def end_faults(self) -> None:
        """End every fault: all brokers run or start, are connected, and receive everything."""
        self.lost_notifications = self.late_notifications_s = 0.0
        self.backend.read_only = False
        if self.backend.is_down:
            self.backend.start()
        self.network.heal()
        for index, process in enumerate(self.processes):
            if process.node.paused:
                process.resume()
            if process.node.alive:
                self.backend.heal(process.store)
            else:
                self.restart(index)

    async def bring_up(self) -> None:
        """Return when all brokers have started."""
        await asyncio.gather(*map(self._bring_up, range(len(self.processes))))

    async def stored_bundles(self) -> NamespaceBundles:
        """Return the bundles of the namespace, as the store has them."""
        reader = self.backend.connect(SimClock(self.loop, 0), 3_600_000)
        cache = BundleCache(reader)
        try:
            return await cache.fresh(NAMESPACE)
        finally:
            cache.close()
            await reader.close()

    async def _bring_up(self, index: int) -> None:
        """Wait for a start; a failed start is repeated, as by a supervisor."""
        for _ in range(20):
            process = self.processes[index]
            try:
                await process.main
            except Exception:  # noqa: BLE001 (a supervisor does not ask why)
                process.crash()
                await asyncio.sleep(1)
                self.restart(index)
            else:
                return
        raise SimulationError("start", f"broker-{index} does not come up: {self.processes[index].main!r}")

    async def forget_trouble(self, within_s: float) -> None:
        """Wait until no earlier request waits for an answer, and ownership records are at the requested location.

        Raises:
            SimulationError: they were not moved there within `within_s`.
        """
        await asyncio.sleep(OPERATION_TIMEOUT_S)
        unanswered_s = self.network.unanswered_until_s - self.loop.time()
        if unanswered_s > 0:
            await asyncio.sleep(unanswered_s + NEXT_TRY_S)
        deadline = self.loop.time() + within_s
        while any(_is_moving(process.control) for process in self.up()):
            if self.loop.time() > deadline:
                raise SimulationError("records are moved", f"not all followed within {within_s:g} s")
            await asyncio.sleep(0.2)

    def up(self) -> list[BrokerProcess]:
        """Return the brokers that serve: started, alive, not paused."""
        return [process for process in self.processes if process.is_up and not process.node.paused]

    @property
    def service_urls(self) -> list[str]:
        return [f"pulsar://broker-{index}:{BROKER_PORT}" for index in range(self.settings.brokers)]

    # ---- commands, as they come over the admin REST

    async def command(
        self, sender: Node, web_url: str, what: str, bundle: Bundle, argument: str | None, epoch: int | None
    ) -> None:
        """Let the broker at `web_url` unload or split `bundle`, or the owner that it redirects to.

        Raises:
            OSError: that broker cannot be reached.
        """
        name = web_url.removeprefix("http://").partition(":")[0]
        target = next(process for process in self.processes if process.name == name)
        await asyncio.sleep(self.network.delay_s(sender.name, name))
        if not target.is_up or self.network.is_cut(sender.name, name):
            raise ConnectionRefusedError(111, f"{web_url} does not answer")
        async with asyncio.timeout(30):
            work = self._carry_out(target, what, bundle, argument, epoch)
            await asyncio.shield(_heard(target.node.spawn(work, what)))
        await asyncio.sleep(self.network.delay_s(sender.name, name))

    async def bring(self, sender: Node, web_url: str, request: bytes) -> bytes:
        """Send a request to write to the broker at `web_url`, and return its answer.

        Raises:
            ConnectionRefusedError: it did not arrive.
            TimeoutError: the outcome is unknown.
        """
        name = web_url.removeprefix("http://").partition(":")[0]
        target = next(process for process in self.processes if process.name == name)
        await asyncio.sleep(self.network.delay_s(sender.name, name))
        writing = target.control.writing
        if not target.node.alive or self.network.is_cut(sender.name, name):
            raise ConnectionRefusedError(111, f"{web_url} does not answer")
        answering = target.node.spawn(_answered(writing, request), "write by the leader")
        done, _ = await asyncio.wait([answering, target.died], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(self.network.delay_s(sender.name, name))
        answer = answering.result() if answering in done and not answering.cancelled() else None
        if answer is None or self.network.is_cut(sender.name, name):
            raise ConnectionResetError(104, "connection reset")
        return answer

    async def ask_owner(self, sender: Node, request: bytes) -> bytes:
        """Send a request about a partition to its owner as the admin REST does, which redirects, and return the answer.

        Raises:
            OSError: the outcome is unknown.
            TimeoutError: it took too long.
        """
        wanted = msgspec.json.decode(request, type=PartRequest)
        part = TopicName.parse(wanted.topic)
        name, authoritative = sender.name, False
        async with asyncio.timeout(30):
            for _ in range(10):
                target = next(process for process in self.processes if process.name == name)
                await asyncio.sleep(self.network.delay_s(sender.name, name))
                if not target.is_up or self.network.is_cut(sender.name, name):
                    raise ConnectionRefusedError(111, f"{name} does not answer")
                answering = target.node.spawn(_owner_answers(target, part, wanted, authoritative), f"ask about {part}")
                done, _ = await asyncio.wait([_heard(answering), target.died], return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(self.network.delay_s(sender.name, name))
                if answering not in done or answering.cancelled() or self.network.is_cut(sender.name, name):
                    raise ConnectionResetError(104, "connection reset")
                answer = answering.result()
                if isinstance(answer, bytes):
                    return answer
                name, authoritative = answer
        raise ConnectionRefusedError(111, f"nobody owns {part}")

    async def _carry_out(
        self, asked: BrokerProcess, what: str, bundle: Bundle, argument: str | None, epoch: int | None
    ) -> None:
        """Do what the REST layer does with such a command, at the broker that owns the bundle."""
        owner = next((each for each in self.up() if each.control.ownership.is_owned(bundle)), None)
        if owner is None:
            self.without_owner.add((bundle, epoch))
            return
        if what == "split":
            work = owner.control.namespaces.split_bundle(
                bundle, algorithm=argument or "", unload=False, leader_epoch=epoch
            )
            await _heard(owner.node.spawn(work, f"split {bundle}"))
            return
        if argument is not None:
            asked.control.namespaces.set_destination(bundle, argument)
        unload = owner.control.namespaces.unload_bundle(bundle, destination=argument, leader_epoch=epoch)
        await _heard(owner.node.spawn(unload, f"unload {bundle}"))


async def _owner_answers(
    asked: BrokerProcess, part: TopicName, request: PartRequest, authoritative: bool
) -> bytes | tuple[str, bool]:
    """Return the owner's answer, or the broker to ask next, and whether that one decides.

    Raises:
        OSError: the broker answered with an error.
    """
    try:
        found = asked.control.lookup.known_owner(part)
        answer = found or await asked.control.lookup.lookup(part, authoritative=authoritative)
        if not isinstance(answer, Owner):
            return answer.broker_id.partition(":")[0], answer.authoritative
        if not answer.is_local:
            return answer.broker_id.partition(":")[0], asked.control.leadership.is_leader()
        return msgspec.json.encode(await asked.broker.partition_owner.answer(part, request))
    except (LookupFailedError, NotServedError, ServiceError, LedgerError, MetadataError) as error:
        raise OSError(5, str(error)) from error


async def _answered(writing: MetadataWriting, request: bytes) -> bytes | None:
    """None if the process ends meanwhile."""
    try:
        return await writing.answer_to(request)
    except asyncio.CancelledError:
        return None


def _is_moving(control: ControlPlane) -> bool:
    """Whether this broker has its ownership records elsewhere than at the requested location."""
    source = SOURCES.get(control.config.current.load_balancer_service_unit_table_view_syncer)
    if source is None or not isinstance(control.way, RecordWay):
        return False
    gauges = dict(control.way.channel.syncer.samples())
    place = (
        StorageType.METADATA_STORE if gauges.get("barycenter_ownership_records_in_store") else StorageType.SYSTEM_TOPIC
    )
    return not gauges or bool(gauges["barycenter_ownership_records_moving"]) or place is source


def _heard(task: "asyncio.Task[T]") -> "asyncio.Task[T]":
    """The requester may be gone when it fails."""
    # in nobody's context: a callback of a broker that crashed would never be called
    task.add_done_callback(lambda each: each.cancelled() or each.exception(), context=contextvars.Context())
    return task


@contextmanager
def quiet_logs(lines: list[str] | None = None) -> Iterator[None]:
    """Keep the brokers' events off the terminal; collect them in `lines`, with time and node, if it is given."""

    def collect(_: Any, method: str, event: Any) -> Any:
        if lines is not None:
            node = NODE.get()
            time = asyncio.get_event_loop().time() - START_S if asyncio._get_running_loop() else 0.0
            fields = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
            lines.append(f"{time:9.3f} {node.name if node else '-':9} {method:9} {event['event']} {fields}")
        raise structlog.DropEvent

    level = 50 if lines is None else 0
    with kept_log():
        structlog.configure(processors=[collect], wrapper_class=structlog.make_filtering_bound_logger(level))
        yield
