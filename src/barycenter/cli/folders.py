"""Data folders as the commands find them: which kind it is, whether something is missing, who may read what is made.

A folder is known by what has always been in it; there is no file that says so.
"""

import os
from pathlib import Path

from barycenter.ledger.files.folder import ledger_files

LEDGERS = "ledgers"
METADATA = "metadata.sqlite"


class WrongFolderError(Exception):
    """The text says what was expected there, and what to do."""


def keep_private() -> None:
    """Have all that this process and its children make readable by their user alone; what is there stays as it is."""
    os.umask(0o077)


def check_metadata(data: Path, metadata: Path) -> None:
    """Return if the metadata that belongs to the ledgers of `data` is there, or if there are no ledgers.

    Raises:
        WrongFolderError: there are ledgers, and nobody would know whose: their messages would be out of sight.
    """
    ledgers = data / LEDGERS
    if metadata.exists() and metadata.stat().st_size:
        return
    first = next(ledger_files(str(ledgers)), None)
    if first is not None:
        state = "is empty" if metadata.exists() else "is missing"
        raise WrongFolderError(
            f"{metadata} {state}, but {ledgers} holds ledgers, whose topics and subscriptions only that file knows."
            f" Restore it from a copy; or, to begin with an empty cluster, move {ledgers} away."
        )


def check_broker_folder(data: Path, metadata: Path) -> None:
    """Return if `data` is the data folder of brokers.

    Raises:
        WrongFolderError: it is none.
    """
    check_metadata(data, metadata)
    if not (data / LEDGERS).is_dir() or not metadata.exists():
        raise WrongFolderError(
            f"{data} is no data folder of brokers: expected {LEDGERS}/ in it, and {metadata};"
            " --data is the folder given to `barycenter standalone`, or barycenterDataDir of broker.conf"
        )
