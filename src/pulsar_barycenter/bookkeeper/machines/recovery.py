"""Takes over a ledger from its writer: fences it, finds its end, adds again the entries that the writer may have
confirmed, and closes it.

Any number of clients may recover one ledger at a time, and its writer may still run. The client whose compare-and-set
closes the ledger decides where it ends; all others accept that end.

Source: `org.apache.bookkeeper.client.LedgerRecoveryOp` and `ReadOnlyLedgerHandle`.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from pulsar_barycenter.bookkeeper.errors import BookKeeperError, NoSuchLedgerError, RecoveryError, WrongPasswordError
from pulsar_barycenter.bookkeeper.machines.actions import (
    Action,
    Ended,
    Failed,
    ReadMetadata,
    Replace,
    SendAdds,
    StoredLedger,
    SwapMetadata,
    Verdict,
    segment_conflict,
)
from pulsar_barycenter.bookkeeper.machines.add_window import AddWindow
from pulsar_barycenter.bookkeeper.machines.entry_read import EntryRead, ReadState
from pulsar_barycenter.bookkeeper.machines.last_confirmed import Coverage, LastConfirmedRead
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from pulsar_barycenter.bookkeeper.wire.digests import LAST_ENTRY, Entry, EntryCodec

READ_AHEAD: Final = 32
"""The number of entries that are read at the same time."""


class RecoveryState(Enum):
    MARKING = "marking"
    FENCING = "fencing"
    MEASURING = "measuring"
    RESTORING = "restoring"
    CLOSING = "closing"
    OVER = "over"


class Recovery:
    """One recovery of one ledger; its result is the action Ended or Failed."""

    def __init__(
        self, ledger: int, stored: StoredLedger, codec: EntryCodec, replace: Replace, *, read_ahead: int = READ_AHEAD
    ) -> None:
        self.ledger = ledger
        self.state = RecoveryState.MARKING
        self._metadata = stored.metadata
        """The metadata of the ledger in the metadata store, as far as this client knows."""
        self._version = stored.version
        self._codec = codec
        self._replace = replace
        self._read_ahead = read_ahead
        self._wanted = stored.metadata
        self._restored = stored.metadata
        """The metadata with the segments that this recovery needed; stored when the ledger is closed."""
        self._fencing = LastConfirmedRead(stored.metadata, codec, is_fencing=True)
        self._window = AddWindow((), 0, 0, confirmed=-1, length=0)
        self._reads: dict[int, EntryRead] = {}
        self._length_read: list[EntryRead] = []
        self._lengths: dict[int, int] = {}
        self._next_read = 0
        self._next_add = 0
        self._is_at_end = False

    def start(self) -> list[Action]:
        return self._mark(StoredLedger(self._metadata, self._version))

    def swapped(self, version: int) -> list[Action]:
        """Continue after the metadata was replaced by compare-and-set; return the next actions. `version` is the new
        version of the ledger's key.
        """
        if self.state is RecoveryState.OVER:
            return []
        self._metadata, self._version = self._wanted, version
        if self.state is RecoveryState.CLOSING:
            return self._end(StoredLedger(self._metadata, version))
        return self._fence()

    def swap_failed(self) -> list[Action]:
        """Continue after a compare-and-set of the metadata failed, or if it is unknown whether it took effect; return
        the next actions.
        """
        return [] if self.state is RecoveryState.OVER else [ReadMetadata()]

    def metadata_read(self, stored: StoredLedger | None) -> list[Action]:
        """Continue with the ledger's metadata, as read from the store after `swap_failed`, and return the next actions.
        `stored` None: the ledger was deleted.
        """
        if self.state is RecoveryState.OVER:
            return []
        if stored is None:
            return self._fail(NoSuchLedgerError(self.ledger))
        if self.state is RecoveryState.MARKING:
            return self._mark(stored)
        found = stored.metadata
        if found.state is LedgerState.CLOSED:
            return self._end(stored)
        if found.state is not LedgerState.IN_RECOVERY or segment_conflict(self._metadata, found):
            return self._fail(
                RecoveryError(
                    f"ledger {self.ledger}: another client changed it during its recovery: it is now "
                    f"{found.state.name}, with the last segment {found.last_segment}. Try again"
                )
            )
        return self._close(stored)

    def read_answered(self, bookie: str, entry: int, verdict: Verdict, body: bytes) -> list[Action]:
        """Continue with the answer to a read, and return the next actions. The verdict is UNKNOWN also if there will be
        no answer.
        """
        match self.state:
            case RecoveryState.FENCING if entry == LAST_ENTRY:
                self._fencing.answered(bookie, verdict, body)
                return self._fenced()
            case RecoveryState.MEASURING:
                (read,) = self._length_read
                return [*read.answered(bookie, verdict, body), *self._measured(read)] if entry == read.entry else []
            case RecoveryState.RESTORING if entry in self._reads:
                return [*self._reads[entry].answered(bookie, verdict, body), *self._restore()]
        return []

    def adds_answered(self, bookie: str, entries: Sequence[int], verdict: Verdict) -> list[Action]:
        """Continue with the same answer to the adds of one or more entries, and return the next actions. The verdict is
        UNKNOWN also if there will be no answer.
        """
        if self.state is not RecoveryState.RESTORING:
            return []
        match verdict:
            case Verdict.DONE:
                self._window.stored(bookie, entries)
                self._window.confirm()
            case Verdict.UNAUTHORIZED:
                return self._fail(WrongPasswordError(self.ledger))
            case _:
                self._window.failed(bookie, entries)
        return self._restore() if not self._window.is_out_of_reach else self._replace_members()

    def _mark(self, stored: StoredLedger) -> list[Action]:
        self._metadata, self._version = stored
        match stored.metadata.state:
            case LedgerState.CLOSED:
                return self._end(stored)
            case LedgerState.IN_RECOVERY:
                return self._fence()
            case LedgerState.OPEN:
                return self._swap(stored.metadata.recovering())

    def _fence(self) -> list[Action]:
        """Return reads of the last entry, one for each bookie of the ledger's last segment. Each of these reads makes
        its bookie fence the ledger. No writer replaces these bookies now, because the ledger is not OPEN.
        """
        self.state = RecoveryState.FENCING
        self._fencing = LastConfirmedRead(self._metadata, self._codec, is_fencing=True)
        return [*self._fencing.start()]

    def _fenced(self) -> list[Action]:
        match self._fencing.coverage:
            case Coverage.ASKING:
                return []
            case Coverage.UNAUTHORIZED:
                return self._fail(WrongPasswordError(self.ledger))
            case Coverage.UNCOVERED:
                silent = ", ".join(sorted(self._fencing.silent))
                return self._fail(
                    RecoveryError(
                        f"ledger {self.ledger} cannot be recovered: {silent} did not answer, and these bookies may "
                        "be the only ones that have the last entries. Start them again, then try again"
                    )
                )
            case Coverage.COVERED:
                return self._begin_restoring()

    def _begin_restoring(self) -> list[Action]:
        metadata, last = self._metadata, self._fencing.last_confirmed
        for answer in self._fencing.answers:
            self._lengths[answer.entry] = answer.length
            self._lengths[answer.entry - 1] = answer.length - len(answer.data)
        self._restored = metadata
        self._window = AddWindow(
            metadata.last_segment.members, metadata.write_quorum, metadata.ack_quorum, confirmed=last, length=0
        )
        self._next_read = self._next_add = last + 1
        self.state = RecoveryState.RESTORING
        return self._read_on()

    def _read_on(self) -> list[Action]:
        asks: list[Action] = []
        metadata = self._metadata
        while not self._is_at_end and len(self._reads) < self._read_ahead:
            entry = self._next_read
            read = EntryRead(
                entry,
                metadata.write_set(entry),
                self._codec,
                absent_after=metadata.write_quorum - metadata.ack_quorum + 1,
                is_fencing=True,
            )
            self._reads[entry] = read
            self._next_read += 1
            asks += read.ask_next()
        return asks

    def _restore(self) -> list[Action]:
        """Send the entries that were read to the bookies again, in the order of their numbers, up to the first entry
        that the bookies do not have: the ledger ends before it. If it is unknown whether an entry exists, the recovery
        fails.
        """
        actions: list[Action] = []
        while not self._is_at_end and (read := self._reads.get(self._next_add)) is not None:
            match read.state:
                case ReadState.FOUND:
                    del self._reads[self._next_add]
                    actions += self._add_again(read.found[0])
                case ReadState.ABSENT:
                    self._is_at_end = True
                case ReadState.ASKING:
                    break
                case ReadState.UNAUTHORIZED:
                    return self._fail(WrongPasswordError(self.ledger))
                case ReadState.UNKNOWN:
                    return self._fail(
                        RecoveryError(
                            f"ledger {self.ledger} cannot be recovered: it is unknown whether entry {read.entry} is "
                            f"part of it: {'; '.join(read.reasons)}. Start the missing bookies, then try again"
                        )
                    )
        if self._is_at_end and not len(self._window):
            return actions + self._measure()
        return actions + self._read_on()

    def _add_again(self, entry: Entry) -> list[Action]:
        self._next_add = entry.entry + 1
        self._lengths[entry.entry] = entry.length
        self._lengths[entry.entry - 1] = entry.length - len(entry.data)
        # Not what this recovery confirmed: that may be on bookies which are stored only with the close, and another
        # recovery would begin after it.
        body = self._codec.pack(entry.entry, self._fencing.last_confirmed, entry.length, entry.data)
        sends = self._window.extend(entry.entry, (body,), (entry.length,))
        return [SendAdds(bookie, entries, bodies, is_recovery=True) for bookie, entries, bodies in sends]

    def _replace_members(self) -> list[Action]:
        window = self._window
        failed = window.failed_members
        ensemble = self._replace(window.ensemble, failed)
        if not window.would_reach(ensemble):
            return self._fail(
                RecoveryError(
                    f"ledger {self.ledger} cannot be recovered: {', '.join(sorted(failed))} did not store entry"
                    f" {window.confirmed + 1} again, and there are not enough other writable bookies. Start bookies,"
                    " then try again"
                )
            )
        self._restored = self._restored.with_ensemble(window.confirmed + 1, ensemble)
        sends = window.replace(ensemble)
        return [SendAdds(bookie, (entry,), (body,), is_recovery=True) for bookie, entry, body in sends]

    def _measure(self) -> list[Action]:
        """Find the number of data bytes in all entries of the ledger, then close it. The last entry contains this
        number; read that entry if no answer so far has contained it.
        """
        last = self._next_add - 1
        if last == -1 or last in self._lengths:
            return self._close(StoredLedger(self._metadata, self._version))
        self.state = RecoveryState.MEASURING
        members = self._metadata.write_set(last)
        read = EntryRead(last, members, self._codec, absent_after=len(members))
        self._length_read = [read]
        return [*read.ask_next()]

    def _measured(self, read: EntryRead) -> list[Action]:
        match read.state:
            case ReadState.ASKING:
                return []
            case ReadState.UNAUTHORIZED:
                return self._fail(WrongPasswordError(self.ledger))
            case ReadState.FOUND:
                self._lengths[read.entry] = read.found[0].length
                return self._close(StoredLedger(self._metadata, self._version))
            case _:
                return self._fail(
                    RecoveryError(
                        f"ledger {self.ledger} cannot be recovered: its last entry {read.entry} cannot be read:"
                        f" {'; '.join(read.reasons)}. Start the missing bookies, then try again"
                    )
                )

    def _close(self, stored: StoredLedger) -> list[Action]:
        """Begin to close the ledger. `stored` is its present metadata; write it again with the state CLOSED, the last
        entry, and the segments that this recovery added.
        """
        self.state = RecoveryState.CLOSING
        self._metadata, self._version = stored
        last = self._next_add - 1
        return self._swap(self._with_own_segments(stored.metadata).closed(last, self._lengths.get(last, 0)))

    def _with_own_segments(self, found: LedgerMetadata) -> LedgerMetadata:
        for segment in self._restored.segments:
            if segment.first >= found.last_segment.first and segment != found.last_segment:
                found = found.with_ensemble(segment.first, segment.members)
        return found

    def _swap(self, wanted: LedgerMetadata) -> list[Action]:
        self._wanted = wanted
        return [SwapMetadata(wanted, self._version)]

    def _end(self, stored: StoredLedger) -> list[Action]:
        self.state = RecoveryState.OVER
        return [Ended(stored)]

    def _fail(self, error: BookKeeperError) -> list[Action]:
        self.state = RecoveryState.OVER
        return [Failed(error)]
