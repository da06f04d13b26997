"""The errors of a request to change a partitioned topic.

PartitionedChangeError
├── ChangeRefusedError   nothing has changed
├── ChangeBusyError      another change of the topic is in progress; nothing has changed
└── ChangePendingError   it is decided, but some partitions have not changed yet; the cluster completes it
"""

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.naming.topic import TopicName


class PartitionedChangeError(Exception):
    """A request to change a partitioned topic failed. `status` is the HTTP status of the answer to the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ChangeRefusedError(PartitionedChangeError):
    pass


class ChangeBusyError(PartitionedChangeError):
    def __init__(self, topic: TopicName, pending: PartitionedChange) -> None:
        super().__init__(409, f"Another change of {topic} is in progress: {pending}. Nothing was changed. Try again.")
        self.pending = pending


class ChangePendingError(PartitionedChangeError):
    def __init__(self, topic: TopicName, change: PartitionedChange, reason: str) -> None:
        super().__init__(
            503,
            f"The change of {topic} is decided but not complete: {change}: {reason}. "
            "The cluster completes it; to check whether it is complete, send the request again.",
        )
        self.change = change
