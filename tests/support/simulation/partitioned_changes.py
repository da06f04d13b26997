"""One simulated history of partitioned topics: requests change them while brokers, stores and networks fail.

    run_changes(seed)  ->  Verdict, or SimulationError

In the end each change is done as a whole or not at all: *whole changes*. What was refused has changed nothing, what was
done is done, and what was decided is done by then. No client is attached to what a change without `force` deletes:
*no client of it*. No acknowledged message of a topic that still exists is lost, on a new partition neither:
*every message in order*, *every message arrives*.
"""

import asyncio
import contextvars
import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    BundlesData,
    PartitionedTopicMetadata,
    Policies,
)
from pulsar_barycenter.broker.partition_changes.errors import (
    ChangeBusyError,
    ChangePendingError,
    ChangeRefusedError,
)
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.simulation.client import CheckingConsumer, NumberingProducer, SimClient
from support.simulation.cluster import NAMESPACE, BrokerProcess, Settings, SimClock
from support.simulation.faults import REFUSALS, Faults
from support.simulation.loop import Node, SimulationError, VirtualTimeLoop
from support.simulation.scenario import FAULTS_S, SETTLE_S, Scenario, Verdict, played

PARTED: Final = NamespaceName.parse("public/partitioned")
TOPICS: Final = 6
PARTITIONS: Final = 3
MOST_PARTITIONS: Final = 7
AUDIT: Final = "audit"
"""The subscription that every partition has from its first message on, and that no request deletes."""

CHANGES_PER_S: Final = 3.0
"""How many requests and clients come each second."""


class Outcome(enum.Enum):
    DONE = "done"
    REFUSED = "refused"
    DECIDED = "decided"
    """It was not complete when the request was answered, and has to be in the end."""
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Requested:
    kind: ChangeKind
    subscription: str = ""
    partitions: int = 0
    force: bool = False
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class Partitioned:
    """A partitioned topic with all requests about it; names of subscriptions are used once."""

    name: TopicName
    requested: list[Requested] = field(default_factory=list)
    producers: dict[int, NumberingProducer] = field(default_factory=dict)
    auditors: dict[int, CheckingConsumer] = field(default_factory=dict)

    def outcomes(self, kind: ChangeKind, subscription: str = "") -> set[Outcome]:
        return {each.outcome for each in self.requested if (each.kind, each.subscription) == (kind, subscription)}

    @property
    def subscriptions(self) -> list[str]:
        """The requested names."""
        return [each.subscription for each in self.requested if each.kind is ChangeKind.CREATE_SUBSCRIPTION]


class Visitor(CheckingConsumer):
    """A consumer that ignores its messages."""

    def message(self, message: api.CommandMessage, entry: bytes) -> None:
        return


class PartitionedFaults(Faults):
    """The faults of any cluster, with requests to change partitioned topics and their clients in between."""

    def __init__(self, *arguments: Any) -> None:
        self.topics = [Partitioned(TopicName.of("persistent", PARTED, f"parts-{number}")) for number in range(TOPICS)]
        self.outcomes: Counter[str] = Counter()
        self._names = 0
        super().__init__(*arguments)
        made = self.cluster.make_broker

        def make_broker(name: str, environment: Environment) -> Broker:
            return self._watched(made(name, environment))

        self.cluster.make_broker = make_broker  # type: ignore[method-assign]

    def change(self) -> None:
        """Add one more request, or client."""
        actions: dict[Callable[[], None], int] = {
            self._delete_topic: 4,
            self._delete_subscription: 20,
            self._create_subscription: 20,
            self._enlarge: 10,
            self._same_again: 8,
            self._produce: 15,
            self._consume: 30,
        }
        self._random.choices(list(actions), list(actions.values()))[0]()

    def _served(self) -> tuple[BrokerProcess, Bundle] | None:
        """Pick a bundle of either namespace, so that the partitions move as well."""
        by_node = {id(process.node): process for process in self.cluster.up()}
        choices = [
            (by_node[id(node)], term.bundle)
            for node, term in self.cluster.referee.serving()
            if id(node) in by_node and term.bundle.namespace in (NAMESPACE, PARTED)
        ]
        return self._random.choice(choices) if choices else None

    # ---- what must not be

    def _watched(self, broker: Broker) -> Broker:
        """Detect when a change without `force` deletes what a client is attached to."""
        owner = broker.partition_owner

        def watched(do: Callable[[TopicName, PartitionedChange], Awaitable[None]]) -> Any:
            async def done(part: TopicName, change: PartitionedChange) -> None:
                topic = broker.registry.get_loaded(part)
                if topic is not None and not change.force and (clients := _deleted_clients(topic, change)):
                    error = SimulationError("no client of it", f"{part} has {clients} clients, {change}")
                    self._loop.failures.append(error)
                    raise error
                await do(part, change)

            return done

        owner._done = {kind: watched(do) for kind, do in owner._done.items()}  # type: ignore[misc]
        return broker

    # ---- requests

    def _any_topic(self) -> Partitioned:
        return self._random.choice(self.topics)

    def _delete_topic(self) -> None:
        self._ask(self._any_topic(), Requested(ChangeKind.DELETE, force=self._random.random() < 0.2))

    def _delete_subscription(self) -> None:
        topic = self._any_topic()
        names = [name for name in topic.subscriptions if name != AUDIT]
        if names:
            name, force = self._random.choice(names[-3:]), self._random.random() < 0.3
            self._ask(topic, Requested(ChangeKind.DELETE_SUBSCRIPTION, subscription=name, force=force))

    def _create_subscription(self) -> None:
        self._names += 1
        self._ask(self._any_topic(), Requested(ChangeKind.CREATE_SUBSCRIPTION, subscription=f"sub-{self._names}"))

    def _enlarge(self) -> None:
        wanted = self._random.randint(PARTITIONS + 1, MOST_PARTITIONS)
        self._ask(self._any_topic(), Requested(ChangeKind.ENLARGE, partitions=wanted))

    def _same_again(self) -> None:
        """A client without an answer, or with an unreliable one, sends its request to another broker."""
        topic = self._any_topic()
        deletions = [each for each in topic.requested if each.kind is not ChangeKind.CREATE_SUBSCRIPTION]
        if deletions:
            last = deletions[-1]
            self._ask(topic, Requested(last.kind, last.subscription, last.partitions, last.force))

    def _ask(self, topic: Partitioned, wanted: Requested) -> None:
        if (process := self._any_up()) is not None:
            topic.requested.append(wanted)
            self._later(self.asked(process, topic, wanted), f"{wanted.kind.value} {topic.name}")

    async def asked(self, process: BrokerProcess, topic: Partitioned, wanted: Requested) -> None:
        """Let `process` carry out a request, and record the outcome."""
        task = process.node.spawn(_carried_out(process, topic.name, wanted), f"{wanted.kind.value} {topic.name}")
        task.add_done_callback(lambda each: each.cancelled() or each.exception(), context=contextvars.Context())
        await asyncio.wait([task, process.died], return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or task.cancelled():
            error: BaseException | None = TimeoutError()
        else:
            error = task.exception()
        match error:
            case None:
                wanted.outcome = Outcome.DONE
            case ChangeRefusedError() | ChangeBusyError():
                wanted.outcome = Outcome.REFUSED
            case ChangePendingError():
                # of another request's change, perhaps: then nothing is known of this one
                same = (error.change.kind, error.change.subscription, error.change.partitions)
                is_ours = same == (wanted.kind, wanted.subscription, wanted.partitions)
                wanted.outcome = Outcome.DECIDED if is_ours else Outcome.REFUSED
            case _ if isinstance(error, REFUSALS):
                wanted.outcome = Outcome.UNKNOWN
            case _:
                self._loop.failures.append(error)
        self.outcomes[f"{wanted.kind.value} {wanted.outcome.value}"] += 1

    # ---- clients

    def _visit(self, name: str, run: Callable[[SimClient], Coroutine[Any, Any, None]]) -> SimClient:
        self._names += 1
        client = SimClient(Node(self._loop, f"{name}-{self._names}"), self.cluster.service_urls, self._random)
        client.node.spawn(run(client), name)
        self._later(self._leave(client), f"end of {name}")
        return client

    async def _leave(self, client: SimClient) -> None:
        await asyncio.sleep(self._random.choice((0.3, 2.0, 6.0)) * self._random.random())
        client.node.crash()
        self.cluster.network.crashed(client.node)

    def _produce(self) -> None:
        """A producer attaches to a partition that had none, sends some messages, and leaves."""
        topic = self._any_topic()
        index = self._random.randrange(MOST_PARTITIONS)
        if index in topic.producers:
            return

        async def run(client: SimClient) -> None:
            producer = topic.producers[index] = NumberingProducer(client, str(topic.name.partition(index)))
            for _ in range(self._random.randint(1, 10)):
                producer.publish()
            await producer.run()

        self._visit("producer", run)

    def _consume(self) -> None:
        topic = self._any_topic()
        names = [name for name in topic.subscriptions if name != AUDIT]
        if names:
            part = str(topic.name.partition(self._random.randrange(PARTITIONS)))
            name = self._random.choice(names[-3:])
            self._visit("consumer", lambda client: Visitor(client, part, name).run())


def _deleted_clients(topic: Topic, change: PartitionedChange) -> int:
    """Return how many clients are attached to what the change deletes."""
    match change.kind:
        case ChangeKind.DELETE:
            return len(topic.producers) + topic.consumer_count
        case ChangeKind.DELETE_SUBSCRIPTION:
            return sum(each.subscription.name == change.subscription for each in topic.consumers())
        case _:
            return 0


async def _carried_out(process: BrokerProcess, topic: TopicName, wanted: Requested) -> None:
    changes = process.broker.changes
    match wanted.kind:
        case ChangeKind.DELETE:
            await changes.delete(topic, force=wanted.force)
        case ChangeKind.DELETE_SUBSCRIPTION:
            await changes.delete_subscription(topic, wanted.subscription, force=wanted.force)
        case ChangeKind.CREATE_SUBSCRIPTION:
            await changes.create_subscription(topic, wanted.subscription, (-1, -1))
        case ChangeKind.ENLARGE:
            await changes.enlarge(topic, wanted.partitions)


class PartitionedScenario(Scenario):
    """The scenario of any cluster, with partitioned topics in a namespace of their own."""

    _faults: PartitionedFaults

    async def _start_clients(self) -> None:
        backend = self.cluster.backend
        admin = backend.connect(SimClock(self._loop, 0), 3_600_000)
        bundles = BundlesData.from_bundles(NamespaceBundles.equal(PARTED, 1 + self._random.randrange(4)))
        policies = Policies(
            replication_clusters=("standalone",),
            bundles=bundles,
            auto_subscription_creation_override=AutoSubscriptionCreationOverride(False),
        )
        await admin.put(f"/admin/policies/{PARTED}", msgspec.json.encode(policies))
        for topic in self._faults.topics:
            record = PartitionedTopicMetadata(PARTITIONS)
            await admin.put(_record_path(topic.name), msgspec.json.encode(record))
        await admin.close()
        await asyncio.gather(*(self._create_audit(topic) for topic in self._faults.topics))
        await super()._start_clients()

    async def _create_audit(self, topic: Partitioned) -> None:
        wanted = Requested(ChangeKind.CREATE_SUBSCRIPTION, subscription=AUDIT)
        topic.requested.append(wanted)
        for _ in range(20):
            await self._faults.asked(self.cluster.processes[0], topic, wanted)
            if wanted.outcome is Outcome.DONE:
                return
            await asyncio.sleep(1)
        raise SimulationError("whole changes", f"{topic.name} gets no subscription in peace")

    async def _trouble(self) -> None:
        await asyncio.gather(super()._trouble(), self._changes())

    async def _changes(self) -> None:
        until = self._loop.time() + FAULTS_S
        while self._loop.time() < until:
            await asyncio.sleep(self._random.expovariate(CHANGES_PER_S))
            self._faults.change()

    async def _all_agree(self) -> None:
        await super()._all_agree()
        await self._settled()
        for topic in self._faults.topics:
            self._judge(topic)
        await self._audited()

    async def _settled(self) -> None:
        """Wait until no change is incomplete: the leader looks for remaining ones."""
        deadline = self._loop.time() + SETTLE_S
        while pending := [
            str(each.pending) for each in map(self._record, self._faults.topics) if each and each.pending
        ]:
            if self._loop.time() > deadline:
                raise SimulationError("whole changes", f"still under way: {'; '.join(pending)}")
            await asyncio.sleep(1)

    def _record(self, topic: Partitioned) -> PartitionedTopicMetadata | None:
        found = self.cluster.backend.keys.get(_record_path(topic.name), session=None)
        return None if found is None else msgspec.json.decode(found.value, type=PartitionedTopicMetadata)

    def _stored(self, topic: Partitioned, index: int) -> set[str] | None:
        """Return the subscriptions of a partition as the store has them, None if it does not exist."""
        path = f"/managed-ledgers/{topic.name.partition(index).persistence_name}"
        if self.cluster.backend.keys.get(path, session=None) is None:
            return None
        return set(self.cluster.backend.keys.children(path))

    def _judge(self, topic: Partitioned) -> None:
        record = self._record(topic)
        stored = [self._stored(topic, index) for index in range(MOST_PARTITIONS + 1)]
        may_be_gone = topic.outcomes(ChangeKind.DELETE) - {Outcome.REFUSED}
        if record is None:
            _demand(bool(may_be_gone), topic, "it is gone, and all requests to delete it were refused")
            _demand(
                not any(each is not None for each in stored), topic, f"it is deleted, and partitions are left: {stored}"
            )
            return
        has_to_be_gone = may_be_gone & {Outcome.DONE, Outcome.DECIDED}
        _demand(
            not has_to_be_gone and not record.deleted, topic, f"it is there, though a deletion was {has_to_be_gone}"
        )
        asked = [each for each in topic.requested if each.kind is ChangeKind.ENLARGE]
        possible = {PARTITIONS} | {each.partitions for each in asked if each.outcome is not Outcome.REFUSED}
        least = max((each.partitions for each in asked if each.outcome in (Outcome.DONE, Outcome.DECIDED)), default=0)
        _demand(record.partitions in possible and record.partitions >= least, topic, f"it has {record.partitions}")
        for name in topic.subscriptions:
            self._judge_subscription(
                topic, name, [each is not None and name in each for each in stored[: record.partitions]]
            )

    def _judge_subscription(self, topic: Partitioned, name: str, found: list[bool]) -> None:
        created = topic.outcomes(ChangeKind.CREATE_SUBSCRIPTION, name)
        deleted = topic.outcomes(ChangeKind.DELETE_SUBSCRIPTION, name)
        sure = {Outcome.DONE, Outcome.DECIDED}
        _demand(all(found) or not any(found), topic, f"{name} is at partitions {found}")
        _demand(not any(found) or bool(created - {Outcome.REFUSED}), topic, f"{name} was refused and is there")
        if created & sure and not deleted - {Outcome.REFUSED}:
            _demand(all(found), topic, f"{name} was created and is not there")

    async def _audited(self) -> None:
        """A new consumer reads every message that an existing topic acknowledged."""
        client = SimClient(Node(self._loop, "auditor"), self.cluster.service_urls, self._random)
        auditors: list[tuple[CheckingConsumer, NumberingProducer]] = []
        for topic in self._faults.topics:
            record = self._record(topic)
            for index, producer in topic.producers.items() if record is not None else ():
                if record is not None and index < record.partitions and producer.acknowledged:
                    auditor = CheckingConsumer(client, producer.topic, AUDIT)
                    auditors.append((auditor, producer))
                    client.node.spawn(auditor.run(), f"audit {producer.topic}")
        deadline = self._loop.time() + SETTLE_S
        while late := [each for each in auditors if each[0].received < each[1].acknowledged]:
            if self._loop.time() > deadline:
                missing = "; ".join(
                    f"{one.topic}: received {one.received} ({one.state}) of {other.acknowledged}" for one, other in late
                )
                raise SimulationError("every message arrives", missing)
            await asyncio.sleep(0.2)
        client.node.crash()
        self.cluster.network.crashed(client.node)


def _demand(holds: bool, topic: Partitioned, otherwise: str) -> None:
    if not holds:
        asked = [
            f"{each.kind.value} {each.subscription or each.partitions}: {each.outcome.value}"
            for each in topic.requested
        ]
        raise SimulationError("whole changes", f"{topic.name}: {otherwise}; asked: {asked}")


def _record_path(topic: TopicName) -> str:
    return f"/admin/partitioned-topics/{topic.persistence_name}"


@dataclass(frozen=True, slots=True)
class ChangesVerdict:
    cluster: Verdict
    outcomes: dict[str, int]


def run_changes(
    seed: int,
    *,
    settings: Settings | None = None,
    lines: list[str] | None = None,
    faults: tuple[str, ...] | None = None,
) -> ChangesVerdict:
    """Play the history of `seed`; collect the brokers' events in `lines` if it is given.

    Raises:
        SimulationError: a check failed.
    """
    loop = VirtualTimeLoop()  # type: ignore[abstract]
    scenario = PartitionedScenario(loop, seed, settings, faults, PartitionedFaults)
    verdict = played(loop, scenario, lines)
    return ChangesVerdict(verdict, dict(scenario._faults.outcomes))
