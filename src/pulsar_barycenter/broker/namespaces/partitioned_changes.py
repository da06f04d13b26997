"""A change of a partitioned topic that several brokers carry out, as the topic's record keeps it until it is done.

The owners of the partitions are asked first (ASKING); when all agree, the change is decided (DOING). A change that is
DOING is always completed, one that is ASKING may be undone by any broker. See `partition_changes`.

The record of the topic has the change in a field of its own, so a compare-and-set of that one record begins, decides
and ends it. Pulsar's brokers ignore the field. Source: the mark `deleted` of Pulsar's `PartitionedTopicMetadata`.
"""

import enum

import msgspec


class ChangeKind(enum.Enum):
    DELETE = "delete"
    """The topic with its partitions."""
    CREATE_SUBSCRIPTION = "create-subscription"
    DELETE_SUBSCRIPTION = "delete-subscription"
    ENLARGE = "enlarge"
    """More partitions, each with the subscriptions of partition 0."""


class ChangePhase(enum.Enum):
    ASKING = "asking"
    """Nothing has changed; the owners of the partitions are asked whether they agree."""
    DOING = "doing"
    """All owners agreed. Some partitions may have changed, and all will."""


class PartitionedChange(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`id` is unique; `requester` is the id of the broker that began the change.

    `subscription`, `position` (ledger, entry) and `properties` are those of a subscription; `partitions` is the new
    number of partitions, `subscriptions` are the names that the new ones get, `subscription_properties` the properties
    of those that have some.
    """

    id: str
    kind: ChangeKind
    phase: ChangePhase
    requester: str
    force: bool = False
    subscription: str = ""
    position: tuple[int, int] = (-1, -1)
    properties: dict[str, str] | None = None
    partitions: int = 0
    subscriptions: tuple[str, ...] = ()
    subscription_properties: dict[str, dict[str, str]] = {}

    @property
    def blocks_clients(self) -> bool:
        """Whether no producer and no consumer may attach to a partition."""
        return self.kind is ChangeKind.DELETE

    def blocks_subscription(self, name: str) -> bool:
        """Whether no consumer may attach to the subscription, and nobody may create it."""
        return self.blocks_clients or (self.kind is ChangeKind.DELETE_SUBSCRIPTION and name == self.subscription)

    def has_purpose_of(self, other: "PartitionedChange") -> bool:
        """Whether completing this change does what `other` asks for."""
        return (self.kind, self.subscription, self.partitions) == (other.kind, other.subscription, other.partitions)

    def __str__(self) -> str:
        about = f" of {self.subscription!r}" if self.subscription else ""
        return f"{self.kind.value}{about} ({self.phase.value}, change {self.id} by broker {self.requester})"
