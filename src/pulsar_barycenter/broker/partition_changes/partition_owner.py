"""What the owner of a partition does in a change of a partitioned topic: it answers whether its partition can be
changed, and changes it.

The owner reads the change from the topic's record; a request only has its id. When it agrees, it refuses clients that
would invalidate the answer: the flag for this is set in the same step in which clients are counted.

Requests about a partition are answered one after the other, and each reads the record first. So a request that arrives
late has no effect: its change has ended, and is not in the record any more.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from pulsar_barycenter.broker.errors import (
    NotAllowedError,
    ServiceError,
    SubscriptionBusyError,
    SubscriptionNotFoundError,
    TooManySubscriptionsError,
    TopicBusyError,
    TopicFencedError,
    TopicNotFoundError,
)
from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.broker.partition_changes.plan import PartAnswer, Willingness
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.topic import TopicName


class Step(enum.Enum):
    ASK = "ask"
    DO = "do"


class PartRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to the owner of the partition `topic`: `id` identifies a change of the partitioned topic, and `step`
    says what to do: answer whether the partition can be changed, or change it.
    """

    topic: str
    id: str
    step: Step


_WILLING: Final = PartAnswer(Willingness.WILLING)
_DONE: Final = PartAnswer(Willingness.DONE)
_UNKNOWN: Final = PartAnswer(Willingness.UNKNOWN)

_REFUSALS: Final[tuple[tuple[type[ServiceError], int], ...]] = (
    (TopicBusyError, 412),
    (SubscriptionBusyError, 412),
    (TooManySubscriptionsError, 412),
    (NotAllowedError, 405),
    (TopicNotFoundError, 404),
)
"""The errors with which an owner refuses a change, and their HTTP statuses; after any other error the owner is asked
again.
"""


class PartitionOwner:
    def __init__(self, registry: TopicRegistry, resources: Resources) -> None:
        self._registry = registry
        self._resources = resources
        self._turns: WeakValueDictionary[TopicName, asyncio.Lock] = WeakValueDictionary()
        self._asked: Final[Mapping[ChangeKind, Callable[[TopicName, PartitionedChange], Awaitable[PartAnswer]]]] = {
            ChangeKind.DELETE: self._may_delete,
            ChangeKind.CREATE_SUBSCRIPTION: self._may_create_subscription,
            ChangeKind.DELETE_SUBSCRIPTION: self._may_delete_subscription,
            ChangeKind.ENLARGE: self._may_enlarge,
        }
        self._done: Final[Mapping[ChangeKind, Callable[[TopicName, PartitionedChange], Awaitable[None]]]] = {
            ChangeKind.DELETE: self._delete,
            ChangeKind.CREATE_SUBSCRIPTION: self._create_subscription,
            ChangeKind.DELETE_SUBSCRIPTION: self._delete_subscription,
            ChangeKind.ENLARGE: self._enlarge,
        }

    async def answer(self, part: TopicName, request: PartRequest) -> PartAnswer:
        """Carry out a request of the broker that coordinates a change, and return the answer. The same request may come
        several times.

        Raises:
            NotServedError, TopicFencedError: this broker does not serve the partition now.
            ServiceError, LedgerError, MetadataError: the partition could not be changed or read.
        """
        turn = self._turns.setdefault(part, asyncio.Lock())
        async with turn:
            change = await self._resources.pending_change(part)
            if change is None or change.id != request.id:
                return _UNKNOWN
            if request.step is Step.ASK:
                return await self._ask(part, change)
            if change.phase is not ChangePhase.DOING:
                return _UNKNOWN
            await self._done[change.kind](part, change)
            return _DONE

    async def _ask(self, part: TopicName, change: PartitionedChange) -> PartAnswer:
        try:
            return await self._asked[change.kind](part, change)
        except TopicFencedError:
            raise
        except ServiceError as error:
            for kind, status in _REFUSALS:
                if isinstance(error, kind):
                    return PartAnswer(Willingness.REFUSED, status, str(error))
            raise

    async def _held(self, part: TopicName, change: PartitionedChange) -> Topic | None:
        """Return the partition, None if it does not exist. From now on until the change ends, the partition refuses
        clients that would make the change impossible, for example new consumers of a topic that is being deleted.

        A non-persistent partition only exists in memory. If it does not exist, it is created, because a client may be
        about to use it.

        Raises:
            TopicFencedError: the partition is being closed.
        """
        try:
            found = await self._registry.get_or_create(part, create=False)
        except TopicNotFoundError:
            return None
        if found.state is not TopicState.OPEN:
            raise TopicFencedError(part, "the partition is being closed")
        found.change = change
        return found

    # ---- answers ----

    async def _may_delete(self, part: TopicName, change: PartitionedChange) -> PartAnswer:
        found = await self._held(part, change)
        if found is None:
            return _DONE
        found.check_deletable(force=change.force)
        return _WILLING

    async def _may_create_subscription(self, part: TopicName, change: PartitionedChange) -> PartAnswer:
        found = await self._held(part, change)
        if found is None:
            if not await self._resources.may_create(part):
                raise TopicNotFoundError(part)
            return _WILLING
        if not isinstance(found, PersistentTopic):
            raise NotAllowedError(
                f"Topic {part} is not persistent, so it has no subscriptions without "
                "consumers: connect a consumer, which creates its subscription"
            )
        if change.subscription in found.subscriptions:
            return _DONE
        await found.check_subscription_allowed(change.subscription)
        return _WILLING

    async def _may_delete_subscription(self, part: TopicName, change: PartitionedChange) -> PartAnswer:
        found = await self._held(part, change)
        if found is None:
            return _DONE
        try:
            found.check_subscription_deletable(change.subscription, force=change.force)
        except SubscriptionNotFoundError:
            return _DONE
        return _WILLING

    async def _may_enlarge(self, part: TopicName, change: PartitionedChange) -> PartAnswer:
        if part.partition_index > 0:
            return _WILLING
        found = await self._held(part, change)
        if not isinstance(found, PersistentTopic):
            return _WILLING
        kept = {
            name: dict(subscription.cursor.properties)
            for name, subscription in found.subscriptions.items()
            if subscription.is_durable and name != COMPACTION_CURSOR
        }
        return PartAnswer(
            Willingness.WILLING,
            subscriptions=tuple(sorted(kept)),
            subscription_properties={name: properties for name, properties in kept.items() if properties},
        )

    # ---- decided changes ----

    async def _delete(self, part: TopicName, change: PartitionedChange) -> None:
        found = await self._held(part, change)
        if found is not None:
            await self._registry.delete_loaded(found, force=True)

    async def _create_subscription(self, part: TopicName, change: PartitionedChange) -> None:
        start = Position(*change.position)
        await self._make_subscription(part, change.subscription, start, change.properties)

    async def _delete_subscription(self, part: TopicName, change: PartitionedChange) -> None:
        found = await self._held(part, change)
        if found is not None:
            try:
                await found.delete_subscription(change.subscription, force=True)
            except SubscriptionNotFoundError:
                return

    async def _enlarge(self, part: TopicName, change: PartitionedChange) -> None:
        await self._registry.create(part)
        for name in change.subscriptions:
            await self._make_subscription(part, name, EARLIEST, change.subscription_properties.get(name))

    async def _make_subscription(
        self, part: TopicName, name: str, start: Position, properties: Mapping[str, str] | None
    ) -> None:
        topic = await self._registry.create(part)
        if not isinstance(topic, PersistentTopic):
            raise NotAllowedError(
                f"Topic {part} is not persistent, so it has no subscriptions without "
                "consumers: connect a consumer, which creates its subscription"
            )
        async with topic.lock:
            if name not in topic.subscriptions:
                await topic.make_subscription(name, start, None if properties is None else dict(properties))
