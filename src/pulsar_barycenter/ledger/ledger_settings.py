"""The settings of managed ledgers: the size of ledgers, the rate of cursor writes, retention, and what happens at
damage.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple


class Retention(NamedTuple):
    """How long a ledger is kept after all subscriptions have consumed it. A ledger ends when the next ledger of the
    topic is created.

    A consumed ledger is deleted as soon as it ended more than `time_ms` ago, or as soon as the ledgers after it have
    `size` bytes or more in total. A value below 0 means no limit. If one of the values is 0, no consumed ledger is
    kept.
    """

    time_ms: int = 0
    size: int = 0


NO_RETENTION: Final = Retention()


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Settings of managed ledgers.

    A ledger is full at `max_entries_per_ledger` entries or `max_bytes_per_ledger` bytes. Both are checked after each
    group of appends, so a ledger may exceed them by the last group. `ManagedLedger.roll_if_old` ends a ledger that is
    older than `max_ledger_age_ms` (0: age ends no ledger).
    The record of a cursor is written at most `mark_delete_per_second` times a second (0: at every change). It has at
    most `max_persisted_ranges` ranges of entries that were acknowledged out of order. After a crash, entries whose
    acknowledgements were not written are delivered again.
    A cursor records which messages of a batch are acknowledged for at most `max_partly_acked_entries` entries (0: for
    no entry, so a batch is only acknowledged as a whole). If `skip_non_recoverable` is True, reading skips entries and
    ledgers that cannot be read, and they are never delivered. If it is False, reading stops before them with an error.
    `retention` applies to ledgers that all cursors have passed.

    Source: Pulsar's managedLedgerMaxEntriesPerLedger, managedLedgerMaxSizePerLedgerMbytes,
    managedLedgerMaxLedgerRolloverTimeMinutes, managedLedgerDefaultMarkDeleteRateLimit,
    managedLedgerMaxUnackedRangesToPersist, managedLedgerMaxBatchDeletedIndexToPersist and autoSkipNonRecoverableData.
    """

    max_entries_per_ledger: int = 50_000
    max_bytes_per_ledger: int = 2048 << 20
    max_ledger_age_ms: int = 0
    mark_delete_per_second: float = 1.0
    max_persisted_ranges: int = 10_000
    max_partly_acked_entries: int = 10_000
    skip_non_recoverable: bool = False
    retention: Retention = NO_RETENTION
