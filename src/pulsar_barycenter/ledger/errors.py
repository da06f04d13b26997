"""Errors of the ledgers, one shallow tree.

LedgerError
├── LedgerFencedError        a later owner took the ledger over; this writer must stop serving
│   └── LedgerDeletedError   the ledger's record was deleted; this writer must stop serving as well
├── LedgerCorruptedError     an entry before the end of a ledger is damaged; names the file and the offset
├── LedgerVersionError       a later release wrote the file
├── LedgerNotFoundError      the ledger's file is absent
├── LedgerUnreadableError    the file cannot be opened, or is not a file; an operator can fix that
├── LedgerFolderUnfitError   the folder cannot store ledgers safely; nothing was written
├── LedgerFolderLostError    the folder was removed or replaced while it was open; the process has to end
├── LedgerFolderInUseError   brokers use the ledgers that are to be checked, or a check of them is running
├── LedgerFullError          the disk is full, or too few bookies accept writes; existing data stays readable
├── ForeignTopicError        only Java brokers can serve the topic, or do this with it; nothing was changed
├── LedgerTerminatedError    the topic was terminated; it accepts no entry any more
├── LedgerClosedError        the writer, or the whole storage, is closed
└── LedgerUnavailableError   the metadata store or bookies did not answer; it is unknown whether a write took effect
"""

from collections.abc import Sequence
from pathlib import PurePath


class LedgerError(Exception):
    """Base class of every error of a ledger operation."""


class LedgerFencedError(LedgerError):
    def __init__(self, ledger: str, epoch: int, fenced_by: int) -> None:
        super().__init__(f"{ledger}: this owner has epoch {epoch}, an owner of epoch {fenced_by} took over the ledger")
        self.epoch = epoch
        self.fenced_by = fenced_by


class LedgerDeletedError(LedgerFencedError):
    """The record of the managed ledger was deleted from the metadata store. This is a LedgerFencedError, because the
    writer has to stop in the same way. The attribute `fenced_by` does not exist.
    """

    def __init__(self, ledger: str, epoch: int) -> None:
        LedgerError.__init__(
            self, f"{ledger}: the record of the managed ledger was deleted; this owner has epoch {epoch}"
        )
        self.epoch = epoch


class ForeignTopicError(LedgerError):
    """Only Java brokers can serve the topic, or can do what was requested for it. The records of the topic are in
    Pulsar's form.
    """


class LedgerCorruptedError(LedgerError):
    """A ledger's file is damaged. `entries` is the range (first, last) of the entry ids that cannot be read, both
    inclusive; None: no entry of the ledger can be read.
    """

    def __init__(self, file: str, offset: int, detail: str, entries: tuple[int, int] | None = None) -> None:
        super().__init__(f"{file}: the file is damaged at byte {offset}: {detail}. {repair_hint(file)}")
        self.file = file
        self.offset = offset
        self.detail = detail
        self.entries = entries
        self.remedy = repair_hint(file)


class LedgerVersionError(LedgerError):
    def __init__(self, file: str, version: int, known: int) -> None:
        super().__init__(
            f"{file}: the file has format version {version}, but this release reads versions up to {known}; run a "
            "later release"
        )
        self.file = file
        self.version = version


class LedgerNotFoundError(LedgerError):
    def __init__(self, text: str, file: str = "", remedy: str = "") -> None:
        super().__init__(text)
        self.file = file
        self.remedy = remedy or repair_hint(file)


class LedgerUnreadableError(LedgerError):
    remedy = "Correct its permissions, or replace it by the right file"

    def __init__(self, text: str, file: str) -> None:
        super().__init__(f"{text}. {self.remedy}")
        self.file = file


class LedgerFolderUnfitError(LedgerError):
    """The folder cannot store ledgers safely. `problems` are pairs (reason, remedy) of texts; a remedy is what an
    operator can do.
    """

    def __init__(self, folder: str, problems: Sequence[tuple[str, str]]) -> None:
        reasons = "; ".join(f"{reason} ({remedy})" for reason, remedy in problems)
        super().__init__(f"{folder} cannot store ledgers: {reasons}")
        self.problems = tuple(problems)


class LedgerFolderLostError(LedgerError):
    pass


class LedgerFolderInUseError(LedgerError):
    pass


class LedgerFullError(LedgerError):
    pass


class LedgerTerminatedError(LedgerError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic} was terminated: it accepts no message any more. Use another topic.")


class LedgerClosedError(LedgerError):
    pass


class LedgerUnavailableError(LedgerError):
    pass


def repair_hint(file: str) -> str:
    """Return the action that an operator can take for a ledger's damaged or absent `file`, as text for an error or a
    log line.
    """
    ledgers = PurePath(file).parent.parent  # see `LedgerFolder.path`
    return (
        f"Restore the file from a copy; or stop the brokers, run `barycenter ledger check --data {ledgers.parent}`, and"
        " save the intact entries with `barycenter ledger repair`; or set autoSkipNonRecoverableData=true to skip the"
        " damaged ones"
    )
