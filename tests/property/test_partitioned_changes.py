"""Coordinators that are interrupted at any step, in any order, and owners that refuse: each change is complete, or
absent.

The coordinators and the records are the brokers' own, on a store in memory. The owners are a model: they agree or
refuse by their clients, keep clients out by the record, and fail on request.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata, Policies
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.broker.partition_changes.change_records import CHANGES_ROOT
from pulsar_barycenter.broker.partition_changes.coordinator import ChangeCoordinator
from pulsar_barycenter.broker.partition_changes.errors import PartitionedChangeError
from pulsar_barycenter.broker.partition_changes.partition_owner import PartRequest, Step
from pulsar_barycenter.broker.partition_changes.plan import PartAnswer, Willingness
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.topic import TopicName
from support.short_forms import examples
from support.simulation.loop import VirtualTimeLoop
from support.virtual_time import LoopClock

TOPIC = TopicName.parse("persistent://public/ns/x")
PARTITIONS = 3
NAMES = ("a", "b")

requests = st.tuples(
    st.sampled_from(["delete", "delete subscription", "create subscription", "enlarge"]),
    st.sampled_from(NAMES),
    st.integers(1, 18),  # after so many steps the coordinator's process ends; a deletion takes twelve
)
actions = st.one_of(
    requests,
    st.tuples(st.just("attach"), st.sampled_from(NAMES), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("detach"), st.sampled_from(NAMES), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("fail"), st.sampled_from(NAMES), st.integers(0, PARTITIONS + 1)),
)


class ProcessEndedError(BaseException):
    """The error that interrupts a coordinator."""


@dataclass
class Life:
    """The number of steps that remain for a coordinator's process."""

    steps_left: int = 1_000_000

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left <= 0:
            raise ProcessEndedError


@dataclass
class Parts:
    """The partitions, as their owners have them: subscriptions, and the number of clients of each."""

    subscriptions: dict[int, set[str]] = field(default_factory=dict)
    clients: Counter[tuple[int, str]] = field(default_factory=Counter)
    failing: set[int] = field(default_factory=set)
    lost_clients: list[str] = field(default_factory=list)

    def attach(self, index: int, name: str, pending: PartitionedChange | None) -> None:
        held = pending is not None and pending.blocks_subscription(name)
        if not held and name in self.subscriptions.get(index, ()):
            self.clients[index, name] += 1

    def answer(self, index: int, step: Step, change: PartitionedChange) -> PartAnswer:
        mine = self.subscriptions.get(index)
        used = [key for key, count in self.clients.items() if count and key[0] == index]
        match change.kind, step:
            case ChangeKind.DELETE, Step.ASK:
                refused = bool(used)
                return PartAnswer(Willingness.REFUSED, 412, "used") if refused else PartAnswer(Willingness.WILLING)
            case ChangeKind.DELETE_SUBSCRIPTION, Step.ASK:
                if (index, change.subscription) in used:
                    return PartAnswer(Willingness.REFUSED, 412, "used")
                has = mine is not None and change.subscription in mine
                return PartAnswer(Willingness.WILLING if has else Willingness.DONE)
            case ChangeKind.CREATE_SUBSCRIPTION, Step.ASK:
                has = mine is not None and change.subscription in mine
                return PartAnswer(Willingness.DONE if has else Willingness.WILLING)
            case ChangeKind.ENLARGE, Step.ASK:
                return PartAnswer(Willingness.WILLING, subscriptions=tuple(sorted(mine or ())) if index == 0 else ())
            case ChangeKind.DELETE, _:
                self.lost_clients += map(str, used)
                self.subscriptions.pop(index, None)
            case ChangeKind.DELETE_SUBSCRIPTION, _:
                self.lost_clients += [str(key) for key in used if key == (index, change.subscription)]
                self.subscriptions.get(index, set()).discard(change.subscription)
            case ChangeKind.CREATE_SUBSCRIPTION, _:
                self.subscriptions.setdefault(index, set()).add(change.subscription)
            case _:
                self.subscriptions.setdefault(index, set()).update(change.subscriptions)
        return PartAnswer(Willingness.DONE)


class World:
    def __init__(self) -> None:
        self.store = MemoryBackend().connect(LoopClock(), 30_000)
        self.resources = Resources(self.store, ConfigHolder(BrokerConfig()))
        self.parts = Parts({index: {NAMES[0]} for index in range(PARTITIONS)})
        self.ids = 0
        self.refused_with_changes: list[str] = []
        self.without_schemas: list[TopicName] = []

    async def start(self) -> None:
        await self.resources.namespaces.create("public/ns", Policies())
        await self.resources.partitioned_topics.create(TOPIC.persistence_name, PartitionedTopicMetadata(PARTITIONS))

    def coordinator(self, life: Life) -> ChangeCoordinator:
        """Return the coordinator of another process, which is no longer registered once it has ended."""
        self.ids += 1
        name = f"broker-{self.ids}"
        owner = partial(self._owner, life)
        return ChangeCoordinator(
            self.resources,
            owner,
            broker=lambda: name,
            registered=lambda: [name],
            new_id=self._new_id,
            forget_schemas=self._forget_schemas,
        )

    async def _forget_schemas(self, topic: TopicName) -> None:
        self.without_schemas.append(topic)

    def _new_id(self) -> str:
        self.ids += 1
        return f"change-{self.ids}"

    async def _owner(self, life: Life, request: bytes) -> bytes:
        life.step()
        wanted = msgspec.json.decode(request, type=PartRequest)
        index = TopicName.parse(wanted.topic).partition_index
        await asyncio.sleep(0)
        if index in self.parts.failing:
            raise ConnectionRefusedError(f"partition {index}")
        pending = await self.resources.pending_change(TopicName.parse(wanted.topic))
        if pending is None or pending.id != wanted.id:
            return msgspec.json.encode(PartAnswer(Willingness.UNKNOWN))
        assert wanted.step is Step.ASK or pending.phase is ChangePhase.DOING, "done before it was decided"
        answer = self.parts.answer(index, wanted.step, pending)
        life.step()  # it may be done, and its answer be lost
        return msgspec.json.encode(answer)

    async def request(self, what: str, name: str, steps: int) -> None:
        coordinator = self.coordinator(Life(steps))
        before = await self.seen()
        try:
            match what:
                case "delete":
                    await coordinator.delete(TOPIC, force=False)
                case "delete subscription":
                    await coordinator.delete_subscription(TOPIC, name, force=False)
                case "create subscription":
                    await coordinator.create_subscription(TOPIC, name, (-1, -1))
                case _:
                    await coordinator.enlarge(TOPIC, PARTITIONS + 2)
        except PartitionedChangeError as error:
            if "othing was changed" in str(error) and before[0] is not None and before[0].pending is None:
                after = await self.seen()
                if after != before:
                    self.refused_with_changes.append(f"{error}: {before} and {after}")

    async def seen(self) -> tuple[PartitionedTopicMetadata | None, dict[int, set[str]]]:
        record = await self.resources.partitioned_metadata(TOPIC, fresh=True)
        return record, {index: set(names) for index, names in self.parts.subscriptions.items()}

    async def act(self, what: str, name: str, number: int) -> None:
        record = await self.resources.partitioned_metadata(TOPIC, fresh=True)
        match what:
            case "attach":
                self.parts.attach(number, name, None if record is None else record.pending)
            case "detach":
                self.parts.clients[number, name] = max(0, self.parts.clients[number, name] - 1)
            case "fail":
                self.parts.failing ^= {number}
            case _:
                with suppress(ProcessEndedError):
                    await self.request(what, name, number)

    async def settle(self) -> None:
        """Another broker becomes leader, and no owner fails any more."""
        self.parts.failing.clear()
        leader = self.coordinator(Life())
        for _ in range(20):
            await leader.sweep(is_leader=True)
            if not await self.store.children(CHANGES_ROOT):
                return
            await asyncio.sleep(30)
        raise AssertionError(f"still listed: {await self.store.children(CHANGES_ROOT)}")

    async def check(self) -> None:
        record, parts = await self.seen()
        assert not self.parts.lost_clients
        assert not self.refused_with_changes
        if record is None:
            assert parts == {}
            return
        assert record.pending is None
        assert not record.deleted
        assert sorted(parts) == list(range(record.partitions))
        assert all(names == parts[0] for names in parts.values())


async def play(history: list[tuple[str, str, int]]) -> None:
    world = World()
    await world.start()
    for what, name, number in history:
        await world.act(what, name, number)
    await world.settle()
    await world.check()


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(actions, max_size=14))
@example([("delete", "a", 7), ("attach", "a", 2)])
@example([("delete subscription", "a", 8), ("attach", "a", 1), ("detach", "a", 1), ("attach", "a", 1)])
def test_a_change_is_whole_when_coordinators_end_and_owners_refuse(
    history: list[tuple[str, str, int]],
) -> None:
    """And no client loses what it uses to a change that all owners agreed to."""
    loop = VirtualTimeLoop()  # type: ignore[abstract]
    try:
        loop.run_until_complete(play(history))
    finally:
        loop.tear_down()
        loop.close()
