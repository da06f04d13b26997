"""How much a topic's ledgers hold."""

from typing import NamedTuple, Self

from barycenter.ledger.managed.segments import Segments


class LedgerFigures(NamedTuple):
    ledger_id: int
    entries: int
    size: int
    messages: int
    is_open: bool


class ManagedLedgerStats(NamedTuple):
    """Sizes in bytes; the ledgers oldest first."""

    entries: int
    size: int
    messages: int
    ledgers: tuple[LedgerFigures, ...]

    @classmethod
    def of(cls, segments: Segments) -> Self:
        ledgers = tuple(LedgerFigures(s.ledger_id, s.entries, s.size, s.messages, not s.closed) for s in segments)
        return cls(
            sum(s.entries for s in ledgers), sum(s.size for s in ledgers), sum(s.messages for s in ledgers), ledgers
        )
