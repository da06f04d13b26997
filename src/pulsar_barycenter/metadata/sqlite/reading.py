"""Reads values from the SQLite file of a metadata store without a session, even while brokers use the file. Writes
nothing.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from pulsar_barycenter.metadata.errors import MetadataError


def read_value(file: Path, path: str) -> tuple[bytes, int] | None:
    """Return the value at `path`, and the time of its last change (ms since 1970); None if the key does not exist.

    Raises:
        MetadataError: the file cannot be read, or is not a metadata store.
    """
    with _reading(file) as db:
        row = db.execute("SELECT value, modified_at_ms FROM keys WHERE path = ?", (path,)).fetchone()
    return None if row is None else (bytes(row[0]), int(row[1]))


def read_folders(file: Path, folders: Sequence[str], keys: Sequence[str], *, most: int) -> list[tuple[str, bytes]]:
    """Return the paths and values of all keys below the paths `folders`, and of the keys `keys`, sorted by path. All
    values are from the same moment.

    Raises:
        MetadataError: the file cannot be read, is not a metadata store, or has more than `most` keys below one of
            `folders`.
    """
    found: dict[str, bytes] = {}
    with _reading(file) as db:
        db.execute("BEGIN")
        for folder in folders:
            below = (f"{folder}/", f"{folder}0", most + 1)  # "0" is the character after "/"
            rows = db.execute("SELECT path, value FROM keys WHERE path > ? AND path < ? LIMIT ?", below).fetchall()
            if len(rows) > most:
                raise MetadataError(
                    folder, f"the keys below this path were not read: there are more than {most:,} keys, the maximum"
                )
            found.update((path, bytes(value)) for path, value in rows)
        for key in keys:
            row = db.execute("SELECT value FROM keys WHERE path = ?", (key,)).fetchone()
            if row is not None:
                found[key] = bytes(row[0])
    return sorted(found.items())


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Context manager: open the SQLite file of a metadata store for reading, and close it at the end of the `with`
    statement.

    Raises:
        MetadataError: the file cannot be read, or is not a metadata store. SQLite errors inside the `with` statement
            are raised as MetadataError, too.
    """
    # SQLite would leave two files next to a file that no process has open; `immutable` prevents that
    how = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?{how}", uri=True)) as db:
            yield db
    except sqlite3.Error as error:
        raise MetadataError(str(file), str(error)) from error
