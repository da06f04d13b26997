"""What a change of a partitioned topic comes to, without I/O: which owners are asked, what their answers mean."""

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
"""After so many seconds in one phase a change is taken over from a broker that is still registered: more than the
owners of MAX_PARTITIONS may take."""
LONGEST_SUBSCRIPTIONS: Final = 262_144
"""Most characters of all names and properties of subscriptions together that new partitions get: they are kept in the
topic's record."""


class Willingness(enum.Enum):
    WILLING = "willing"
    """The partition can be changed."""
    DONE = "done"
    """The partition is already as the change wants it."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The owner does not know of the change: it is over, or its session with the store lags behind."""


class PartAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of a partition's owner: `status` and `reason` of a refusal, `subscriptions` of partition 0, and the
    properties of those that have some."""

    willingness: Willingness
    status: int = 0
    reason: str = ""
    subscriptions: tuple[str, ...] = ()
    subscription_properties: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Silence:
    """The owner of a partition did not answer; `reason` says how."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change is not made: an HTTP status and a text."""

    status: int
    reason: str


def parts_to_ask(change: PartitionedChange, count: int) -> range:
    """Return the partitions whose owners are asked, of a topic that has `count`."""
    return range(max(count, change.partitions))


def parts_to_do(change: PartitionedChange, count: int) -> range:
    """Return the partitions that change."""
    return range(count, change.partitions) if change.kind is ChangeKind.ENLARGE else range(count)


def decide(
    topic: TopicName, change: PartitionedChange, answers: Mapping[int, PartAnswer | Silence]
) -> PartitionedChange | Refusal:
    """Return the decided change if every owner agrees, else why not; of several reasons that of the first partition."""
    for index, answer in sorted(answers.items()):
        part = topic.partition(index)
        if isinstance(answer, Silence):
            return Refusal(
                503, f"The owner of {part} did not answer, so nothing was changed: {answer.reason}. Try again."
            )
        if answer.willingness is Willingness.REFUSED:
            return Refusal(answer.status, f"Nothing was changed, as {part} refused: {answer.reason}")
        if answer.willingness is Willingness.UNKNOWN:
            return Refusal(503, f"Change {change.id} of {topic} took too long and was undone. Try again.")
    is_done = all(isinstance(each, PartAnswer) and each.willingness is Willingness.DONE for each in answers.values())
    if is_done and change.kind is ChangeKind.CREATE_SUBSCRIPTION:
        return Refusal(409, f"Subscription {change.subscription!r} already exists for topic {topic}")
    if is_done and change.kind is ChangeKind.DELETE_SUBSCRIPTION:
        return Refusal(404, f"Subscription {change.subscription!r} of topic {topic} does not exist")
    said = [each for each in answers.values() if isinstance(each, PartAnswer)]
    names = tuple(sorted(set(chain.from_iterable(each.subscriptions for each in said))))
    properties = dict(chain.from_iterable(each.subscription_properties.items() for each in said))
    length = sum(map(len, names)) + sum(
        len(key) + len(value) for each in properties.values() for key, value in each.items()
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
    """Return the record while the partitions change; Pulsar's mark is set on a topic that is being deleted."""
    return replace(record, change=change, deleted=record.deleted or change.kind is ChangeKind.DELETE)


def undone(record: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
    return replace(record, change=UNSET)


def completed(record: PartitionedTopicMetadata, change: PartitionedChange) -> PartitionedTopicMetadata | None:
    """Return the record after the change, None if the topic is gone."""
    if change.kind is ChangeKind.DELETE:
        return None
    return replace(record, partitions=max(record.partitions, change.partitions), change=UNSET)


def is_abandoned(
    change: PartitionedChange, *, broker: str, running: bool, registered: frozenset[str], unchanged_s: float
) -> bool:
    """Tell whether another broker than its requester has to complete or undo a change, as `broker` sees it.

    `running`: this broker carries it out now; `unchanged_s`: for how long this broker has seen it in its phase.
    """
    if running:
        return False
    if change.requester == broker or change.requester not in registered:
        return True
    return unchanged_s >= ABANDONED_S
