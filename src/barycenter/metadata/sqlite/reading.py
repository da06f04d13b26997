"""One value of a SQLite file, read without a session: nothing is written, whether brokers use the file or not."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from barycenter.metadata.errors import MetadataError


def read_value(file: Path, path: str) -> tuple[bytes, int] | None:
    """Return the value at `path` and when it was last changed (epoch ms); None if there is none.

    Raises:
        MetadataError: the file cannot be read, or is none of a store.
    """
    # a file that nobody has open is read as it lies there: else SQLite leaves two files beside it
    how = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?{how}", uri=True)) as db:
            row = db.execute("SELECT value, modified_at_ms FROM keys WHERE path = ?", (path,)).fetchone()
    except sqlite3.Error as error:
        raise MetadataError(str(file), str(error)) from error
    return None if row is None else (bytes(row[0]), int(row[1]))
