"""What topics and connections know about ownership: whether a topic may be served on this broker, and under which
epoch.
"""

from dataclasses import dataclass, field
from typing import Protocol

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName


class NotServedError(Exception):
    """This broker does not own the topic's bundle, or does not serve it now; the client must look the topic up
    again.
    """

    def __init__(self, topic: TopicName, detail: str) -> None:
        super().__init__(
            f"Namespace bundle for topic ({topic}) not served by this instance: {detail}. Redo the lookup."
        )
        self.topic = topic


@dataclass(slots=True, eq=False)
class OwnedBundle:
    """A term: the time in which this broker owns a bundle under one epoch.

    `epoch` grows with every acquisition in the cluster, so of two terms of one bundle the later has the higher epoch.
    `active` becomes false when the unload of the bundle begins: from then on no producer or consumer attaches, but
    receipts of written entries are still sent while the topics close. `revoked` becomes true when the term ends (topics
    closed or timed out, session lost, ledger fenced): from then on no receipt may be sent. Code that sends a receipt
    checks `may_acknowledge` in the same step. For the serving log, the acknowledgement times are the times of the first
    and the last group of entries that became durable in this term.
    """

    bundle: Bundle
    epoch: int
    acquired_at_ms: int
    active: bool = True
    revoked: bool = False
    first_acknowledged_at_ms: int | None = None
    last_acknowledged_at_ms: int | None = None
    acknowledged_entries: int = field(default=0)

    @property
    def may_acknowledge(self) -> bool:
        """Whether a receipt may be sent now. After this has become false, it stays false."""
        return not self.revoked

    def acknowledged(self, entries: int, now_ms: int) -> None:
        if self.first_acknowledged_at_ms is None:
            self.first_acknowledged_at_ms = now_ms
        self.last_acknowledged_at_ms = now_ms
        self.acknowledged_entries += entries


class ServingAuthority(Protocol):
    def served(self, topic: TopicName) -> OwnedBundle | None:
        """Return this broker's term for the topic's bundle, without waiting. None if it does not serve the bundle now,
        or the bundles of the namespace are not cached.
        """
        ...

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        """Return this broker's term for the topic's bundle. If the bundles of the namespace are not cached, read them
        first.

        Raises:
            NotServedError: this broker does not own the bundle, or is unloading it.
        """
        ...

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """Record that a ledger of the term `owned` was fenced by a later owner. So the term has ended, even if this
        broker still has the lock or record.
        """
        ...
