"""What the data plane asks of the control plane: may this topic be served here, and under which epoch?"""

from dataclasses import dataclass, field
from typing import Protocol

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName


class NotServedError(Exception):
    """The bundle of a topic is not owned and active here; the client must look the topic up again."""

    def __init__(self, topic: TopicName, detail: str) -> None:
        super().__init__(
            f"Namespace bundle for topic ({topic}) not served by this instance: {detail}. Redo the lookup."
        )
        self.topic = topic


@dataclass(slots=True, eq=False)
class OwnedBundle:
    """One term of ownership of a bundle by this broker.

    `epoch` grows with every acquisition in the cluster, so of two terms of one bundle the later has the
    higher epoch. `active` turns false once, when the bundle starts to leave: no producer or consumer attaches
    from then on, but receipts of entries already written are still sent while the topics close. `revoked` turns
    true when the term ended without notice (session lost, ledger fenced, unload timed out): from then on
    nothing may be acknowledged. Whoever sends a receipt asks `may_acknowledge` in the same step. The
    acknowledgement times are those of the first and last group of entries reported durable in this term; the
    serving log carries them.
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
        """Whether a receipt may be sent at this moment; false forever once it was false."""
        return not self.revoked

    def acknowledged(self, entries: int, now_ms: int) -> None:
        if self.first_acknowledged_at_ms is None:
            self.first_acknowledged_at_ms = now_ms
        self.last_acknowledged_at_ms = now_ms
        self.acknowledged_entries += entries


class ServingAuthority(Protocol):
    def served(self, topic: TopicName) -> OwnedBundle | None:
        """Return this broker's term of the topic's bundle if it is owned and active now; never waits."""
        ...

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        """Return the term, loading the namespace's bundles if need be.

        Raises:
            NotServedError: the bundle is not owned, or is being unloaded.
        """
        ...

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """Report that a ledger of this term was fenced: the term is over, whatever the lock says."""
        ...
