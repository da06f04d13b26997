"""Counts, for the entries that are sent but not confirmed, which bookies have them and which failed.

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
    """Counts the answers to adds of the current ensemble (the bookies of the last segment).

    Answers of bookies that shall not have an entry (are not in its write set) are ignored.
    """

    def __init__(
        self, ensemble: tuple[str, ...], write_quorum: int, ack_quorum: int, *, confirmed: int, length: int
    ) -> None:
        """`confirmed` is the last entry that is already confirmed, -1 if there is none; `length` is the number of bytes
        of data in all entries up to it, inclusive.
        """
        self.ensemble = ensemble
        self.confirmed = confirmed
        self.confirmed_length = length
        """The bytes of data up to the last confirmed entry."""
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._spare = write_quorum - ack_quorum
        self._pending: dict[int, _Pending] = {}
        self._troubled: set[int] = set()
        """The pending entries that at least one bookie of the ensemble failed to store."""
        self._beyond: set[int] = set()
        """The pending entries that too many bookies failed to store, so that the ack quorum cannot be reached."""

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether so many members of the ensemble failed for an entry that it can be confirmed only with other
        members.
        """
        return bool(self._beyond)

    @property
    def failed_members(self) -> frozenset[str]:
        """The members of the ensemble that failed for an entry that is not confirmed."""
        return frozenset().union(*(self._pending[entry].failed for entry in self._troubled))

    def add(self, entry: int, body: bytes, length: int) -> tuple[str, ...]:
        """Add the next entry; `length` is the number of bytes of data in the ledger, this entry included. Return the
        bookies to send the entry to.
        """
        members = write_set(self.ensemble, entry, self._write_quorum)
        self._pending[entry] = _Pending(body, length, members)
        return members

    def stored(self, bookie: str, entry: int) -> None:
        """Count that `bookie` has the entry."""
        pending = self._pending.get(entry)
        if pending is not None and bookie in pending.members:
            pending.stored.add(bookie)
            if bookie in pending.failed:
                pending.failed.remove(bookie)
                self._judge(entry, pending)

    def failed(self, bookie: str, entry: int) -> None:
        """Count that `bookie` did not confirm that it has the entry, and will not."""
        pending = self._pending.get(entry)
        if pending is not None and bookie in pending.members and bookie not in pending.stored:
            pending.failed.add(bookie)
            self._judge(entry, pending)

    def confirm(self) -> bool:
        """Advance `confirmed` to the last entry that enough bookies have, with all entries before it. Return whether it
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
        """Return whether every entry that is not confirmed could be confirmed if `ensemble` replaced the current
        ensemble.
        """
        replaced = frozenset(self.ensemble) - frozenset(ensemble)
        return all(len(self._pending[entry].failed - replaced) <= self._spare for entry in self._beyond)

    def replace(self, ensemble: tuple[str, ...]) -> list[tuple[str, int, bytes]]:
        """Continue with another ensemble, which the caller has stored in the ledger's metadata. Return what to send to
        the new members: bookie, entry, and the same bytes as before.

        Answers and failures of members that were replaced do not count any more.
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
        """Drop the pending entries, which are those that are not confirmed."""
        self._pending.clear()
        self._troubled.clear()
        self._beyond.clear()

    def _judge(self, entry: int, pending: _Pending) -> None:
        (self._troubled.add if pending.failed else self._troubled.discard)(entry)
        (self._beyond.add if len(pending.failed) > self._spare else self._beyond.discard)(entry)
