"""Data folders of brokers: whether the metadata that belongs to ledgers is there, and which folder is which."""

from pathlib import Path

from pulsar_barycenter.cluster_logs.data_folder import LEDGERS, METADATA, WrongFolderError
from pulsar_barycenter.ledger.files.folder import ledger_files


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
