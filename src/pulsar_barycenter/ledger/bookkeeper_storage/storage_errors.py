"""Converts errors of the BookKeeper client and of its metadata store to errors of ledgers."""

from collections.abc import Iterator
from contextlib import contextmanager

from pulsar_barycenter.bookkeeper.errors import (
    BookKeeperError,
    LedgerMetadataError,
    NoSuchLedgerError,
    RecoveryError,
    TooFewBookiesError,
    UnreadableEntryError,
    WriterClosedError,
)
from pulsar_barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerCorruptedError,
    LedgerError,
    LedgerFullError,
    LedgerNotFoundError,
    LedgerUnavailableError,
)
from pulsar_barycenter.metadata.errors import MetadataError


def ledger_name(ledger: int) -> str:
    """Return the name by which messages and logs call a ledger on bookies."""
    return f"BookKeeper ledger {ledger}"


def remedy_of(ledger: int) -> str:
    """Return what an operator can do if entries of this ledger cannot be read, as text."""
    return (
        "Start the bookies that are down, or bring back their disks; `bookkeeper shell ledgermetadata -ledgerid"
        f" {ledger}` lists the bookies of this ledger. If the disks cannot be brought back, set"
        " autoSkipNonRecoverableData=true to skip the lost entries"
    )


class LostEntriesError(LedgerCorruptedError):
    """The entries `entries` (first, last), both inclusive, are on none of the bookies that should have them; None: no
    entry can be read.
    """

    def __init__(self, ledger: int, detail: str, entries: tuple[int, int] | None = None) -> None:
        self.remedy = remedy_of(ledger)
        LedgerError.__init__(self, f"{ledger_name(ledger)}: {detail}. {self.remedy}")
        self.file = ledger_name(ledger)
        self.offset = 0
        self.detail = detail
        self.entries = entries


def as_ledger_error(ledger: int, error: BookKeeperError | MetadataError) -> LedgerError:
    """Return the error of a ledger that corresponds to `error`."""
    match error:
        case NoSuchLedgerError():
            return LedgerNotFoundError(str(error), ledger_name(ledger), remedy_of(ledger))
        case LedgerMetadataError():
            return LostEntriesError(ledger, str(error))
        case TooFewBookiesError():
            return LedgerFullError(str(error))
        case WriterClosedError():
            return LedgerClosedError(str(error))
        case RecoveryError() | UnreadableEntryError() | MetadataError():
            return LedgerUnavailableError(str(error))
    return LedgerError(str(error))


@contextmanager
def ledger_errors(ledger: int) -> Iterator[None]:
    """Context manager: raise errors of the BookKeeper client and of the metadata store as errors of this ledger."""
    try:
        yield
    except (BookKeeperError, MetadataError) as error:
        raise as_ledger_error(ledger, error) from error
