"""Lists the files of the report log in the driver: those that Spark reads, empty ones, and unreadable ones.

An empty file remains of a report after a loss of power or a failed upload; an unreadable file belongs to another user.
Spark skips both without a message, so the driver looks for them.
"""

import os
from collections.abc import Iterator

from pulsar_barycenter.pipeline.storage.files import Entry, Storage
from pulsar_barycenter.pipeline.storage.layout import REPORT_LOG


def waiting_files(storage: Storage) -> set[str]:
    """Return the paths of all files in the report log: those that the pipeline has not read and moved to the archive
    yet.
    """
    return {path for path, _ in _files(storage)}


def empty_files(storage: Storage) -> list[str]:
    """Return the paths of the empty files in the report log, sorted."""
    return sorted(path for path, entry in _files(storage) if not entry.size)


def forbidden_files(storage: Storage) -> list[str]:
    """Return the paths of the files in the report log that this process has no permission to read, sorted; no paths if
    the storage is not local.
    """
    if storage.local_root is None:
        return []
    return sorted(path for path, _ in _files(storage) if not os.access(storage.address(path), os.R_OK))


def _files(storage: Storage) -> Iterator[tuple[str, Entry]]:
    for entry in storage.entries(REPORT_LOG):
        path = f"{REPORT_LOG}/{entry.name}"
        if entry.name.startswith((".", "_")):
            continue
        if not entry.is_folder:
            if entry.name.endswith(".json"):
                yield path, entry
            continue
        for entry in storage.entries(path):
            if entry.name.endswith(".json") and not entry.name.startswith((".", "_")) and not entry.is_folder:
                yield f"{path}/{entry.name}", entry
