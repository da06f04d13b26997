"""Errors of the ledgers, one shallow tree.

LedgerError
├── LedgerFencedError        a later owner took the ledger over; this writer must stop serving
├── LedgerCorruptedError     a damaged entry before the end of a ledger; names the file and the offset
├── LedgerNotFoundError      the ledger's file is absent
├── LedgerFullError          the disk is full; nothing was acknowledged, existing data stays readable
├── LedgerClosedError        the writer, or the whole storage, was closed
└── LedgerUnavailableError   the metadata store did not answer; whether a write took effect is unknown
"""


class LedgerError(Exception):
    """Anything that a ledger operation can fail with."""


class LedgerFencedError(LedgerError):
    def __init__(self, ledger: str, epoch: int, fenced_by: int) -> None:
        super().__init__(f"{ledger}: written under epoch {epoch}, taken over under epoch {fenced_by}")
        self.epoch = epoch
        self.fenced_by = fenced_by


class LedgerCorruptedError(LedgerError):
    def __init__(self, file: str, offset: int, detail: str) -> None:
        super().__init__(f"{file}: damaged at byte {offset}: {detail}. Restore the file from a copy, or move it away.")
        self.file = file
        self.offset = offset


class LedgerNotFoundError(LedgerError):
    pass


class LedgerFullError(LedgerError):
    pass


class LedgerClosedError(LedgerError):
    pass


class LedgerUnavailableError(LedgerError):
    pass
