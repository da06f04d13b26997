"""Decides about a change of a partitioned topic, without I/O: which owners are asked, and what their answers mean."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.naming.topic import TopicName

ABANDONED_S: Final = 300.0
"""The number of seconds in one phase after which other brokers take over a change from a broker that is still
registered. It is longer than the owners of MAX_PARTITIONS may take.
"""
LONGEST_SUBSCRIPTIONS: Final = 262_144
"""The maximum number of characters of the names and properties of all subscriptions that new partitions get. The
topic's record contains them.
"""


class Willingness(enum.Enum):
    WILLING = "willing"
    """The partition can be changed."""
    DONE = "done"
    """The partition is already in the state that the change makes."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The owner does not know the change: the change has ended, or the owner has not received it from the store yet."""


class PartAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of a partition's owner to a request about a change. `status` (HTTP) and `reason` are only set in a
    refusal. `subscriptions` and `subscription_properties` are only set by the owner of partition 0, if the change adds
    partitions: the new ones get these subscriptions.
    """

    willingness: Willingness
    status: int = 0
    reason: str = ""
    subscriptions: tuple[str, ...] = ()
    subscription_properties: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Silence:
    """Used instead of an answer: the owner of a partition could not be reached, or did not answer in time. `reason`
    says why.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The decision that a change is not made: an HTTP status, and the reason as text."""

    status: int
    reason: str


def parts_to_ask(change: PartitionedChange, count: int) -> range:
    """Return the indexes of the partitions whose owners are asked whether they agree, including partitions that the
    change adds. The topic has `count` partitions before the change.
    """
    return range(max(count, change.partitions))


def parts_to_do(change: PartitionedChange, count: int) -> range:
    """Return the indexes of the partitions whose owners have to make the change: only the new ones if the change adds
    partitions, else all. The topic has `count` partitions before the change.
    """
    return range(count, change.partitions) if change.kind is ChangeKind.ENLARGE else range(count)


def decide(
    topic: TopicName, change: PartitionedChange, answers: Mapping[int, PartAnswer | Silence]
) -> PartitionedChange | Refusal:
    """Return `change` with the phase DOING if every owner agrees. Otherwise return a refusal, with the reason of the
    first partition, by index, that refused or whose owner did not answer. `answers` are by index of the partition.
    """
    for index, answer in sorted(answers.items()):
        part = topic.partition(index)
        if isinstance(answer, Silence):
            return Refusal(
                503, f"The owner of {part} did not answer, so nothing was changed: {answer.reason}. Try again."
            )
        if answer.willingness is Willingness.REFUSED:
            return Refusal(answer.status, f"Nothing was changed, because {part} refused: {answer.reason}")
        if answer.willingness is Willingness.UNKNOWN:
            return Refusal(
                503, f"Change {change.id} of {topic} took too long and was undone. Nothing was changed. Try again."
            )
    is_done = all(
        isinstance(answer, PartAnswer) and answer.willingness is Willingness.DONE for answer in answers.values()
    )
    if is_done and change.kind is ChangeKind.CREATE_SUBSCRIPTION:
        return Refusal(409, f"Subscription {change.subscription!r} already exists for topic {topic}")
    if is_done and change.kind is ChangeKind.DELETE_SUBSCRIPTION:
        return Refusal(404, f"Subscription {change.subscription!r} of topic {topic} does not exist")
    given = [answer for answer in answers.values() if isinstance(answer, PartAnswer)]
    names = tuple(sorted(set(chain.from_iterable(answer.subscriptions for answer in given))))
    properties = dict(chain.from_iterable(answer.subscription_properties.items() for answer in given))
    length = sum(map(len, names)) + sum(
        len(key) + len(value) for of_subscription in properties.values() for key, value in of_subscription.items()
    )
    if length > LONGEST_SUBSCRIPTIONS:
        return Refusal(
            412,
            f"The names and properties of the subscriptions of {topic.partition(0)} have {length} characters together; "
            f"new partitions can get up to {LONGEST_SUBSCRIPTIONS}. Delete subscriptions or properties first.",
        )
    return replace(change, phase=ChangePhase.DOING, subscriptions=names, subscription_properties=properties)


def begun(record: PartitionedTopicMetadata, change: PartitionedChange) -> PartitionedTopicMetadata:
    return replace(record, change=change)


def decided(record: PartitionedTopicMetadata, change: PartitionedChange) -> PartitionedTopicMetadata:
    """Return the topic's record with `change`, which is decided, for the time until all partitions are changed. If the
    topic is being deleted, Pulsar's field `deleted` is set.
    """
    return replace(record, change=change, deleted=record.deleted or change.kind is ChangeKind.DELETE)


def undone(record: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
    return replace(record, change=UNSET)


def completed(record: PartitionedTopicMetadata, change: PartitionedChange) -> PartitionedTopicMetadata | None:
    """Return the topic's record without `change`, after all partitions were changed; None if the change deletes the
    topic, so that its record has to be deleted.
    """
    if change.kind is ChangeKind.DELETE:
        return None
    return replace(record, partitions=max(record.partitions, change.partitions), change=UNSET)


def is_abandoned(
    change: PartitionedChange, *, broker: str, running: bool, registered: frozenset[str], unchanged_s: float
) -> bool:
    """Return whether `broker` may complete or undo `change`, because the broker that began it does not work on it any
    more.

    `running`: `broker` itself is carrying the change out now. `registered` are the ids of all running brokers.
    `unchanged_s`: for how many seconds `broker` has seen the change in its present phase.
    """
    if running:
        return False
    if change.requester == broker or change.requester not in registered:
        return True
    return unchanged_s >= ABANDONED_S
