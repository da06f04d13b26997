"""Checks the data folders of brokers: whether the metadata of the ledgers exists, and which kind of folder it is."""

from pathlib import Path

from pulsar_barycenter.cluster_logs.data_folder import LEDGERS, METADATA, WrongFolderError
from pulsar_barycenter.ledger.files.folder import ledger_files


def check_metadata(data: Path, metadata: Path) -> None:
    """Check that the metadata of the ledgers in `data` exists, if there are ledgers.

    Raises:
        WrongFolderError: there are ledgers without metadata; no topic could read their messages.
    """
    ledgers = data / LEDGERS
    if metadata.exists() and metadata.stat().st_size:
        return
    first = next(ledger_files(str(ledgers)), None)
    if first is not None:
        state = "is empty" if metadata.exists() else "is missing"
        raise WrongFolderError(
            f"{metadata} {state}, but {ledgers} has ledgers. Only that file says which topics and subscriptions the"
            f" ledgers belong to. Restore the file from a copy; or, to start with an empty cluster, move {ledgers}"
            " away."
        )


def check_broker_folder(data: Path, metadata: Path) -> None:
    """Check that `data` is a data folder of brokers.

    Raises:
        WrongFolderError: `data` is not a data folder of brokers, or lacks the metadata of its ledgers.
    """
    check_metadata(data, metadata)
    is_one = (data / LEDGERS).is_dir() or (data / METADATA).exists()
    if not is_one or not metadata.exists():
        raise WrongFolderError(
            f"{data} is not a data folder of brokers: the folder {LEDGERS}/ in it, or {metadata}, is missing; give"
            " the folder that was given to `barycenter standalone` as --data, or that is barycenterDataDir in"
            " broker.conf"
        )


def check_ledgers_folder(folder: Path) -> None:
    """Check that `folder` is not a data folder: the ledgers of a data folder are in a folder below it. `folder` need
    not exist.

    Raises:
        WrongFolderError: `folder` is a data folder.
    """
    if (folder / LEDGERS).is_dir():
        raise WrongFolderError(f"{folder} is a data folder, not a folder of ledgers: give {folder / LEDGERS} instead")
