"""A change of a partitioned topic. The topic's record contains it until all partitions have made the change.

The partitions have different owners, so the change has two phases. ASKING: the owners are asked whether they agree; any
broker may undo the change. DOING: all have agreed; the change is always completed. See `partition_changes`.

The record of the topic has the change in a field of its own. So a compare-and-set of this one record begins, decides
and ends the change. Pulsar's brokers ignore the field. Source: the mark `deleted` of Pulsar's
`PartitionedTopicMetadata`.
"""

import enum

import msgspec


class ChangeKind(enum.Enum):
    DELETE = "delete"
    """Delete the topic with all its partitions."""
    CREATE_SUBSCRIPTION = "create-subscription"
    DELETE_SUBSCRIPTION = "delete-subscription"
    ENLARGE = "enlarge"
    """Add partitions; each gets the subscriptions of partition 0."""


class ChangePhase(enum.Enum):
    ASKING = "asking"
    """Nothing has changed; the owners of the partitions are asked whether they agree."""
    DOING = "doing"
    """All owners agreed. Some partitions may have changed, and all will."""


class PartitionedChange(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change of a partitioned topic and of all its partitions. `id` is unique; `requester` is the id of the broker
    that began the change.

    Which fields are set depends on `kind`. A change of a subscription has `subscription` (the name), `position`
    (ledger, entry) and `properties`. A change that adds partitions has `partitions`, the number of partitions
    afterwards, and, for the new partitions, `subscriptions`, the names of their subscriptions, and
    `subscription_properties`, the properties of those subscriptions that have any.
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
        """Whether producers and consumers must not attach to a partition while this change is in progress."""
        return self.kind is ChangeKind.DELETE

    def blocks_subscription(self, name: str) -> bool:
        """Return whether, while this change is in progress, consumers must not attach to the subscription `name`, and
        clients must not create it.
        """
        return self.blocks_clients or (self.kind is ChangeKind.DELETE_SUBSCRIPTION and name == self.subscription)

    def has_purpose_of(self, other: "PartitionedChange") -> bool:
        """Return whether this change and `other` would have the same effect on the topic."""
        return (self.kind, self.subscription, self.partitions) == (other.kind, other.subscription, other.partitions)

    def __str__(self) -> str:
        about = f" of {self.subscription!r}" if self.subscription else ""
        return f"{self.kind.value}{about} ({self.phase.value}, change {self.id} by broker {self.requester})"
