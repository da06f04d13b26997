"""The worker thread of a SQLite store. Only this thread uses the file, the session's lock file and the session's clock.

In each pass of its loop the thread takes all operations that wait. Reads are answered first. The writes then share one
transaction, so that many of them wait for the disk only once; a conflict of one does not affect the others. Every write
transaction first checks that the session still exists. So a process that was paused for too long and continues in the
middle of a write is refused.

How a session ends. Its process writes a heartbeat five times per timeout. The other clients end the session when no
heartbeat came for the timeout (`silence`), or at once if its process has ended (`session_files`).

A file that is removed or replaced while it is open would accept writes that are lost later. So the paths of the file
are checked whenever the sessions of others are checked (`KEPT_SUFFIXES`). When one of them is missing or replaced, the
session ends, every operation fails, and no other session is opened: the process has to end.

Messages for the event loop are collected in order and passed in one call per pass of the loop, or in two if there are
writes: session events, changes (including own ones), and the outcomes of operations after the changes that they made.

This module reads the time itself: a simulation replaces the whole worker.
"""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from pulsar_barycenter.metadata.errors import MetadataError, SessionLostError, StoreFileError, StoreUnavailableError
from pulsar_barycenter.metadata.files.data_faults import KeptPath
from pulsar_barycenter.metadata.session import SessionState, SessionWatch
from pulsar_barycenter.metadata.sqlite.operations import Operation, Outcome, WorkerListener
from pulsar_barycenter.metadata.sqlite.session_files import (
    SessionFile,
    is_abandoned,
    remove_abandoned,
    remove_if_abandoned,
)
from pulsar_barycenter.metadata.sqlite.silence import SeenSession, SilenceWatch
from pulsar_barycenter.metadata.sqlite.sqlite_file import MAX_CHANGES_READ, SqliteFile
from pulsar_barycenter.metadata.store import SessionEvent

log = structlog.get_logger(__name__)

HEARTBEATS_PER_TIMEOUT = 5
SWEEP_INTERVAL_S = 0.2
RETRY_INTERVAL_S = 0.1
ROOM_INTERVAL_S = 60.0
QUIET_AFTER_S = 0.5
"""After this number of seconds without a change or an operation, the file is checked for changes half as often, to save
CPU.
"""
MAX_BATCH = 1000
KEPT_SUFFIXES = ("", "-wal", "-shm")
"""The suffixes of the three files that SQLite has open, which must not be removed or replaced."""


class SqliteWorker:
    """The thread that uses the file of one SQLite store, with the queue of operations to it and the messages from it to
    the event loop.
    """

    def __init__(
        self,
        path: Path,
        *,
        timeout_ms: int,
        poll_interval_s: float,
        kept_changes: int,
        listener: WorkerListener,
        hand_over: Callable[[Callable[[], None]], None],
    ) -> None:
        """`hand_over` is a function that runs a callback on the event loop; it raises RuntimeError once the loop is
        closed.
        """
        self._path = path
        self._folder = path.with_name(path.name + "-sessions")
        self._timeout_ms = timeout_ms
        self._timeout_s = timeout_ms / 1000
        self._poll_interval_s = poll_interval_s
        self._kept_changes = kept_changes
        self._listener = listener
        self._hand_over = hand_over
        self._operations: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._outbox: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name=f"metadata {path.name}", daemon=True)
        self._is_closing = False
        self._opened: Callable[[MetadataError | None], None]
        # Set by the thread when it opens the file.
        self._file: SqliteFile
        self._lock_file: SessionFile
        self._watch: SessionWatch
        self._others: SilenceWatch
        self._session: int | None = None
        self._row: int | None = None
        """The session of this client that may still be in the file, lost or not."""
        self._last_seen = 0
        self._data_version = -1
        self._next_poll_s = self._next_beat_s = self._next_sweep_s = 0.0
        self._next_room_s = self._active_at_s = 0.0
        self._kept: tuple[KeptPath, ...] = ()
        self._file_fault: str | None = None
        """What happened to the file, if it was removed or replaced; otherwise None."""
        self._failed_actions: set[str] = set()
        """The names of actions whose last attempt failed."""

    # ---- called on the event loop ----

    def start(self, opened: Callable[[MetadataError | None], None]) -> None:
        """Start the thread. When the session is open, `opened` is called on the event loop with None; if it cannot be
        opened, `opened` is called with the error.
        """
        self._opened = opened
        self._thread.start()

    @property
    def is_overdue(self) -> bool:
        """True if no heartbeat was written for so long that other clients may have ended the session. Thread-safe."""
        return time.monotonic() >= self._watch.deadline_s

    def submit(self, operation: Operation) -> None:
        self._operations.put(operation)

    def close(self) -> None:
        """Make the thread execute the operations that were submitted before this call, then end the session, and then
        end itself. Does not wait for this.
        """
        self._operations.put(None)

    def join(self) -> None:
        self._thread.join()

    # ---- the thread ----

    def _run(self) -> None:
        error = self._try_opening()
        self._post(partial(self._opened, error))
        try:
            if error is None:
                self._serve()
        finally:  # whatever failed, callers must not wait for an answer for ever
            if error is None:
                self._post(self._listener.on_end)
            self._flush()

    def _try_opening(self) -> MetadataError | None:
        try:
            self._open()
        except MetadataError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the caller of `open` gets any error
            return StoreUnavailableError(str(self._path), str(error))
        return None

    def _serve(self) -> None:
        try:
            while self._flush() and not self._is_closing:
                self._round()
        except Exception:
            log.exception("metadata_store_failed", path=str(self._path))
        finally:
            self._end()

    def _post(self, message: Callable[[], None]) -> None:
        self._outbox.append(message)

    def _events(self, events: list[SessionEvent]) -> None:
        if events:
            self._post(partial(self._listener.on_events, events))

    def _set_session(self, session: int | None) -> None:
        self._session = session
        self._post(partial(self._listener.on_session, session))

    def _flush(self) -> bool:
        """Pass all collected messages to the event loop, which calls the listener. Return False if the event loop is
        closed.
        """
        if not self._outbox:
            return True
        messages, self._outbox = self._outbox, []

        def deliver() -> None:
            for message in messages:
                message()

        try:
            self._hand_over(deliver)
        except RuntimeError:
            return False
        return True

    def _open(self) -> None:
        # Long enough for SQLite's stalls under load, short enough to notice failures within a session.
        patience_s = max(0.5, min(self._timeout_s / HEARTBEATS_PER_TIMEOUT, 2.0))
        self._file = SqliteFile(self._path, patience_s=patience_s, kept_changes=self._kept_changes)
        now = time.monotonic()
        self._watch = SessionWatch(self._timeout_s, now)
        try:
            self._last_seen = self._open_session()
            opened = (Path(f"{self._path}{suffix}") for suffix in KEPT_SUFFIXES)
            self._kept = tuple(KeptPath(path) for path in opened if path.exists())
            remove_abandoned(self._folder, keep={session.lock_file for session in self._file.sessions()})
        except BaseException:
            self._file.close()
            raise
        self._next_beat_s = now + self._timeout_s / HEARTBEATS_PER_TIMEOUT
        self._next_sweep_s = now
        self._others = SilenceWatch(now)
        self._next_room_s = now + ROOM_INTERVAL_S

    def _end(self) -> None:
        """Remove the session and its ephemeral keys from the file. If that fails, release the lock of the session's
        file: other clients then find that this process has ended, and remove them.
        """
        try:
            if self._row is not None:
                self._file.begin()
                self._file.end_session(self._row)
                self._file.commit()
            self._lock_file.close()
        except (sqlite3.Error, OSError) as error:
            log.warning("metadata_session_left_behind", path=str(self._path), error=str(error))
            self._lock_file.abandon()
        finally:
            self._file.close()

    def _round(self) -> None:
        """Run the thread's loop once: wait for operations until periodic work is due, execute the operations, then do
        the periodic work that is due.
        """
        now = time.monotonic()
        due_s = min(self._next_poll_s, self._next_beat_s, self._next_sweep_s)
        operations = self._take(max(0.0, due_s - now))
        reads = [operation for operation in operations if not operation.is_write]
        writes = [operation for operation in operations if operation.is_write]
        if operations:
            self._active_at_s = now
        if reads:
            self._read(reads)
        if writes:
            self._flush()  # the answers to reads do not wait for the disk
            self._write(writes)
        now = time.monotonic()
        if now >= self._next_poll_s:
            is_quiet = now - self._active_at_s > QUIET_AFTER_S
            self._next_poll_s = now + self._poll_interval_s * (2 if is_quiet else 1)
            self._guarded(self._poll)
        if now >= self._next_beat_s:
            self._next_beat_s = now + self._timeout_s / HEARTBEATS_PER_TIMEOUT
            self._beat(now)
        if now >= self._next_sweep_s:
            self._next_sweep_s = now + SWEEP_INTERVAL_S
            self._check_file()
            self._guarded(self._sweep)
        if now >= self._next_room_s:
            self._next_room_s = now + ROOM_INTERVAL_S
            self._guarded(self._file.keep_room)

    def _take(self, wait_s: float) -> list[Operation]:
        """Return the operations that were submitted, at most MAX_BATCH. If there are none, wait for the first one for
        up to `wait_s` seconds. If `close` was called, record this.
        """
        operations: list[Operation] = []
        try:
            operation = self._operations.get(timeout=wait_s) if wait_s > 0 else self._operations.get_nowait()
            while operation is not None:
                operations.append(operation)
                if len(operations) == MAX_BATCH:
                    return operations
                operation = self._operations.get_nowait()
            self._is_closing = True
        except queue.Empty:
            pass
        return operations

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Run `action`, and return True if it succeeded. If it raises an error of SQLite or of the operating system,
        log the error, roll back the open transaction, and return False; the caller runs `action` again later.

        If such errors persist, heartbeats fail too, so that the session ends.
        """
        try:
            action()
        except (sqlite3.Error, OSError) as error:
            self._rollback()
            self._action_failed(action.__name__.lstrip("_"), error)
            return False
        self._action_recovered(action.__name__.lstrip("_"))
        return True

    def _action_failed(self, what: str, error: Exception) -> None:
        """Log that the action `what` failed with `error`, unless its previous attempt failed too, with the same or
        another error.
        """
        if what not in self._failed_actions:
            self._failed_actions.add(what)
            log.warning("metadata_store_trouble", what=what, path=str(self._path), error=str(error))

    def _action_recovered(self, what: str) -> None:
        if what in self._failed_actions:
            self._failed_actions.remove(what)
            log.info("metadata_store_trouble_over", what=what, path=str(self._path))

    def _check_file(self) -> None:
        if self._file_fault is not None:
            return
        self._file_fault = next(filter(None, (kept.fault() for kept in self._kept)), None)
        if self._file_fault is not None:
            mend = "restore the file from a copy and restart the brokers; anything written now would be lost"
            log.error("metadata_file_lost", path=str(self._path), reason=self._file_fault, mend=mend)
            self._set_session(None)
            self._events(self._watch.expired())

    # ---- operations ----

    def _read(self, operations: list[Operation]) -> None:
        outcomes: list[Outcome] = []
        for operation in operations:
            if self._file_fault is not None:
                outcomes.append((operation, None, StoreFileError(str(self._path), self._file_fault)))
                continue
            try:
                result = self._file.patiently(partial(operation.run, self._file))
                outcomes.append((operation, result, None))
            except MetadataError as error:
                outcomes.append((operation, None, error))
            except sqlite3.Error as error:
                outcomes.append((operation, None, _unavailable(operation, error)))
        self._post(partial(self._listener.on_outcomes, outcomes))

    def _write(self, operations: list[Operation]) -> None:
        """Execute the writes `operations` in one transaction, and report their outcomes after it was committed. If the
        transaction fails, all of them have failed.
        """
        if self._file_fault is not None:
            lost = StoreFileError(str(self._path), self._file_fault)
            self._post(partial(self._listener.on_outcomes, [(operation, None, lost) for operation in operations]))
            return
        try:
            self._file.begin()
            if self._session is not None and not self._file.is_live(self._session):
                self._session_ended()
            outcomes = [self._attempt(operation) for operation in operations]
            self._file.commit()
        except sqlite3.Error as error:
            self._rollback()
            outcomes = [(operation, None, _unavailable(operation, error)) for operation in operations]
        if not self._guarded(self._read_changes):
            self._post(self._listener.on_unknown_changes)
        self._post(partial(self._listener.on_outcomes, outcomes))

    def _attempt(self, operation: Operation) -> Outcome:
        if self._session is None or operation.session != self._session:
            return operation, None, _session_lost(operation)
        try:
            return operation, operation.run(self._file), None
        except MetadataError as error:
            return operation, None, error

    def _rollback(self) -> None:
        try:
            self._file.rollback()
        except sqlite3.Error as error:
            log.warning("metadata_store_rollback_failed", path=str(self._path), error=str(error))

    # ---- changes ----

    def _poll(self) -> None:
        version = self._file.data_version()  # read before the changes, so that none is missed in between
        if version != self._data_version:
            self._read_changes()
            self._data_version = version

    def _read_changes(self) -> None:
        """Report the changes of keys that were made in the file since the last call, by this and other clients. If the
        session is not in the file any more, report before the changes that it has ended.
        """
        while True:
            changes = self._file.changes_after(self._last_seen)
            if self._session is not None and not self._file.is_live(self._session):
                self._session_ended()
            if not changes:
                return
            if changes[0][0] != self._last_seen + 1:
                log.warning("metadata_changes_missed", first_missed=self._last_seen + 1, next=changes[0][0])
                self._events(self._watch.fell_behind())
            self._last_seen = changes[-1][0]
            self._active_at_s = time.monotonic()
            self._post(partial(self._listener.on_changes, [change for _, change in changes]))
            if len(changes) < MAX_CHANGES_READ:
                return

    # ---- the own session ----

    def _beat(self, now: float) -> None:
        """Write a heartbeat to the file. If there is no session, open a new one instead. `now` is the time of
        `time.monotonic`.
        """
        self._post(lambda: None)  # an empty message, so that a closed event loop is noticed
        if self._file_fault is not None:
            return
        try:
            if self._session is None:
                self._renew(now)
            elif self._file.beat(self._session):
                events = self._watch.confirmed(now)
                if events:
                    self._others.restart()
                self._events(events)
            else:
                self._session_ended()
            self._action_recovered("heartbeat")
        except (sqlite3.Error, OSError) as error:
            self._rollback()
            self._action_failed("heartbeat", error)
            self._next_beat_s = min(self._next_beat_s, time.monotonic() + RETRY_INTERVAL_S)
            self._failed()

    def _failed(self) -> None:
        events = self._watch.failed(time.monotonic())
        if self._watch.state is SessionState.LOST and self._session is not None:
            self._set_session(None)
        self._events(events)

    def _session_ended(self) -> None:
        """Called when the session is not in the file any more. Report that it has ended, and open a new session at the
        next heartbeat, which is due now.
        """
        self._set_session(None)
        self._events(self._watch.expired())
        self._next_beat_s = time.monotonic()

    def _renew(self, now: float) -> None:
        self._open_session()
        self._others.restart()
        self._events(self._watch.renewed(now))

    def _open_session(self) -> int:
        """Open a session in the file. Return the number of the last change in the file at this moment.

        In the same transaction, end this client's former session, if it still exists, and all sessions whose processes
        have ended. So a broker that was killed and is started again finds that its former ephemeral keys are deleted.
        """
        lock_file = SessionFile(self._folder)
        try:
            self._file.begin()
            for session in self._file.sessions():
                if session.number == self._row or is_abandoned(self._folder, session.lock_file):
                    self._file.end_session(session.number)
            number = self._file.open_session(self._timeout_ms, lock_file.name)
            last_change = self._file.last_change
            self._file.commit()
        except BaseException:
            self._rollback()
            lock_file.close()
            raise
        if self._row is not None:
            self._lock_file.close()
        self._lock_file = lock_file
        self._row = number
        self._set_session(number)
        return last_change

    # ---- the others' sessions ----

    def _sweep(self) -> None:
        """End the sessions of other clients that have written no heartbeat for their timeout, or whose processes have
        ended. Do nothing while this client itself is not connected.
        """
        now = time.monotonic()
        if self._session is None or self._watch.state is not SessionState.CONNECTED:
            self._others.skip(now)
            return
        others = [session for session in self._file.sessions() if session.number != self._session]
        silent = self._others.silent(others, now)
        ended = [other for other in others if other.number in silent or is_abandoned(self._folder, other.lock_file)]
        if ended:
            self._expire(ended)

    def _expire(self, ended: list[SeenSession]) -> None:
        """End the sessions in `ended`, except those that have written another heartbeat since they were read from the
        file.
        """
        self._file.begin()
        beats = {session.number: session.beat for session in self._file.sessions()}
        expired = [session for session in ended if beats.get(session.number) == session.beat]
        for session in expired:
            self._file.end_session(session.number)
        self._file.commit()
        self._read_changes()
        for session in expired:
            log.info("metadata_session_expired", session=session.number)
            remove_if_abandoned(self._folder, session.lock_file)


def _unavailable(operation: Operation, error: sqlite3.Error) -> StoreUnavailableError:
    return StoreUnavailableError(operation.path, f"{operation.name} failed: {error}")


def _session_lost(operation: Operation) -> SessionLostError:
    return SessionLostError(operation.path, f"{operation.name} was refused: the session has ended")
