"""Decides whether a finite job reads so little that Java's first compiler alone is cheaper."""

from collections.abc import Iterator, Sequence
from typing import Final

from pulsar_barycenter.pipeline.spark.java_options import SMALL_WORK_BYTES, Compilers
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import ARCHIVE, DECISIONS, REPORT_LOG, TABLES_FOLDER

_PACKED: Final = 8
"""The approximate number of bytes of a log that become one byte of a table."""


def compilers_for_logs(storage: Storage, *, with_archive: bool) -> Compilers:
    """Return which of Java's compilers suit a job that reads all load reports and decisions once. Without
    `with_archive`, it does not read the archive of reports that the pipeline has already read.
    """
    folders = (REPORT_LOG, DECISIONS, *((ARCHIVE,) if with_archive else ()))
    return Compilers.for_bytes(_bytes_in(storage, folders, at_most=SMALL_WORK_BYTES))


def compilers_for_tables(storage: Storage, names: Sequence[str]) -> Compilers:
    """Return which of Java's compilers suit a job that reads the tables `names` once."""
    folders = [f"{TABLES_FOLDER}/{name}" for name in names]
    return Compilers.for_bytes(_PACKED * _bytes_in(storage, folders, at_most=SMALL_WORK_BYTES // _PACKED))


def _bytes_in(storage: Storage, folders: Sequence[str], *, at_most: int) -> int:
    """Return the total size in bytes of the files in `folders` and their subfolders. If it is more than `at_most`, the
    result is some number above `at_most`.
    """
    total = 0
    for size in (size for folder in folders for size in _sizes(storage, folder)):
        total += size
        if total > at_most:
            break
    return total


def _sizes(storage: Storage, folder: str) -> Iterator[int]:
    for entry in storage.entries(folder):
        if entry.is_folder:
            yield from _sizes(storage, f"{folder}/{entry.name}")
        else:
            yield entry.size
