"""Data folders by what is in them: which kind a folder is, and whether it holds a history of load already.

A folder is known by what has always been in it; there is no file that says so.
"""

import os
from pathlib import Path
from typing import Final

LEDGERS: Final = "ledgers"
METADATA: Final = "metadata.sqlite"
_OF_LOAD: Final = ("load-reports", "decisions", "pipeline", "tables")
_HISTORIES: Final = ("load-reports", "pipeline/archive", "tables")
_KNOWN_BY: Final = (*_OF_LOAD, LEDGERS, METADATA, "collect.json", "cluster.lock")


class WrongFolderError(Exception):
    """The text says what was expected there, and what to do."""


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
