"""Data folders as the commands find them: which kind it is, whether something is missing, who may read what is made.

A folder is known by what has always been in it; there is no file that says so.
"""

import os
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.ledger.files.folder import ledger_files

LEDGERS: Final = "ledgers"
METADATA: Final = "metadata.sqlite"
_OF_LOAD: Final = ("load-reports", "decisions", "pipeline", "tables")
_HISTORIES: Final = ("load-reports", "pipeline/archive", "tables")
_KNOWN_BY: Final = (*_OF_LOAD, LEDGERS, METADATA, "collect.json", "cluster.lock")


class WrongFolderError(Exception):
    """The text says what was expected there, and what to do."""


def keep_private() -> None:
    """Have all that this command and its children make readable by their user alone; what is there stays as it is."""
    before = os.umask(0o077)
    click.get_current_context().call_on_close(lambda: os.umask(before))


def check_load_folder(data: Path, *, may_be_empty: bool = True) -> None:
    """Return if `data` is the data folder of a cluster, of `collect` or of `generate-load`, or an empty folder.

    Raises:
        WrongFolderError: it is none, or is not there.
        OSError: it cannot be read.
    """
    if not data.exists():
        raise WrongFolderError(f"there is no folder {data}; name the data folder of a cluster")
    names = set(os.listdir(data))
    if not names.intersection(_KNOWN_BY) and (names or not may_be_empty):
        raise WrongFolderError(
            f"{data} is no data folder: expected load-reports/ in it, as brokers, `barycenter collect` or"
            " `barycenter generate-load` make it"
        )


def check_no_history(data: Path) -> None:
    """Return if no load reports are in `data`, and nothing that was made of some.

    Raises:
        WrongFolderError: there are; or `data` is another kind of folder, with files in it.
    """
    if not data.exists():
        return
    check_load_folder(data)
    found = next((name for name in _HISTORIES if any((data / name).rglob("*.*"))), None)
    if found is not None:
        raise WrongFolderError(
            f"{data / found} holds a history already, and two in one folder are mixed; give another folder, or --add"
        )


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
    is_one = (data / LEDGERS).is_dir() or (data / METADATA).exists()
    if not is_one or not metadata.exists():
        raise WrongFolderError(
            f"{data} is no data folder of brokers: expected {LEDGERS}/ in it, and {metadata};"
            " --data is the folder given to `barycenter standalone`, or barycenterDataDir of broker.conf"
        )


def check_ledgers_folder(folder: Path) -> None:
    """Return unless `folder` is a data folder, whose ledgers are in a folder of it; one that is missing is none.

    Raises:
        WrongFolderError: it is one.
    """
    if (folder / LEDGERS).is_dir():
        raise WrongFolderError(f"{folder} is a data folder: give {folder / LEDGERS}")
