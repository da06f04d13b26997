"""Counts, for the entries that are sent but not confirmed, which bookies have them and which failed.

A set of bookies is a number: bit i stands for the member at index i of the ensemble. So an entry costs no object of its
own, and a run of entries is added, answered and confirmed in one call.

Source: `org.apache.bookkeeper.client.PendingAddOp` and `LedgerHandle.sendAddSuccessCallbacks`.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import TypeAlias

from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import write_set
from pulsar_barycenter.bookkeeper.wire.digests import Body

Send: TypeAlias = tuple[str, Sequence[int], Sequence[Body]]
"""What to send to one bookie: its id, the numbers of entries, and their bodies."""


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
        self._sent: dict[int, tuple[Body, int]] = {}
        """The pending entries, in their order: the body, and the bytes of data up to the entry."""
        self._stored: dict[int, int] = {}
        """The members that have each pending entry."""
        self._failed: dict[int, int] = {}
        """The members that failed, for those pending entries that at least one member failed to store."""
        self._beyond: set[int] = set()
        """The pending entries that too many bookies failed to store, so that the ack quorum cannot be reached."""

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether so many members of the ensemble failed for an entry that it can be confirmed only with other
        members.
        """
        return bool(self._beyond)

    @property
    def failed_members(self) -> frozenset[str]:
        """The members of the ensemble that failed for an entry that is not confirmed."""
        failed = 0
        for members in self._failed.values():
            failed |= members
        return frozenset(bookie for index, bookie in enumerate(self.ensemble) if failed >> index & 1)

    def extend(self, first: int, bodies: Sequence[Body], lengths: Sequence[int]) -> list[Send]:
        """Add the next entries, of which `first` is the number of the first one. `lengths` has, for each, the number of
        bytes of data in the ledger up to it, inclusive. Return what to send to which bookies.
        """
        entries = range(first, first + len(bodies))
        self._sent.update(zip(entries, zip(bodies, lengths, strict=True), strict=True))
        self._stored.update(zip(entries, repeat(0)))
        size, quorum = len(self.ensemble), self._write_quorum
        members = self.ensemble[first % size :] + self.ensemble[: first % size]
        if quorum == size or len(bodies) == 1:
            return [(bookie, entries, bodies) for bookie in members[:quorum]]
        sends: list[Send] = []
        for offset, bookie in enumerate(members):
            chosen = [number for number in range(len(bodies)) if (offset - number) % size < quorum]
            if chosen:
                sends.append((bookie, [first + number for number in chosen], [bodies[number] for number in chosen]))
        return sends

    def stored(self, bookie: str, entries: Sequence[int]) -> None:
        """Count that `bookie` has the entries."""
        stored = self._stored
        bit, expected = self._expected(bookie, entries)
        for entry in expected:
            stored[entry] |= bit
        for entry in expected if self._failed else ():
            self._judge(entry, self._failed.get(entry, 0) & ~bit)

    def failed(self, bookie: str, entries: Sequence[int]) -> None:
        """Count that `bookie` did not confirm that it has the entries, and will not."""
        bit, expected = self._expected(bookie, entries)
        for entry in expected:
            if not self._stored[entry] & bit:
                self._judge(entry, self._failed.get(entry, 0) | bit)

    def confirm(self) -> bool:
        """Advance `confirmed` to the last entry that enough bookies have, with all entries before it. Return whether it
        advanced.
        """
        stored, sent, quorum = self._stored, self._sent, self._ack_quorum
        length, before = self.confirmed_length, self.confirmed
        entry = before + 1
        while (members := stored.get(entry)) is not None and members.bit_count() >= quorum:
            del stored[entry]
            _, length = sent.pop(entry)
            entry += 1
        self.confirmed, self.confirmed_length = entry - 1, length
        for number in range(before + 1, entry) if self._failed else ():
            self._judge(number, 0)
        return entry - 1 > before

    def would_reach(self, ensemble: tuple[str, ...]) -> bool:
        """Return whether every entry that is not confirmed could be confirmed if `ensemble` replaced the current
        ensemble.
        """
        kept = self._same_as(ensemble)
        return all((self._failed[entry] & kept).bit_count() <= self._spare for entry in self._beyond)

    def replace(self, ensemble: tuple[str, ...]) -> list[tuple[str, int, Body]]:
        """Continue with another ensemble, which the caller has stored in the ledger's metadata. Return what to send to
        the new members: bookie, entry, and the same bytes as before.

        Answers and failures of members that were replaced do not count any more.
        """
        kept = self._same_as(ensemble)
        sends = []
        for entry, (body, _) in self._sent.items():
            old, new = (write_set(members, entry, self._write_quorum) for members in (self.ensemble, ensemble))
            self._stored[entry] &= kept
            self._judge(entry, self._failed.get(entry, 0) & kept)
            sends += [(bookie, entry, body) for was, bookie in zip(old, new, strict=True) if was != bookie]
        self.ensemble = ensemble
        return sends

    def clear(self) -> None:
        """Drop the pending entries, which are those that are not confirmed."""
        self._sent.clear()
        self._stored.clear()
        self._failed.clear()
        self._beyond.clear()

    def _expected(self, bookie: str, entries: Sequence[int]) -> tuple[int, list[int]]:
        """Return the bit of `bookie`, and those of the entries that are pending and that it shall have."""
        if bookie not in self.ensemble:
            return 0, []
        index, size, quorum, stored = self.ensemble.index(bookie), len(self.ensemble), self._write_quorum, self._stored
        if quorum == size:
            return 1 << index, [entry for entry in entries if entry in stored]
        return 1 << index, [entry for entry in entries if entry in stored and (index - entry) % size < quorum]

    def _same_as(self, ensemble: tuple[str, ...]) -> int:
        """Return the indexes at which both ensembles have the same member, as bits."""
        return sum(1 << at for at, pair in enumerate(zip(self.ensemble, ensemble, strict=True)) if pair[0] == pair[1])

    def _judge(self, entry: int, failed: int) -> None:
        """Set the members that failed to store `entry`."""
        if failed:
            self._failed[entry] = failed
        else:
            self._failed.pop(entry, None)
        (self._beyond.add if failed.bit_count() > self._spare else self._beyond.discard)(entry)
