"""Writes the tables of a refold to a folder, so that all of them appear at once and replace those of an earlier refold.

On a local file system, the tables of a refold are in `.refold-<number>/`. The link `.refold` names the current one of
these folders, and `<table>.parquet` is a link through `.refold`. One rename replaces `.refold`, and with it all tables.
If the process is killed before the rename, the tables of the earlier refold remain, or none if there was no earlier
refold. After the rename, the new tables are there. The next refold deletes other leftovers. Earlier versions of
Barycenter wrote plain files and folders instead of links. The next refold first converts these to links with the same
content. A rename cannot replace a folder by a link, so such a folder is missing for a moment.

At other addresses (`hdfs:`, `s3a:`) there are no links. All tables are complete before the first one is replaced, and
then they are replaced one by one. A refold that is killed during these renames leaves some tables of each refold, each
complete.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.whole_files.appearing import sync

_CURRENT: Final = ".refold"
_PREFIX: Final = f"{_CURRENT}-"
_NEW_LINK: Final = ".link"


def table_path(name: str) -> str:
    """Return the path of the table `name`, relative to the folder to which a refold writes its results."""
    return f"{name}.parquet"


@contextmanager
def replaced_tables(storage: Storage) -> Iterator[str]:
    """Yield a new folder, as a path relative to `storage`, in which the caller writes tables. If the block ends without
    an error, they replace the files and folders with the same names in the root of `storage`; other entries there stay.
    If the block ends with an error, nothing is replaced.

    Only one process at a time may write to `storage`.
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
    sync(root)
    _delete(path for path in _hidden(root) if path != new)


def _adopted(root: Path, new: Path, current: Path | None, number: int, names: Iterable[str]) -> tuple[Path, Path]:
    """Replace those of the files and folders `names` in `root` that are not links by links to the same content, because
    only links can be replaced all at once. Readers still see the old content afterwards.

    `new` is the folder with the new tables; its name ends with `number`. `current` is the folder to which existing
    links lead, None if there is none. The folder `new` is renamed: its name then ends with `number` + 1. A new folder
    with `number` gets the old content. Return both: first the folder of the new tables, then that of the old content.
    """
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
    """Return the hidden folders in `root` in which refolds keep their tables, and the link, if any, that a refold was
    creating when it was interrupted.
    """
    names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    return [root / name for name in names if name == _NEW_LINK or name.removeprefix(_PREFIX).isdigit()]


def _delete(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)


def _link(path: Path, target: Path) -> None:
    """Make `path` a symbolic link to `target`. It replaces a file or a link at `path` at once; a folder there is an
    error.
    """
    unfinished = path.with_name(_NEW_LINK)
    unfinished.symlink_to(target)
    unfinished.replace(path)


def _linked_copy(path: Path, to: Path) -> None:
    """Create hard links at `to`, to the file `path` or to all files of the folder `path`. Files are copied where the
    file system refuses a hard link.
    """
    if path.is_dir():
        shutil.copytree(path, to, copy_function=_second_name)
    else:
        _second_name(path, to)


def _second_name(path: str | Path, to: str | Path) -> None:
    try:
        os.link(path, to)
    except OSError:  # no hard links here, or this file has the most allowed
        shutil.copy2(path, to)


def _sync(folder: Path) -> None:
    """Make the content of all files in `folder` and its subfolders, and the files' names, durable on the disk."""
    for parent, _, files in os.walk(folder):
        for path in (*(Path(parent) / file for file in files), Path(parent)):
            sync(path)
