"""A metadata store in a SQLite file that many processes on one machine share.

This is the event loop's side: it turns calls into operations for the worker thread, and the worker's messages into
answers, notifications and session events. `sqlite_worker` explains how sessions begin and end.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pulsar_barycenter.metadata.clock import Clock, SystemClock
from pulsar_barycenter.metadata.conditions import PutOptions
from pulsar_barycenter.metadata.errors import MetadataError, StoreUnavailableError
from pulsar_barycenter.metadata.sqlite.operations import Operation, Outcome
from pulsar_barycenter.metadata.sqlite.sqlite_file import SqliteFile
from pulsar_barycenter.metadata.sqlite.sqlite_worker import SqliteWorker
from pulsar_barycenter.metadata.store import Guard, Notification, Record, SessionEvent, Stat
from pulsar_barycenter.metadata.store_client import StoreClient


class SqliteStore(StoreClient):
    """A session with a metadata store in a SQLite file. `MetadataStore` describes its methods. Created by `open`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, None)
        self._loop = asyncio.get_running_loop()
        self._pending: set[asyncio.Future[Any]] = set()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._worker: SqliteWorker

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        session_timeout_ms: int = 10_000,
        clock: Clock | None = None,
        poll_interval_ms: float = 10.0,
        kept_changes: int = 20_000,
    ) -> Self:
        """Open a session with the store in the file `path`, which is created if it does not exist.

        `clock` is used for the times in a Stat. The file is checked for changes of other processes every
        `poll_interval_ms`; after half a second without a change or an operation, half as often. If more than
        `kept_changes` changes were made since the last check, this client has missed changes: it drops all cached
        values, and reports RECONNECTED.

        Raises:
            StoreFileError: the file is not a metadata store, is damaged, or cannot be opened.
            StoreUnavailableError: the file could not be written.
        """
        store = cls(clock or SystemClock())
        opened: asyncio.Future[None] = store._loop.create_future()

        def on_opened(error: MetadataError | None) -> None:
            if not opened.done():
                if error is None:
                    opened.set_result(None)
                else:
                    opened.set_exception(error)

        store._worker = SqliteWorker(
            Path(path),
            timeout_ms=session_timeout_ms,
            poll_interval_s=poll_interval_ms / 1000,
            kept_changes=kept_changes,
            listener=store,
            hand_over=store._hand_over,
        )
        store._worker.start(on_opened)
        try:
            await opened
        except asyncio.CancelledError:
            store._worker.close()
            await asyncio.to_thread(store._worker.join)  # until the thread ends it may create the file and its folder
            raise
        return store

    # ---- operations ----

    async def get(self, path: str) -> Record | None:
        session = self._session
        record: Record | None = await self._submit("get", path, lambda file: file.get(path, session))
        return record

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        if_own: bool = False,
        guard: Guard | None = None,
    ) -> Stat:
        session, now_ms, data = self._writing(path), self._clock.now_ms(), bytes(value)
        options = PutOptions(expected_version, ephemeral, sequential, if_own, guard)

        def put(file: SqliteFile) -> Stat:
            return file.put(path, data, options, session=session, now_ms=now_ms)

        stat: Stat = await self._submit("put", path, put, is_write=True)
        return stat

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        session = self._writing(path)

        def delete(file: SqliteFile) -> None:
            file.delete(path, expected_version=expected_version, if_own=if_own, guard=guard, session=session)

        await self._submit("delete", path, delete, is_write=True)

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._submit("children", path, lambda file: file.children(path))
        return names

    async def exists(self, path: str) -> bool:
        is_key: bool = await self._submit("exists", path, lambda file: file.exists(path))
        return is_key

    @property
    def session_is_overdue(self) -> bool:
        return self._session is None or self._worker.is_overdue

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._worker.close()
        await asyncio.shield(self._ended)

    async def _submit(
        self, name: str, path: str, run: Callable[[SqliteFile], object], *, is_write: bool = False
    ) -> Any:
        self._check_open(path)
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._pending.add(reply)
        self._worker.submit(Operation(name, path, self._session, is_write, run, reply))
        return await reply

    # ---- what the worker reports ----

    def _hand_over(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def on_events(self, events: list[SessionEvent]) -> None:
        self._listeners.session_events(events)

    def on_session(self, session: int | None) -> None:
        self._session = session

    def on_changes(self, changes: list[Notification]) -> None:
        for change in changes:
            self._listeners.change(change)

    def on_unknown_changes(self) -> None:
        self._listeners.invalidate(None)

    def on_outcomes(self, outcomes: list[Outcome]) -> None:
        for operation, result, error in outcomes:
            reply: asyncio.Future[Any] = operation.reply
            self._pending.discard(reply)
            if reply.done():
                continue
            if error is None:
                reply.set_result(result)
            else:
                reply.set_exception(error)

    def on_end(self) -> None:
        self._worker.join()  # this was the thread's last message; it ends within microseconds
        for reply in self._pending:
            if not reply.done():
                reply.set_exception(StoreUnavailableError("/", "the store's thread has ended"))
        self._pending.clear()
        self._ended.set_result(None)
        if not self._closed:
            self._closed = True
            self._session = None
            self._listeners.session_events([SessionEvent.CONNECTION_LOST, SessionEvent.SESSION_LOST])
