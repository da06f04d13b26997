"""The SQLite file of a metadata store: opening it, its tables, and the keys in them. Runs on one thread.

| table     | content                                                                                      |
|-----------|----------------------------------------------------------------------------------------------|
| keys      | path, value, version, times, whether ephemeral, session that created it                       |
| tree      | every (parent, name) that is a key or is above one, so that children are one index range      |
| sequences | the last number given to each sequential path                                                 |
| sessions  | sessions that are alive: timeout, heartbeat count, name of the lock file                      |
| changes   | what changed, numbered without gaps; every client reads those it has not seen                  |

Only the newest changes are kept. The changes are numbered, so a client knows when it has missed some.

Space is reserved for a time when the disk is full. The write-ahead log gets its blocks when the file is opened, and the
file gets free pages from time to time. So heartbeats and small writes need no disk space for long.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from pulsar_barycenter.metadata.conditions import PutOptions, check_delete, check_guard, check_put, sequential_path
from pulsar_barycenter.metadata.errors import StoreFileError
from pulsar_barycenter.metadata.sqlite.silence import SeenSession
from pulsar_barycenter.metadata.store import Guard, Notification, NotificationType, Record, Stat, parent_path

Result = TypeVar("Result")

APPLICATION_ID: Final = 0x42617279
"""The number in the header of an SQLite file by which the files of metadata stores are recognised ("Bary")."""
SCHEMA_VERSION: Final = 1
CHANGES_PER_TRIM: Final = 1000
MAX_CHANGES_READ: Final = 10_000
LOG_ROOM: Final = 8 << 20
"""The size in bytes that SQLite's write-ahead log has from the start. SQLite writes at its beginning again after about
half of it.
"""
LOG_LIMIT: Final = 2 * LOG_ROOM
"""If the write-ahead log is longer than this number of bytes, SQLite truncates it to this size."""
FREE_ROOM: Final = 2 << 20
"""The number of bytes in free pages of the file, for a full disk. New ones are added when half of them are used."""

_SCHEMA: Final = """
CREATE TABLE keys (
    path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, created_at_ms INTEGER NOT NULL,
    modified_at_ms INTEGER NOT NULL, ephemeral INTEGER NOT NULL, session INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ephemeral_keys ON keys (session) WHERE ephemeral;
CREATE TABLE tree (parent TEXT, name TEXT, PRIMARY KEY (parent, name)) WITHOUT ROWID;
CREATE TABLE sequences (path TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, timeout_ms INTEGER NOT NULL, beat INTEGER NOT NULL, lock_file TEXT NOT NULL
);
CREATE TABLE changes (id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, path TEXT NOT NULL);
"""

OPENING_PATIENCE_S: Final = 15.0
"""How many seconds opening the file may wait for another process, which may be creating it: that takes long on a busy
disk.
"""


class SqliteFile:
    """A connection to the SQLite file of a metadata store. If a method raises sqlite3.Error, the open transaction has
    changed nothing; only if `commit` raises it, it is unknown whether the transaction took effect.
    """

    def __init__(self, path: Path, *, patience_s: float, kept_changes: int) -> None:
        """Open the file, which is created if it does not exist.

        If another process is in a transaction, an operation waits for it for `patience_s` seconds. Opening the file may
        wait longer (OPENING_PATIENCE_S), because there is no session yet that could expire. The file keeps the last
        `kept_changes` changes, for clients that have not read them yet. A client that reads later has missed changes,
        and drops all cached values.

        Raises:
            StoreFileError: the file belongs to another program, is damaged, was written by a later version, or cannot
                be opened.
        """
        self._path = path
        self._patience_s = max(patience_s, OPENING_PATIENCE_S)
        self._kept_changes = kept_changes
        try:
            # SQLite gives the files that it creates the permissions of this one
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=True)
        except (OSError, sqlite3.Error) as error:
            raise StoreFileError(str(path), f"the file cannot be opened: {error}") from error
        try:
            self._set_up()
        except sqlite3.Error as error:
            self._db.close()
            raise StoreFileError(str(path), f"the file is not usable as a metadata store: {error}") from error
        except StoreFileError:
            self._db.close()
            raise
        self._patience_s = patience_s

    def close(self) -> None:
        self._db.close()

    # ---- transactions ----

    def begin(self) -> None:
        """Begin a transaction for writing: take the write lock of the file. If another process has the lock, wait for
        it.

        Raises:
            sqlite3.OperationalError: another process had the lock for `patience_s` seconds.
        """
        self.patiently(lambda: self._db.execute("BEGIN IMMEDIATE"))

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def patiently(self, action: Callable[[], Result]) -> Result:
        """Run `action`, and return its result. If it fails because another process has the lock of the file, run it
        again after a pause.

        SQLite's own waiting is not used, because its pauses are milliseconds, or whole seconds if it was built without
        usleep. A transaction on this file takes a fraction of a millisecond.

        Raises:
            sqlite3.OperationalError: another process had the lock at each attempt, for `patience_s` seconds.
        """
        give_up_at_s = time.monotonic() + self._patience_s
        pause_s = 0.0002
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up_at_s:
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.005)

    # ---- keys ----

    def get(self, path: str, session: int | None) -> Record | None:
        row = self._db.execute(
            "SELECT value, version, created_at_ms, modified_at_ms, ephemeral, session FROM keys WHERE path = ?", (path,)
        ).fetchone()
        if row is None:
            return None
        value, version, created_at_ms, modified_at_ms, ephemeral, creator = row
        return Record(value, Stat(path, version, created_at_ms, modified_at_ms, bool(ephemeral), creator == session))

    def exists(self, path: str) -> bool:
        return self._db.execute("SELECT 1 FROM keys WHERE path = ?", (path,)).fetchone() is not None

    def children(self, path: str) -> list[str]:
        return [name for (name,) in self._db.execute("SELECT name FROM tree WHERE parent = ? ORDER BY name", (path,))]

    def put(self, path: str, value: bytes, options: PutOptions, *, session: int, now_ms: int) -> Stat:
        """Write a key as `MetadataStore.put` does, in the session `session`, as part of the open transaction. If a
        MetadataError is raised, this call has written no key.
        """
        self._check(options.guard)
        if options.sequential:
            path = sequential_path(path, self._next_number(path))
        row = self._db.execute(
            "SELECT version, created_at_ms, ephemeral, session FROM keys WHERE path = ?", (path,)
        ).fetchone()
        if row is None:
            check_put(path, None, options, own=False)
            self._db.execute(
                "INSERT INTO keys VALUES (?, ?, 0, ?, ?, ?, ?)",
                (path, value, now_ms, now_ms, options.ephemeral, session),
            )
            self._grow_tree(path)
            self._changed(NotificationType.CREATED, path)
            return Stat(path, 0, now_ms, now_ms, options.ephemeral, True)
        version, created_at_ms, ephemeral, creator = row
        check_put(path, version, options, own=creator == session)
        self._db.execute(
            "UPDATE keys SET value = ?, version = ?, modified_at_ms = ? WHERE path = ?",
            (value, version + 1, now_ms, path),
        )
        self._changed(NotificationType.MODIFIED, path)
        return Stat(path, version + 1, created_at_ms, now_ms, bool(ephemeral), creator == session)

    def delete(
        self, path: str, *, expected_version: int | None, if_own: bool, guard: Guard | None, session: int
    ) -> None:
        """Delete a key as `MetadataStore.delete` does, in the session `session`, as part of the open transaction."""
        self._check(guard)
        row = self._db.execute("SELECT version, session FROM keys WHERE path = ?", (path,)).fetchone()
        check_delete(
            path,
            None if row is None else row[0],
            expected=expected_version,
            if_own=if_own,
            own=row is not None and row[1] == session,
            has_children=self._has_children(path),
        )
        self._remove(path)

    def _check(self, guard: Guard | None) -> None:
        if guard is not None:
            row = self._db.execute("SELECT version FROM keys WHERE path = ?", (guard.path,)).fetchone()
            check_guard(guard, None if row is None else row[0])

    def _remove(self, path: str) -> None:
        self._db.execute("DELETE FROM keys WHERE path = ?", (path,))
        self._shrink_tree(path)
        self._changed(NotificationType.DELETED, path)

    def _next_number(self, path: str) -> int:
        (number,) = self._db.execute(
            "INSERT INTO sequences VALUES (?, 1) ON CONFLICT (path) DO UPDATE SET last = last + 1 RETURNING last",
            (path,),
        ).fetchone()
        return int(number)

    def _has_children(self, path: str) -> bool:
        return self._db.execute("SELECT 1 FROM tree WHERE parent = ? LIMIT 1", (path,)).fetchone() is not None

    def _grow_tree(self, path: str) -> None:
        """Update the lists of children after the key `path` was created: add it to the list of the path above it, add
        that path to the list of the next higher one, and so on.
        """
        while path != "/":
            parent, name = _split(path)
            if not self._db.execute("INSERT OR IGNORE INTO tree VALUES (?, ?)", (parent, name)).rowcount:
                return
            path = parent

    def _shrink_tree(self, path: str) -> None:
        """Update the lists of children after the key `path` was deleted: remove it from the list of the path above it.
        If that path is not a key and now has no children, remove it too from the list of the next higher one, and so
        on.
        """
        while path != "/" and not self._has_children(path) and not self.exists(path):
            parent, name = _split(path)
            self._db.execute("DELETE FROM tree WHERE parent = ? AND name = ?", (parent, name))
            path = parent

    # ---- changes ----

    @property
    def last_change(self) -> int:
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        return 0 if row is None else int(row[0])

    def data_version(self) -> int:
        """Return a number that is different after another connection to the file, of this or another process, has
        committed a transaction.
        """
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def changes_after(self, last_seen: int) -> list[tuple[int, Notification]]:
        """Return the changes after the one with the number `last_seen`, oldest first, each with its number. At most
        MAX_CHANGES_READ are returned.
        """
        rows = self._db.execute(
            "SELECT id, type, path FROM changes WHERE id > ? ORDER BY id LIMIT ?", (last_seen, MAX_CHANGES_READ)
        )
        return [(number, Notification(NotificationType(kind), path)) for number, kind, path in rows]

    def _changed(self, kind: NotificationType, path: str) -> None:
        number = self._db.execute("INSERT INTO changes (type, path) VALUES (?, ?)", (kind.value, path)).lastrowid or 0
        if number % CHANGES_PER_TRIM == 0:
            self._db.execute("DELETE FROM changes WHERE id <= ?", (number - self._kept_changes,))

    # ---- sessions ----

    def open_session(self, timeout_ms: int, lock_file: str) -> int:
        """Add a session to the file, as part of the open transaction, and return its number. A number is never used
        twice.
        """
        number = self._db.execute(
            "INSERT INTO sessions (timeout_ms, beat, lock_file) VALUES (?, 0, ?)", (timeout_ms, lock_file)
        ).lastrowid
        assert number is not None
        return number

    def end_session(self, session: int) -> None:
        """Remove a session and its ephemeral keys from the file, as part of the open transaction."""
        own = self._db.execute("SELECT path FROM keys WHERE ephemeral AND session = ? ORDER BY path", (session,))
        for (path,) in own.fetchall():
            self._remove(path)
        self._db.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def is_live(self, session: int) -> bool:
        return self._db.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is not None

    def beat(self, session: int) -> bool:
        """Write a heartbeat of `session` to the file and return True; return False if the session has ended.

        This does not wait until the heartbeat is on the disk, because it need not survive a power failure.
        """
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            beat = "UPDATE sessions SET beat = beat + 1 WHERE id = ?"
            return self.patiently(lambda: self._db.execute(beat, (session,))).rowcount == 1
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def sessions(self) -> list[SeenSession]:
        return [SeenSession(*row) for row in self._db.execute("SELECT id, timeout_ms, beat, lock_file FROM sessions")]

    # ---- room ----

    def keep_room(self) -> None:
        """Reserve disk space in SQLite's files, so that small writes still succeed after the disk has become full. If
        the disk is full already, do nothing.

        The log file (`-wal`) is opened here, which is safe, because SQLite has no locks on it. The database file itself
        must never be opened in addition to SQLite: closing it would release the locks that this process has on it.
        """
        try:
            handle = os.open(f"{self._path}-wal", os.O_RDWR)
            try:
                os.posix_fallocate(handle, 0, LOG_ROOM)
            finally:
                os.close(handle)
            if shutil.disk_usage(self._path.parent).free > 2 * FREE_ROOM:
                self._add_free_pages()
        except (OSError, sqlite3.Error):
            self.rollback()

    def _add_free_pages(self) -> None:
        """Add unused pages to the file: write a table, then delete it. Pages that were never written would need disk
        space when they are used for the first time.
        """
        self.begin()
        free = self._pragma("freelist_count") * self._pragma("page_size")
        if free < FREE_ROOM // 2:
            self._db.execute("CREATE TABLE IF NOT EXISTS room (content BLOB)")
            self._db.execute("INSERT INTO room VALUES (zeroblob(?))", (FREE_ROOM - free,))
        self.commit()
        if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'room'").fetchone() is not None:
            self._db.execute("PRAGMA wal_checkpoint").fetchone()
            self.patiently(lambda: self._db.execute("DROP TABLE IF EXISTS room"))

    # Set-up.

    def _set_up(self) -> None:
        # the process that switches a new file to WAL briefly locks out even readers
        self.patiently(self._refuse_foreign_file)
        self.patiently(lambda: self._db.execute("PRAGMA journal_mode = WAL").fetchone())
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
        self._create_tables()
        self.keep_room()

    def _create_tables(self) -> None:
        self.begin()
        try:
            if not self._user_version():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._db.execute("COMMIT")
        finally:
            self.rollback()

    def _refuse_foreign_file(self) -> None:
        """Check that the file is not a database of another program, and was not written by a later version. Called
        before anything in the file is changed.

        Raises:
            StoreFileError: the file belongs to another program, or was written by a later version.
        """
        # in this order, because the transaction that creates the tables also sets the application id
        has_tables = self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
        if has_tables and self._pragma("application_id") != APPLICATION_ID:
            raise StoreFileError(
                str(self._path), "the file is a database of another program; set metadataStoreUrl to another file"
            )
        if self._user_version() > SCHEMA_VERSION:
            raise StoreFileError(
                str(self._path),
                f"the file has version {self._user_version()}, but this release reads versions up to "
                f"{SCHEMA_VERSION}; run a later release",
            )

    def _user_version(self) -> int:
        return self._pragma("user_version")

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])


def _split(path: str) -> tuple[str, str]:
    parent = parent_path(path) or "/"
    return parent, path[len(parent) :].lstrip("/")
