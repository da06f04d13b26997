"""The folder that a refold writes its tables in: all of them appear at once, in place of those of an earlier refold.

In a folder of this machine the tables of a refold are in `.refold-<number>/`, the link `.refold` names the folder that
counts, and `<table>.parquet` is a link through `.refold`. To replace that one link, by a rename, replaces all tables.
A process that is killed before leaves the tables of the earlier refold, or none; killed after, the new ones. What else
it leaves is deleted by the next refold. Of an output that has no links, as earlier versions wrote, files become links
first, with the content they have. A folder among them, which no rename can replace by a link, is missing for a moment.

Elsewhere (`hdfs:`, `s3a:`) there are no links. All tables are complete before the first is replaced, then one is
replaced after the other: a refold that is killed among these renames leaves tables of both, each of them whole.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pulsar_barycenter.pipeline.storage.files import Storage

_CURRENT: Final = ".refold"
_PREFIX: Final = f"{_CURRENT}-"
_NEW_LINK: Final = ".link"


def table_path(name: str) -> str:
    """Return the path of a table in the output."""
    return f"{name}.parquet"


@contextmanager
def replaced_tables(storage: Storage) -> Iterator[str]:
    """Give a folder, a path in `storage`, for files and folders that become the output when the block ends in order.

    What the output has by other names stays. One process at a time may write to an output.
    """
    root = storage.local_root
    if root is None:
        storage.delete(_CURRENT)
        yield _CURRENT
        for entry in storage.entries(_CURRENT):
            storage.delete(entry.name)
            storage.move(f"{_CURRENT}/{entry.name}", entry.name)
        storage.delete(_CURRENT)
        return
    current = _current(root)
    _delete(path for path in _hidden(root) if path != current)
    number = int(current.name.removeprefix(_PREFIX)) + 1 if current else 1
    storage.make_folder(f"{_PREFIX}{number}")
    yield f"{_PREFIX}{number}"
    _replace(root, root / f"{_PREFIX}{number}", current, number)


def _replace(root: Path, new: Path, current: Path | None, number: int) -> None:
    names = [path.name for path in new.iterdir()]
    if any(_is_plain(root / name) for name in names):
        new, current = _adopted(root, new, current, number, names)
    for path in current.iterdir() if current else ():
        if path.name not in names:
            _linked_copy(path, new / path.name)
    _sync(new)
    for path in new.iterdir():
        if not (root / path.name).is_symlink():
            _link(root / path.name, Path(_CURRENT) / path.name)
    _link(root / _CURRENT, Path(new.name))
    _sync_folder(root)
    _delete(path for path in _hidden(root) if path != new)


def _adopted(root: Path, new: Path, current: Path | None, number: int, names: Iterable[str]) -> tuple[Path, Path]:
    """Make links of the plain files and folders `names` of an output; return the new folder, renamed, and theirs."""
    later = new.rename(root / f"{_PREFIX}{number + 1}")
    adopted = new
    adopted.mkdir()
    plain = [name for name in names if _is_plain(root / name)]
    for path in current.iterdir() if current else ():
        if path.name not in plain:
            _linked_copy(path, adopted / path.name)
    for name in plain:
        if (root / name).is_file():
            _linked_copy(root / name, adopted / name)
    _sync(adopted)
    _link(root / _CURRENT, Path(adopted.name))
    for name in plain:
        if (root / name).is_dir():
            (root / name).rename(adopted / name)
        _link(root / name, Path(_CURRENT) / name)
    return later, adopted


def _is_plain(path: Path) -> bool:
    return path.exists() and not path.is_symlink()


def _current(root: Path) -> Path | None:
    link = root / _CURRENT
    target = root / os.readlink(link) if link.is_symlink() else None
    return target if target is not None and target.is_dir() else None


def _hidden(root: Path) -> list[Path]:
    """The folders of refolds, and a link that was not put in its place."""
    names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    return [root / name for name in names if name == _NEW_LINK or name.removeprefix(_PREFIX).isdigit()]


def _delete(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)


def _link(path: Path, target: Path) -> None:
    """Have `path` be a link to `target`, in place of the file or link that is there."""
    unfinished = path.with_name(_NEW_LINK)
    unfinished.symlink_to(target)
    unfinished.replace(path)


def _linked_copy(path: Path, to: Path) -> None:
    """Give a file, or all files of a folder, a second name; a copy where the file system has one name for a file."""
    if path.is_dir():
        shutil.copytree(path, to, copy_function=_second_name)
    else:
        _second_name(path, to)


def _second_name(path: str | Path, to: str | Path) -> None:
    try:
        os.link(path, to)
    except OSError:  # no hard links here, or no more of this file
        shutil.copy2(path, to)


def _sync(folder: Path) -> None:
    """Wait until all files in `folder`, and their names, are on the disk."""
    for parent, _, files in os.walk(folder):
        for path in (*(Path(parent) / file for file in files), Path(parent)):
            _sync_folder(path)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
