"""How a request to change a partitioned topic fails.

PartitionedChangeError
├── ChangeRefusedError   nothing has changed
├── ChangeBusyError      another change of the topic is under way; nothing has changed
└── ChangePendingError   it is decided, and some partitions have not changed yet; the cluster completes it
"""

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.naming.topic import TopicName


class PartitionedChangeError(Exception):
    """`status` is the HTTP status to answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ChangeRefusedError(PartitionedChangeError):
    pass


class ChangeBusyError(PartitionedChangeError):
    def __init__(self, topic: TopicName, pending: PartitionedChange) -> None:
        super().__init__(409, f"Another change of {topic} is under way: {pending}. Nothing was changed. Try again.")
        self.pending = pending


class ChangePendingError(PartitionedChangeError):
    def __init__(self, topic: TopicName, change: PartitionedChange, reason: str) -> None:
        super().__init__(
            503,
            f"The change of {topic} is decided and not complete: {change}: {reason}. "
            "The cluster completes it; send the request again to learn when it is.",
        )
        self.change = change
