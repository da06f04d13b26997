"""The entries that are sent and not yet confirmed: who has them, who failed, and which is the last to confirm.

Source: `org.apache.bookkeeper.client.PendingAddOp` and `LedgerHandle.sendAddSuccessCallbacks`.
"""

from dataclasses import dataclass, field

from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import write_set


@dataclass(slots=True)
class _Pending:
    body: bytes
    length: int
    members: tuple[str, ...]
    stored: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)


class AddWindow:
    """Counts answers to adds by the current ensemble; answers of bookies that are not in an entry's write set are
    ignored.
    """

    def __init__(
        self, ensemble: tuple[str, ...], write_quorum: int, ack_quorum: int, *, confirmed: int, length: int
    ) -> None:
        """`confirmed` is the last entry that is already confirmed, `length` the bytes of data up to it."""
        self.ensemble = ensemble
        self.confirmed = confirmed
        self.confirmed_length = length
        """The bytes of data up to the last confirmed entry."""
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._spare = write_quorum - ack_quorum
        self._pending: dict[int, _Pending] = {}
        self._troubled: set[int] = set()
        """The entries for which a member failed."""
        self._beyond: set[int] = set()
        """Those of them for which too many failed."""

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether so many members failed for an entry that it cannot be confirmed by this ensemble."""
        return bool(self._beyond)

    @property
    def failed_members(self) -> frozenset[str]:
        """The members that failed for an entry that is not confirmed."""
        return frozenset().union(*(self._pending[entry].failed for entry in self._troubled))

    def add(self, entry: int, body: bytes, length: int) -> tuple[str, ...]:
        """Note the next entry, with the bytes of data up to it; return the members to send it to."""
        members = write_set(self.ensemble, entry, self._write_quorum)
        self._pending[entry] = _Pending(body, length, members)
        return members

    def stored(self, bookie: str, entry: int) -> None:
        """Note that a bookie has an entry."""
        pending = self._pending.get(entry)
        if pending is not None and bookie in pending.members:
            pending.stored.add(bookie)
            if bookie in pending.failed:
                pending.failed.remove(bookie)
                self._judge(entry, pending)

    def failed(self, bookie: str, entry: int) -> None:
        """Note that a bookie did not say that it has an entry, and will not."""
        pending = self._pending.get(entry)
        if pending is not None and bookie in pending.members and bookie not in pending.stored:
            pending.failed.add(bookie)
            self._judge(entry, pending)

    def confirm(self) -> bool:
        """Advance `confirmed` over entries that are complete and have only complete ones before them; return whether it
        advanced.
        """
        before = self.confirmed
        pending = self._pending.get(before + 1)
        while pending is not None and len(pending.stored) >= self._ack_quorum:
            self.confirmed += 1
            self.confirmed_length = pending.length
            del self._pending[self.confirmed]
            self._troubled.discard(self.confirmed)
            self._beyond.discard(self.confirmed)
            pending = self._pending.get(self.confirmed + 1)
        return self.confirmed > before

    def would_reach(self, ensemble: tuple[str, ...]) -> bool:
        """Return whether `ensemble`, with other members in the place of some, can confirm every entry."""
        replaced = frozenset(self.ensemble) - frozenset(ensemble)
        return all(len(self._pending[entry].failed - replaced) <= self._spare for entry in self._beyond)

    def replace(self, ensemble: tuple[str, ...]) -> list[tuple[str, int, bytes]]:
        """Take another ensemble, which is stored; return what to send: bookie, entry and the same bytes as before.

        Answers of members that were replaced do not count any more, nor do their failures.
        """
        self.ensemble = ensemble
        sends = []
        for entry, pending in self._pending.items():
            old, new = pending.members, write_set(ensemble, entry, self._write_quorum)
            pending.members = new
            pending.stored.intersection_update(new)
            pending.failed.intersection_update(new)
            sends += [(bookie, entry, pending.body) for was, bookie in zip(old, new, strict=True) if was != bookie]
            self._judge(entry, pending)
        return sends

    def clear(self) -> None:
        """Forget what is not confirmed."""
        self._pending.clear()
        self._troubled.clear()
        self._beyond.clear()

    def _judge(self, entry: int, pending: _Pending) -> None:
        (self._troubled.add if pending.failed else self._troubled.discard)(entry)
        (self._beyond.add if len(pending.failed) > self._spare else self._beyond.discard)(entry)
