"""Converts errors of the BookKeeper client and of its metadata store to errors of ledgers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pulsar_barycenter.bookkeeper.errors import (
    BookKeeperError,
    LedgerMetadataError,
    NoSuchLedgerError,
    RecoveryError,
    TooFewBookiesError,
    UnreadableEntryError,
    WriterClosedError,
    WrongPasswordError,
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
    """Return the name of the ledger with this id on bookies, for messages and logs."""
    return f"BookKeeper ledger {ledger}"


def remedy_of(ledger: int) -> str:
    """Return, as text, what an operator can do if entries of the ledger with this id cannot be read."""
    return (
        "Start the bookies that are down, or bring back their disks; `bookkeeper shell ledgermetadata -ledgerid"
        f" {ledger}` lists the bookies of this ledger. If the disks cannot be brought back, set"
        " autoSkipNonRecoverableData=true to skip the lost entries"
    )


_REMEDY_OF_METADATA: Final = (
    "Restore the ledger's key in the metadata store of the bookies from a copy; or set autoSkipNonRecoverableData=true"
    " to skip the ledger"
)
"""What an operator can do if the metadata of a ledger is absent or damaged, as text: then nothing says which bookies
have its entries.
"""


class LostEntriesError(LedgerCorruptedError):
    """Entries of a ledger are lost: none of the bookies that should have them has them, or the metadata of the ledger
    is damaged. `entries` is the range (first, last) of the lost entry ids, both inclusive; None: no entry of the ledger
    can be read. `remedy` says what an operator can do; blank: what `remedy_of` returns.
    """

    def __init__(self, ledger: int, detail: str, entries: tuple[int, int] | None = None, remedy: str = "") -> None:
        self.remedy = remedy or remedy_of(ledger)
        LedgerError.__init__(self, f"{ledger_name(ledger)}: {detail}. {self.remedy}")
        self.file = ledger_name(ledger)
        self.offset = 0
        self.detail = detail
        self.entries = entries


def as_ledger_error(ledger: int, error: BookKeeperError | MetadataError) -> LedgerError:
    """Return the LedgerError that corresponds to `error`, an error of the BookKeeper client or of the metadata store.
    `ledger` is the id of the ledger that it concerns.
    """
    match error:
        case NoSuchLedgerError():
            return LedgerNotFoundError(str(error), ledger_name(ledger), _REMEDY_OF_METADATA)
        case LedgerMetadataError():
            return LostEntriesError(ledger, str(error), remedy=_REMEDY_OF_METADATA)
        case TooFewBookiesError():
            return LedgerFullError(str(error))
        case WriterClosedError():
            return LedgerClosedError(str(error))
        case WrongPasswordError():
            return LedgerError(f"{error}, with the key managedLedgerPassword of all brokers")
        case RecoveryError() | UnreadableEntryError() | MetadataError():
            return LedgerUnavailableError(str(error))
    return LedgerError(str(error))


@contextmanager
def ledger_errors(ledger: int) -> Iterator[None]:
    """Context manager: if the `with` statement raises an error of the BookKeeper client or of the metadata store, raise
    the corresponding LedgerError for the ledger with the id `ledger` instead.
    """
    try:
        yield
    except (BookKeeperError, MetadataError) as error:
        raise as_ledger_error(ledger, error) from error
