"""The files in the log of reports, as the driver lists them: those that Spark reads, and those without content.

An empty file is what a machine that lost power leaves of a report, or an upload that failed; one that may not be read
is another user's. Spark passes over both without a word, so the driver looks for them.
"""

import os
from collections.abc import Iterator

from pulsar_barycenter.pipeline.storage.files import Entry, Storage
from pulsar_barycenter.pipeline.storage.layout import REPORT_LOG


def waiting_files(storage: Storage) -> set[str]:
    """The paths of the files of reports."""
    return {path for path, _ in _files(storage)}


def empty_files(storage: Storage) -> list[str]:
    """The paths of those with nothing in them, in order."""
    return sorted(path for path, entry in _files(storage) if not entry.size)


def forbidden_files(storage: Storage) -> list[str]:
    """The paths of those that this process may not read, in order; none where files are not of this machine."""
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
        for each in storage.entries(path):
            if each.name.endswith(".json") and not each.name.startswith((".", "_")) and not each.is_folder:
                yield f"{path}/{each.name}", each
