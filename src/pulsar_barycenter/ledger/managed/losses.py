"""What of a topic's ledgers cannot be read: noted, told to the log, and passed over if the settings say so.

Source: the part of Pulsar's `OpReadEntry` and `ManagedCursorImpl` that autoSkipNonRecoverableData switches. Pulsar
skips as many entries as the failed read asked for; here those that are damaged are skipped, and no others.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import structlog

from pulsar_barycenter.ledger.errors import (
    LedgerCorruptedError,
    LedgerNotFoundError,
    LedgerUnreadableError,
    how_to_mend,
)
from pulsar_barycenter.ledger.managed.segments import Segment
from pulsar_barycenter.ledger.position import joined, positions_text
from pulsar_barycenter.ledger.reader import LedgerReader
from pulsar_barycenter.ledger.settings import LedgerSettings

log = structlog.get_logger(__name__)

LossError: TypeAlias = LedgerCorruptedError | LedgerNotFoundError | LedgerUnreadableError
LOSSES: Final = (LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError)

_MOST_TOLD: Final = 20
"""Ranges in one line of the log."""


class DamagedLedger(NamedTuple):
    """`entries` are ranges (first, last) that cannot be read; none of them: the whole ledger cannot."""

    topic: str
    ledger_id: int
    file: str
    entries: tuple[tuple[int, int], ...]

    @property
    def positions(self) -> list[str]:
        """The ranges for people: `3:7` or `3:7-3:9`."""
        return [positions_text(self.ledger_id, first, last) for first, last in self.entries]


class LossesOwner(Protocol):
    """What losses need of their managed ledger."""

    @property
    def settings(self) -> LedgerSettings: ...
    @property
    def name(self) -> str: ...
    def entries_missing(self) -> None: ...


class Losses:
    """The damaged ledgers of `owner`, each told as an error when it is found, and when more of it is."""

    __slots__ = ("_ledgers", "_owner", "_unreadable")

    def __init__(self, owner: LossesOwner) -> None:
        self._owner = owner
        self._ledgers: dict[int, DamagedLedger] = {}
        self._unreadable: dict[int, LossError] = {}

    def __iter__(self) -> Iterator[DamagedLedger]:
        return iter(self._ledgers.values())

    def opened(self, segment: Segment, reader: LedgerReader) -> None:
        """Take note of what a ledger that was just opened says of itself."""
        if reader.damage:
            self._note(segment, reader.file, reader.damage)
        self._miss(segment, reader.gone, reader)

    def not_recovered(self, segment: Segment, error: LossError) -> None:
        """Take note of a ledger whose length nobody knows: it is not read before the topic is opened anew."""
        self._unreadable[segment.ledger_id] = error
        self.passes_over(segment, error)

    def passes_over(self, segment: Segment, error: LossError, reader: LedgerReader | None = None) -> bool:
        """Take note of what cannot be read; return whether reading goes on behind it.

        It never does where a hand can mend what hinders it: that would lose messages that are there.
        """
        entries = error.entries if isinstance(error, LedgerCorruptedError) else None
        if isinstance(error, LedgerCorruptedError) and entries is None:
            self._unreadable[segment.ledger_id] = error
        known = () if reader is None else reader.damage
        self._note(segment, error.file, () if entries is None else [entries, *known])
        if not self._owner.settings.skip_non_recoverable or isinstance(error, LedgerUnreadableError):
            return False
        first, last = entries or (0, segment.entries - 1)
        positions = positions_text(segment.ledger_id, first, last)
        log.error("entries_skipped", topic=self._owner.name, positions=positions, reason=str(error))
        # All that is known to be damaged at once: where much is, that is much quicker than one by one.
        self._miss(segment, [(first, last), *known], reader)
        return True

    def check_readable(self, segment: Segment) -> None:
        """Return unless nothing of the ledger was found when it was looked through, which may take long, or it was not
        recovered.

        Raises:
            LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError: as it was then.
        """
        error = self._unreadable.get(segment.ledger_id)
        if error is not None:
            raise error.with_traceback(None)

    def dropped(self, segment: Segment) -> None:
        """Forget a ledger that is no longer the topic's."""
        self._ledgers.pop(segment.ledger_id, None)
        self._unreadable.pop(segment.ledger_id, None)

    def _note(self, segment: Segment, file: str, entries: Sequence[tuple[int, int]]) -> None:
        before = self._ledgers.get(segment.ledger_id)
        known = () if before is None else before.entries
        found = DamagedLedger(self._owner.name, segment.ledger_id, file, tuple(joined([*known, *entries])))
        if found != before:
            self._ledgers[segment.ledger_id] = found
            positions = ", ".join(found.positions[:_MOST_TOLD]) or "all"
            if len(found.positions) > _MOST_TOLD:
                positions += f" and {len(found.positions) - _MOST_TOLD} more ranges"
            log.error(
                "ledger_damaged", topic=found.topic, ledger=found.ledger_id, file=file, positions=positions,
                mend=how_to_mend(file),
            )  # fmt: skip

    def _miss(self, segment: Segment, ranges: Sequence[tuple[int, int]], reader: LedgerReader | None) -> None:
        if segment.miss(ranges, None if reader is None else reader.index):
            self._owner.entries_missing()
