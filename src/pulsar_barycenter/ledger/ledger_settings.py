"""How large ledgers grow and how often cursors are written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Settings of managed ledgers.

    A ledger is followed by a new one once it has `max_entries_per_ledger` entries or `max_bytes_per_ledger`
    bytes; both are checked per group of appends, so the last group goes beyond. A cursor is written at most
    `mark_delete_per_second` times a second (0: at every change) with at most `max_persisted_ranges` ranges of
    entries acknowledged out of order; what was not written is delivered again after a crash.

    With `skip_non_recoverable` reading goes on behind entries and ledgers that cannot be read, which are never
    delivered then; without, it stops before them with an error.

    Source: Pulsar's managedLedgerMaxEntriesPerLedger, managedLedgerMaxSizePerLedgerMbytes,
    managedLedgerDefaultMarkDeleteRateLimit, managedLedgerMaxUnackedRangesToPersist and autoSkipNonRecoverableData.
    """

    max_entries_per_ledger: int = 50_000
    max_bytes_per_ledger: int = 2048 << 20
    mark_delete_per_second: float = 1.0
    max_persisted_ranges: int = 10_000
    skip_non_recoverable: bool = False
