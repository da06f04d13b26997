"""Records and logs which entries of a topic's ledgers cannot be read, and skips them if the settings allow it.

Source: the part of Pulsar's `OpReadEntry` and `ManagedCursorImpl` that autoSkipNonRecoverableData switches. Pulsar
skips all entries that the failed read requested. Here only the damaged entries are skipped.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import structlog

from pulsar_barycenter.ledger.errors import (
    LedgerCorruptedError,
    LedgerNotFoundError,
    LedgerUnreadableError,
)
from pulsar_barycenter.ledger.managed.segments import LedgerOwner, Segment
from pulsar_barycenter.ledger.position import joined, positions_text
from pulsar_barycenter.ledger.reader import LedgerReader

log = structlog.get_logger(__name__)

LossError: TypeAlias = LedgerCorruptedError | LedgerNotFoundError | LedgerUnreadableError
LOSSES: Final = (LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError)

_MAX_LOGGED_RANGES: Final = 20
"""The maximum number of ranges of entries in one log line."""


class DamagedLedger(NamedTuple):
    """A ledger of a topic that has damage. `entries` are the ranges (first, last) of entry ids that cannot be read,
    both ends inclusive. An empty tuple means that no entry of the ledger can be read.
    """

    topic: str
    ledger_id: int
    file: str
    entries: tuple[tuple[int, int], ...]

    @property
    def positions(self) -> list[str]:
        """The ranges of entries that cannot be read, as text: `3:7` is the entry 7 of the ledger 3, `3:7-3:9` are its
        entries 7 to 9.
        """
        return [positions_text(self.ledger_id, first, last) for first, last in self.entries]


class Losses:
    """The damaged ledgers of the managed ledger `owner`. Damage of a ledger is logged as an error when it is found
    first, and again when more damage of this ledger is found.
    """

    __slots__ = ("_ledgers", "_owner", "_unreadable")

    def __init__(self, owner: LedgerOwner) -> None:
        self._owner = owner
        self._ledgers: dict[int, DamagedLedger] = {}
        self._unreadable: dict[int, LossError] = {}

    def __iter__(self) -> Iterator[DamagedLedger]:
        return iter(self._ledgers.values())

    def opened(self, segment: Segment, reader: LedgerReader) -> None:
        """Record the damaged and the removed entries of the ledger `segment`, which are known to `reader`. Call this
        after the ledger was opened or recovered.
        """
        if reader.damage:
            self._note(segment, reader.file, reader.damage, reader.remedy)
        self._miss(segment, reader.gone, reader)

    def not_recovered(self, segment: Segment, error: LossError) -> None:
        """Record that a ledger could not be recovered because of `error`. Its number of entries is unknown, so it is
        not read until the topic is opened again.
        """
        self._unreadable[segment.ledger_id] = error
        self.skips(segment, error)

    def skips(self, segment: Segment, error: LossError, reader: LedgerReader | None = None) -> bool:
        """Record that entries of a ledger cannot be read because of `error`. Return True if reading continues after
        them, False if it stops before them with the error.

        True only if the settings allow to skip entries that cannot be read (`skip_non_recoverable`). For a
        LedgerUnreadableError the result is always False: an operator can fix the cause, and skipping would lose
        messages that exist.
        """
        entries = error.entries if isinstance(error, LedgerCorruptedError) else None
        if isinstance(error, LedgerCorruptedError) and entries is None:
            self._unreadable[segment.ledger_id] = error
        known = () if reader is None else reader.damage
        self._note(segment, error.file, () if entries is None else [entries, *known], error.remedy)
        if not self._owner.settings.skip_non_recoverable or isinstance(error, LedgerUnreadableError):
            return False
        first, last = entries or (0, segment.entries - 1)
        positions = positions_text(segment.ledger_id, first, last)
        log.error("entries_skipped", topic=self._owner.name, positions=positions, reason=str(error))
        # Skip all known damage at once: with much damage this is far quicker than one entry at a time.
        self._miss(segment, [(first, last), *known], reader)
        return True

    def check_readable(self, segment: Segment) -> None:
        """Check that no earlier attempt found that the whole ledger is unreadable or cannot be recovered. Callers do
        this before they open the ledger, so that a file that is unreadable is not read again.

        Raises:
            LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError: the error of the earlier attempt.
        """
        error = self._unreadable.get(segment.ledger_id)
        if error is not None:
            raise error.with_traceback(None)

    def dropped(self, segment: Segment) -> None:
        """Remove what is recorded about a ledger, because it does not belong to the topic any more."""
        self._ledgers.pop(segment.ledger_id, None)
        self._unreadable.pop(segment.ledger_id, None)

    def _note(self, segment: Segment, file: str, entries: Sequence[tuple[int, int]], remedy: str) -> None:
        before = self._ledgers.get(segment.ledger_id)
        known = () if before is None else before.entries
        found = DamagedLedger(self._owner.name, segment.ledger_id, file, tuple(joined([*known, *entries])))
        if found != before:
            self._ledgers[segment.ledger_id] = found
            positions = ", ".join(found.positions[:_MAX_LOGGED_RANGES]) or "all"
            if len(found.positions) > _MAX_LOGGED_RANGES:
                positions += f" and {len(found.positions) - _MAX_LOGGED_RANGES} more ranges"
            log.error(
                "ledger_damaged", topic=found.topic, ledger=found.ledger_id, file=file, positions=positions,
                mend=remedy,
            )  # fmt: skip

    def _miss(self, segment: Segment, ranges: Sequence[tuple[int, int]], reader: LedgerReader | None) -> None:
        if segment.miss(ranges, None if reader is None else reader.index):
            self._owner.entries_missing()
