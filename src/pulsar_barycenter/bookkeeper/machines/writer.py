"""Decides how a ledger is written: it adds entries in order, replaces bookies that failed, and closes the ledger.

Bookies that fail are replaced when so many failed that an entry cannot be confirmed. Until then the others suffice.
While the new bookies are being stored in the metadata, nothing is confirmed. If a bookie refuses an entry because the
ledger is fenced, or if another client changed the metadata, the writer confirms nothing any more.

Source: `org.apache.bookkeeper.client.LedgerHandle`.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import accumulate
from typing import Final

from pulsar_barycenter.bookkeeper.errors import (
    BookKeeperError,
    CloseConflictError,
    EntryTooLargeError,
    NoSuchLedgerError,
    TooFewBookiesError,
    WriterClosedError,
    WriterFencedError,
    WriterStoppedError,
    WrongPasswordError,
)
from pulsar_barycenter.bookkeeper.machines.actions import (
    Action,
    Confirmed,
    Ended,
    Failed,
    ReadMetadata,
    Replace,
    SendAdds,
    Stopped,
    StoredLedger,
    SwapMetadata,
    Verdict,
    segment_conflict,
)
from pulsar_barycenter.bookkeeper.machines.add_window import AddWindow
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from pulsar_barycenter.bookkeeper.wire.digests import EntryCodec


class WriterState(Enum):
    """The state of a writer. STOPPED: it confirms nothing any more, but may still close the ledger. LOST: it may not
    change the ledger.
    """

    OPEN = "open"
    CHANGING = "changing"
    STOPPED = "stopped"
    CLOSING = "closing"
    CLOSED = "closed"
    LOST = "lost"


_OVER: Final = frozenset({WriterState.CLOSED, WriterState.LOST})
_MAY_APPEND: Final = frozenset({WriterState.OPEN, WriterState.CHANGING})


class Writer:
    """The only writer of a ledger. It has created the ledger, or continues the ledger of a former writer and appends
    the same entries as that writer did.
    """

    def __init__(
        self,
        ledger: int,
        stored: StoredLedger,
        codec: EntryCodec,
        replace: Replace,
        *,
        max_data_bytes: int,
        length: int = 0,
    ) -> None:
        """Begin to write. `stored` is the ledger's metadata, and OPEN. An entry may have at most `max_data_bytes` of
        data.

        The next entry is the first one of the last segment. All entries before it are confirmed, and have `length`
        bytes of data in total; for a new ledger, with one segment, there are none.
        """
        self.ledger = ledger
        self.state = WriterState.OPEN
        self.metadata = stored.metadata
        self._version = stored.version
        self._codec = codec
        self._replace = replace
        self._max_data_bytes = max_data_bytes
        metadata = stored.metadata
        self._next = metadata.last_segment.first
        self._length = length
        self._window = AddWindow(
            metadata.last_segment.members,
            metadata.write_quorum,
            metadata.ack_quorum,
            confirmed=self._next - 1,
            length=length,
        )
        self._wanted = metadata
        """The metadata that the running compare-and-set writes."""
        self._is_swapping = False
        self._wants_close = False
        self._error: BookKeeperError = WriterClosedError(f"ledger {ledger}: the writer is closed")

    @property
    def last_confirmed(self) -> int:
        """The number of the last entry that was confirmed, -1 if there is none."""
        return self._window.confirmed

    @property
    def confirmed_length(self) -> int:
        """The bytes of data in all entries up to the last confirmed one."""
        return self._window.confirmed_length

    @property
    def length(self) -> int:
        """The bytes of data in all entries up to the last appended one."""
        return self._length

    @property
    def next_entry(self) -> int:
        """The number that the next entry gets."""
        return self._next

    @property
    def may_close(self) -> bool:
        """Whether the writer may close the ledger: it knows of no other client that took the ledger over."""
        return self.state is not WriterState.LOST

    def append(self, data: bytes) -> list[Action]:
        """Send `data` as the entry `next_entry`, as `extend` does."""
        return self.extend((data,))

    def extend(self, datas: Sequence[bytes]) -> list[Action]:
        """Send each of `datas` as an entry, in this order. The first one gets the number `next_entry`.

        Raises:
            EntryTooLargeError: an entry is larger than a bookie accepts; nothing has changed.
            WriterStoppedError: the writer does not write any more.
        """
        if self.state not in _MAY_APPEND or self._wants_close:
            raise self._error if isinstance(self._error, WriterStoppedError) else WriterStoppedError(str(self._error))
        largest = max(map(len, datas), default=0)
        if largest > self._max_data_bytes:
            raise EntryTooLargeError(largest, self._max_data_bytes)
        first, window = self._next, self._window
        _, *lengths = accumulate(map(len, datas), initial=self._length)
        bodies = self._codec.pack_all(first, window.confirmed, lengths, datas)
        self._next, self._length = first + len(bodies), lengths[-1] if lengths else self._length
        sends = window.extend(first, bodies, lengths)
        return [SendAdds(bookie, entries, of_bookie, is_recovery=False) for bookie, entries, of_bookie in sends]

    def adds_answered(self, bookie: str, entries: Sequence[int], verdict: Verdict) -> list[Action]:
        """Continue with the same answer to the adds of one or more entries, and return the next actions. The verdict is
        UNKNOWN also if there will be no answer.
        """
        if self.state not in _MAY_APPEND:
            return []
        match verdict:
            case Verdict.DONE:
                self._window.stored(bookie, entries)
            case Verdict.FENCED:
                return self._lose(
                    WriterFencedError(
                        f"ledger {self.ledger}: bookie {bookie} refuses entry {entries[0]}, because another client took"
                        " the ledger over"
                    )
                )
            case Verdict.UNAUTHORIZED:
                return self._lose(WrongPasswordError(self.ledger))
            case _:
                self._window.failed(bookie, entries)
        return self._go_on()

    def close(self) -> list[Action]:
        """Begin to close the ledger after the last confirmed entry, and return the next actions. Entries that are not
        confirmed at this moment will not be part of the ledger.

        If the ledger is closed already, or another client took it over, there is no action.
        """
        if self._wants_close or self.state in _OVER:
            return []
        self._wants_close = True
        self._window.clear()
        return [] if self._is_swapping else self._close_now()

    def swapped(self, version: int) -> list[Action]:
        """Continue after the metadata was replaced by compare-and-set; return the next actions. `version` is the new
        version of the ledger's key.
        """
        if self.state in _OVER:
            return []
        self._is_swapping = False
        self._version = version
        self.metadata = self._wanted
        return self._stored()

    def swap_failed(self) -> list[Action]:
        """Continue after a compare-and-set of the metadata failed, or if it is unknown whether it took effect; return
        the next actions.
        """
        return [] if self.state in _OVER else [ReadMetadata()]

    def metadata_read(self, stored: StoredLedger | None) -> list[Action]:
        """Continue with the ledger's metadata, as read from the store after `swap_failed`, and return the next actions.
        `stored` None: the ledger was deleted.
        """
        if self.state in _OVER:
            return []
        if stored is None:
            return self._lose(NoSuchLedgerError(self.ledger))
        found = stored.metadata
        if found.state is not LedgerState.OPEN:
            return self._ended_by_others(stored)
        if found.segments == self._wanted.segments and self._wanted.state is LedgerState.OPEN:
            self._is_swapping = False
            self.metadata, self._version = found, stored.version
            return self._stored()
        if segment_conflict(self.metadata, found):
            return self._lose(
                WriterFencedError(
                    f"ledger {self.ledger}: another client changed its last segment to {found.last_segment}; this "
                    f"writer had stored {self.metadata.last_segment}"
                )
            )
        self.metadata, self._version = found, stored.version
        return self._swap(self._again(found))

    def _again(self, found: LedgerMetadata) -> LedgerMetadata:
        """Return `found`, the metadata that the store has now, with the change that this writer tried to store: the
        ledger is closed, or has a new last segment.
        """
        if self._wanted.state is LedgerState.CLOSED:
            return found.closed(self._wanted.last_entry, self._wanted.length)
        segment = self._wanted.last_segment
        return found.with_ensemble(segment.first, segment.members)

    def _ended_by_others(self, stored: StoredLedger) -> list[Action]:
        found = stored.metadata
        if found.state is LedgerState.IN_RECOVERY:
            return self._lose(WriterFencedError(f"ledger {self.ledger}: another client is recovering it"))
        if not self._wants_close:
            return self._lose(WriterFencedError(f"ledger {self.ledger}: another client closed it"))
        if (found.last_entry, found.length) == (self.last_confirmed, self.confirmed_length):
            return self._end(stored)
        return self._lose(
            CloseConflictError(
                f"ledger {self.ledger}: another client closed it at entry {found.last_entry} with {found.length} bytes;"
                f" this writer confirmed entry {self.last_confirmed} with {self.confirmed_length} bytes"
            )
        )

    def _stored(self) -> list[Action]:
        if self.metadata.state is LedgerState.CLOSED:
            return self._end(StoredLedger(self.metadata, self._version))
        if self._wants_close:
            return self._close_now()
        if self.state is not WriterState.CHANGING:
            return []
        self.state = WriterState.OPEN
        sends = self._window.replace(self.metadata.last_segment.members)
        again = [SendAdds(bookie, (entry,), (body,), is_recovery=False) for bookie, entry, body in sends]
        return [*again, *self._go_on()]

    def _go_on(self) -> list[Action]:
        """Return the next actions: report as confirmed the entries that can be confirmed, and replace bookies if an
        entry cannot be confirmed without that.
        """
        if self.state is not WriterState.OPEN:
            return []
        confirmed: list[Action] = [Confirmed(self._window.confirmed)] if self._window.confirm() else []
        return confirmed + self._change_if_needed()

    def _change_if_needed(self) -> list[Action]:
        window = self._window
        if not window.is_out_of_reach:
            return []
        failed = window.failed_members
        ensemble = self._replace(window.ensemble, failed)
        if not window.would_reach(ensemble):
            self.state = WriterState.STOPPED
            self._error = TooFewBookiesError(
                f"ledger {self.ledger}: entry {window.confirmed + 1} cannot be stored: {', '.join(sorted(failed))}"
                " failed, and there are not enough other writable bookies. Start bookies, then write to a new ledger"
            )
            window.clear()
            return [Stopped(self._error)]
        self.state = WriterState.CHANGING
        return self._swap(self.metadata.with_ensemble(window.confirmed + 1, ensemble))

    def _close_now(self) -> list[Action]:
        self.state = WriterState.CLOSING
        return self._swap(self.metadata.closed(self.last_confirmed, self.confirmed_length))

    def _swap(self, wanted: LedgerMetadata) -> list[Action]:
        self._wanted = wanted
        self._is_swapping = True
        return [SwapMetadata(wanted, self._version)]

    def _end(self, stored: StoredLedger) -> list[Action]:
        self.state = WriterState.CLOSED
        self._is_swapping = False
        self.metadata, self._version = stored
        return [Ended(stored)]

    def _lose(self, error: BookKeeperError) -> list[Action]:
        was_closing = self._wants_close
        self.state = WriterState.LOST
        self._error = error
        self._is_swapping = False
        self._window.clear()
        return [Failed(error)] if was_closing else [Stopped(error)]
