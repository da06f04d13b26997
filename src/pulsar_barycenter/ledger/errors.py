"""Errors of the ledgers, one shallow tree.

LedgerError
├── LedgerFencedError        a later owner took the ledger over; this writer must stop serving
│   └── LedgerDeletedError   its record was deleted; this writer must stop serving as well
├── LedgerCorruptedError     a damaged entry before the end of a ledger; names the file and the offset
├── LedgerVersionError       a later release wrote the file
├── LedgerNotFoundError      the ledger's file is absent
├── LedgerUnreadableError    the ledger's file may not be read, or is none; a hand can mend that
├── LedgerFolderUnfitError   the folder cannot hold ledgers safely; nothing was written
├── LedgerFolderLostError    the folder was removed or replaced while it was open; this process has to end
├── LedgerFolderInUseError   brokers use the ledgers that are to be checked, or these are being checked
├── LedgerFullError          the disk is full; nothing was acknowledged, existing data stays readable
├── LedgerClosedError        the writer, or the whole storage, was closed
└── LedgerUnavailableError   the metadata store did not answer; whether a write took effect is unknown
"""

from collections.abc import Sequence
from pathlib import PurePath


class LedgerError(Exception):
    """Anything that a ledger operation can fail with."""


class LedgerFencedError(LedgerError):
    def __init__(self, ledger: str, epoch: int, fenced_by: int) -> None:
        super().__init__(f"{ledger}: written under epoch {epoch}, taken over under epoch {fenced_by}")
        self.epoch = epoch
        self.fenced_by = fenced_by


class LedgerDeletedError(LedgerFencedError):
    """A kind of LedgerFencedError, because the writer stops as it does for a later owner. There is no `fenced_by`."""

    def __init__(self, ledger: str, epoch: int) -> None:
        LedgerError.__init__(self, f"{ledger}: written under epoch {epoch}, and deleted since")
        self.epoch = epoch


class LedgerCorruptedError(LedgerError):
    """`entries` are the first and the last entry that cannot be read, None if that is all of the ledger."""

    def __init__(self, file: str, offset: int, detail: str, entries: tuple[int, int] | None = None) -> None:
        super().__init__(f"{file}: damaged at byte {offset}: {detail}. {how_to_mend(file)}")
        self.file = file
        self.offset = offset
        self.detail = detail
        self.entries = entries


class LedgerVersionError(LedgerError):
    def __init__(self, file: str, version: int, known: int) -> None:
        super().__init__(
            f"{file}: written by format version {version}, this program reads up to {known}; run a later release"
        )
        self.file = file
        self.version = version


class LedgerNotFoundError(LedgerError):
    def __init__(self, text: str, file: str = "") -> None:
        super().__init__(text)
        self.file = file


class LedgerUnreadableError(LedgerError):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(f"{text}. Mend its rights, or put the right file in its place")
        self.file = file


class LedgerFolderUnfitError(LedgerError):
    """`problems` are pairs of why, and what to do."""

    def __init__(self, folder: str, problems: Sequence[tuple[str, str]]) -> None:
        told = "; ".join(f"{why} ({mend})" for why, mend in problems)
        super().__init__(f"{folder} cannot hold ledgers: {told}")
        self.problems = tuple(problems)


class LedgerFolderLostError(LedgerError):
    pass


class LedgerFolderInUseError(LedgerError):
    pass


class LedgerFullError(LedgerError):
    pass


class LedgerClosedError(LedgerError):
    pass


class LedgerUnavailableError(LedgerError):
    pass


def how_to_mend(file: str) -> str:
    """Return what an operator does about a ledger's damaged or absent `file`."""
    ledgers = PurePath(file).parent.parent  # see `LedgerFolder.path`
    return (
        f"Restore the file from a copy; or stop the brokers, see `barycenter ledger check --data {ledgers.parent}`, and"
        " keep what is whole with `barycenter ledger repair`; or set autoSkipNonRecoverableData=true to go on without"
    )
