"""Where a data directory lies: a local folder, or its copy in an object store or HDFS.

Tables can be read wherever Arrow and Spark read: `file:`, `s3a:` and `hdfs:` addresses, or local paths. The folder that
a running pipeline works in is local by design: its lock, its state and its atomic renames are those of a file system of
the machine that the driver runs on.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from pathlib import Path

import pyarrow.fs as pafs

from barycenter.pipeline.fold_kernel import filesystem_of
from barycenter.pipeline.tables import DATE_PREFIX, TableFile, live_files, table_file_of, without_replaced

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


class NotLocalError(ValueError):
    """An address was given where only a folder of this machine will do."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"{address} is not a folder of this machine: a running pipeline keeps its lock, its state and its tables"
            " in a local folder; copy `tables` to an object store from there, or read them there with `refold`"
        )


def local_folder(address: str) -> Path:
    """Return the local path that `address` names, itself a path or a `file:` address.

    Raises:
        NotLocalError: it names something else.
    """
    scheme = _SCHEME.match(address)
    if scheme is None:
        return Path(address)
    if scheme[1] != "file":
        raise NotLocalError(address)
    return Path(filesystem_of(address)[1])


def is_local(address: str) -> bool:
    scheme = _SCHEME.match(address)
    return scheme is None or scheme[1] == "file"


def table_addresses(data: str, name: str, *, dates: Collection[str] | None = None) -> list[str]:
    """The files that make up the table `name` of the data directory at `data` now, for Spark and `refold`.

    `dates` (yyyy-mm-dd) names the dates wanted; None: all. Addresses have the scheme of `data`; empty when there is no
    such table. Files that a compacted one stands for are left out, see `pipeline.tables`.
    """
    if is_local(data):
        return [str(file) for file in live_files(local_folder(data).absolute() / "tables", name, dates=dates)]
    system, root = filesystem_of(data)
    selector = pafs.FileSelector(posixpath.join(root, "tables", name), allow_not_found=True, recursive=True)
    return addresses_of(data, root, [info.path for info in system.get_file_info(selector)], dates=dates)


def addresses_of(data: str, root: str, paths: Collection[str], *, dates: Collection[str] | None = None) -> list[str]:
    """Return the addresses of the table files among `paths`, which lie under `root`, the path of `data` there."""
    by_folder: dict[str, list[TableFile]] = {}
    for path in paths:
        folder, file_name = posixpath.split(path)
        date = posixpath.basename(folder)
        is_wanted = dates is None or date.removeprefix(DATE_PREFIX) in dates
        file = table_file_of(file_name, Path(path))
        if date.startswith(DATE_PREFIX) and is_wanted and file is not None:
            by_folder.setdefault(folder, []).append(file)
    base = data.rstrip("/")
    return [
        f"{base}/{posixpath.relpath(file.path.as_posix(), root)}"
        for folder in sorted(by_folder)
        for file in without_replaced(by_folder[folder])
    ]
