"""Recognizes data folders by their content: the kind of a folder, and whether it already has a history of load.

No file states the kind of a folder: it is recognized by files that every version writes.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LEDGERS: Final = "ledgers"
METADATA: Final = "metadata.sqlite"
_OF_LOAD: Final = ("load-reports", "decisions", "pipeline", "tables")
_HISTORIES: Final = ("load-reports", "pipeline/archive", "tables")
_KNOWN_BY: Final = (*_OF_LOAD, LEDGERS, METADATA, "collect.json", "cluster.lock")


class WrongFolderError(Exception):
    """A folder is not of the expected kind; the text says what was expected there, and what to do."""


def check_load_folder(data: Path, *, may_be_empty: bool = True) -> None:
    """Check that `data` is the data folder of a cluster, of `collect` or of `generate-load`. With `may_be_empty` an
    empty folder is accepted too.

    Raises:
        WrongFolderError: `data` is a folder of another kind, or does not exist.
        OSError: `data` cannot be read.
    """
    if not data.exists():
        raise WrongFolderError(f"there is no folder {data}; name the data folder of a cluster")
    names = set(os.listdir(data))
    if not names.intersection(_KNOWN_BY) and (names or not may_be_empty):
        raise WrongFolderError(
            f"{data} is not a data folder: it must contain load-reports/, which brokers, `barycenter collect` and"
            f" `barycenter generate-load` write, or tables/, which the pipeline writes{_did_you_mean(data, names)}"
        )


def _did_you_mean(data: Path, names: Iterable[str]) -> str:
    """Return the end of a sentence that suggests one of `names`, the entries of the folder `data`: the first that is a
    data folder; "" if none is.
    """
    found = (name for name in sorted(names) for kind in _OF_LOAD if os.path.isdir(data / name / kind))
    first = next(found, "")
    return f"; did you mean {data / first}?" if first else ""


def check_no_history(data: Path) -> None:
    """Check that `data` has neither load reports nor anything that was made from them. A folder that does not exist is
    accepted.

    Raises:
        WrongFolderError: `data` has them, or is a folder of another kind that is not empty.
    """
    if not data.exists():
        return
    check_load_folder(data)
    found = next((name for name in _HISTORIES if any((data / name).rglob("*.*"))), None)
    if found is not None:
        raise WrongFolderError(
            f"{data / found} already has a history; give another folder, or --add to continue this history"
        )
