"""The leader's side of leader writes: during its term it is the only broker that writes, under its epoch, for all
sessions.

Operations on one key run one after the other, so a read of a key and the write that follows are one step. No other
process writes these keys. If an operator does so by hand, the changed version shows it. The leader reads at the
beginning of the term, below `roots`, which keys are leased to which session, and tracks changes from then on. Outside
of `roots` no key is leased to a session.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.conditions import PutOptions, check_delete, check_put
from pulsar_barycenter.metadata.coordination.epochs import Epoch
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    GuardError,
    InvalidValueError,
    MetadataError,
    NotFoundError,
    SessionLostError,
    StoreClosedError,
    StoreRefusedError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.key_locks import KeyLocks
from pulsar_barycenter.metadata.leader_writes.leased_values import leased, split_lease
from pulsar_barycenter.metadata.leader_writes.session_records import (
    LEASED_ROOT,
    SESSIONS_ROOT,
    SessionRecord,
    get_or_create_secret,
    same_secret,
    session_of,
    session_path,
    session_value,
)
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes, SessionTable
from pulsar_barycenter.metadata.leader_writes.write_requests import (
    Answer,
    Close,
    DeflatedPut,
    Delete,
    Done,
    GuardedBy,
    Live,
    Open,
    Put,
    Request,
    failed,
    inflated,
    not_done,
)
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore, Record, Stat

log = structlog.get_logger(__name__)

T = TypeVar("T")

MAX_SESSIONS: Final = 10_000
_MAX_CONCURRENT_READS: Final = 32
_MAX_RACES: Final = 10


class LeaderWriter:
    """The leader's part of the writes of all brokers, for one term: executes the brokers' requests, and ends the
    sessions of brokers that send no heartbeats.

    `end_term` is called when another leader has a later epoch, or when the outcome of a write is unknown. `may_write`
    returns whether the leader writes the key at a path for other brokers. `roots` are the paths below which keys are
    leased to sessions (deleted when the session ends). `small_roots` are those of them that have few keys; the keys
    below them are read again regularly. `numbers` is the path of the counters: the keys two levels below it are those
    that brokers create to get numbers.
    """

    def __init__(
        self,
        store: MetadataStore,
        epoch: Epoch,
        times: LeaseTimes,
        roots: tuple[str, ...],
        *,
        small_roots: tuple[str, ...],
        numbers: str,
        may_write: Callable[[str], bool],
        draw_secret: Callable[[], str],
        end_term: Callable[[Epoch], None],
    ) -> None:
        self._store = store
        self.epoch = epoch
        self._times = times
        self._roots = roots
        self._small_roots = small_roots
        self._numbers = numbers
        self._may_write = may_write
        self._draw_secret = draw_secret
        self._end_term = end_term
        self._table = SessionTable(times, asyncio.get_running_loop().time())
        self._secret: str | None = None
        """None until the existing sessions have been read. No request is executed before."""
        self._keys: dict[str, dict[str, None]] = {}
        """For each session: the keys that may be leased to it."""
        self._all_keys_known = False
        self._under_way: Counter[str] = Counter()
        self._key_locks = KeyLocks[str]()
        self._due = asyncio.Event()
        self._clearing: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks("leader_writer_failed", expected=(MetadataError,))
        self.is_over = False

    # ---- the term ----

    @property
    def is_ready(self) -> bool:
        """Whether the leader has read the existing sessions at the beginning of its term. It executes no request before
        that.
        """
        return self._secret is not None

    async def run(self) -> None:
        """Read the stored sessions and the secret, then monitor the sessions until cancelled. At the end of the term,
        the caller cancels this, then calls `close`.
        """
        await self._retry_until_done(self._load, "sessions")
        looking = self._tasks.start(self._retry_until_done(self._load_leased_keys, "leased keys"), "find leased keys")
        loop = asyncio.get_running_loop()
        look_again_s = loop.time() + self._times.timeout_s
        try:
            while True:
                await self._look_after_sessions()
                if loop.time() >= look_again_s:
                    with suppress(MetadataError):
                        await self._find_keys(self._small_roots)
                    look_again_s = loop.time() + self._times.timeout_s
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._times.tick_s):
                        await self._due.wait()
                self._due.clear()
        finally:
            looking.cancel()

    async def close(self) -> None:
        """Cancel the requests that are being executed, so that the outcome of their writes is unknown. Later requests
        are refused. Idempotent.
        """
        self.is_over = True
        await self._tasks.close()

    async def _retry_until_done(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        while True:
            try:
                await work()
            except (GuardError, StoreUnavailableError) as error:
                log.info("leader_does_not_know_yet", what=what, reason=str(error))
                self._end_of_term(error)
            except MetadataError as error:
                log.warning("leader_does_not_know_yet", what=what, reason=str(error))
            else:
                return
            await asyncio.sleep(self._times.tick_s)

    async def _load(self) -> None:
        secret = await get_or_create_secret(self._store, self.epoch.guard, self._draw_secret)
        sessions = await self._store.children(SESSIONS_ROOT)
        records = await self._read([session_path(session) for session in sessions])
        now_s = asyncio.get_running_loop().time()
        for session, record in zip(sessions, records, strict=True):
            if record is not None:
                known = _session_of(record)
                self._table.found(session, now_s, is_marked=known.is_marked, lease_ms=known.lease_ms)
        self._secret = secret
        log.info("leader_writes_for_all", epoch=self.epoch.number, sessions=len(self._table))

    async def _load_leased_keys(self) -> None:
        """Find the keys in the store that are leased to a session, so that they have to be deleted when it ends. Then
        remove the keys of counters that brokers have created and not deleted.
        """
        await self._find_keys(self._roots)
        self._all_keys_known = True
        self._due.set()
        await self._remove_abandoned_numbers()

    async def _find_keys(self, roots: tuple[str, ...]) -> None:
        """Find the keys below `roots` that are leased to a session, so that they have to be deleted when it ends. If
        such a session has no record, for example after the store was restored from a copy, it counts as ended, and its
        keys are deleted.
        """
        level = list(roots)
        while level:
            names = await self._in_batches(level, self._store.children)
            level = [f"{path.rstrip('/')}/{name}" for path, below in zip(level, names, strict=True) for name in below]
            for path, record in zip(level, await self._read(level), strict=True):
                session = None if record is None else split_lease(record.value)[0]
                if session is not None:
                    self._keys.setdefault(session, {})[path] = None
        for session in list(self._keys):
            if session not in self._table and await self._store.get(session_path(session)) is None:
                self._table.found(session, asyncio.get_running_loop().time(), is_marked=True, lease_ms=0)

    async def _remove_abandoned_numbers(self) -> None:
        """Remove all keys of counters that exist. A broker creates such a key to get a number, then deletes it. If it
        finds later that its key is missing, it ignores that.
        """
        for counter in await self._store.children(self._numbers):
            for drawn in await self._store.children(f"{self._numbers}/{counter}"):
                with suppress(NotFoundError):
                    await self._store.delete(f"{self._numbers}/{counter}/{drawn}", guard=self.epoch.guard)

    async def _read(self, paths: list[str]) -> list[Record | None]:
        return await self._in_batches(paths, self._store.get)

    async def _in_batches(self, paths: list[str], ask: Callable[[str], Coroutine[Any, Any, T]]) -> list[T]:
        found: list[T] = []
        for start in range(0, len(paths), _MAX_CONCURRENT_READS):
            found += await asyncio.gather(*map(ask, paths[start : start + _MAX_CONCURRENT_READS]))
        return found

    # ---- sessions ----

    async def _look_after_sessions(self) -> None:
        self._table.tick(asyncio.get_running_loop().time())
        for session in self._table.to_mark():
            try:
                await self._mark(session)
            except MetadataError as error:
                self._end_of_term(error)
                log.info("session_not_marked", session=session[:8], reason=str(error))
        for session in self._table.to_clear():
            self._clear_soon(session)

    async def _mark(self, session: str) -> None:
        """Write into the record of a session that it has ended. The session's broker reads its record again and again;
        it stops using the session, within its lease time, when it finds this mark or cannot read.
        """
        path = session_path(session)
        record = await self._store.get(path)
        if record is not None and not (known := _session_of(record)).is_marked:
            value = session_value(msgspec.structs.replace(known, is_marked=True))
            await self._store.put(path, value, expected_version=record.stat.version, guard=self.epoch.guard)
            log.warning("broker_is_silent", broker=known.broker_id, session=session[:8])
        self._table.marked(session, asyncio.get_running_loop().time())

    def _clear_soon(self, session: str) -> asyncio.Task[None]:
        task = self._clearing.get(session)
        if task is None:
            task = self._clearing[session] = self._tasks.start(self._clear(session), "clear session")
            task.add_done_callback(lambda _: self._clearing.pop(session, None))
        return task

    async def _clear(self, session: str) -> None:
        """Remove the keys that are leased to a session that has ended, then the record of the session. Do nothing while
        a write of the session is running, or before all leased keys are known. What could not be removed is removed
        later.
        """
        if self._under_way[session] or not self._all_keys_known:
            return
        try:
            paths = sorted(self._keys.get(session, ()))
            await self._in_batches(paths, lambda path: self._remove(session, path))
            with suppress(NotFoundError):
                await self._store.delete(session_path(session), guard=self.epoch.guard)
        except MetadataError as error:
            self._end_of_term(error)
            log.info("session_not_cleared", session=session[:8], reason=str(error))
        else:
            self._keys.pop(session, None)
            self._table.forget(session)
            log.info("session_cleared", session=session[:8], keys=len(paths))

    async def _remove(self, session: str, path: str) -> None:
        async with self._key_locks.hold(path):
            record = await self._store.get(path)
            if record is not None and split_lease(record.value)[0] == session:
                await self._store.delete(path, expected_version=record.stat.version, guard=self.epoch.guard)

    # ---- requests ----

    def knows(self, secret: str) -> bool:
        """Return whether `secret` is the cluster's secret. Each request to the leader must contain the secret."""
        return self._secret is not None and same_secret(secret, self._secret)

    async def answer(self, request: Request) -> Answer:
        """Execute a broker's request, and return the answer to send. An error becomes an answer of the type Failed;
        only CancelledError is raised.
        """
        if not self.is_ready or self.is_over:
            return not_done("/", "the leader has not read the store yet")
        if not self.knows(request.secret):
            return not_done("/", "the request's secret is not the secret of this cluster")
        if request.epoch != self.epoch.number:
            return not_done(
                "/", f"the leader epoch is {self.epoch.number}, but the request is for epoch {request.epoch}"
            )
        if not self._table.admit(request.session, request.number, request.over_below):
            return not_done("/", "the broker does not wait for this request any more")
        task = self._tasks.start(self._do(request), "write by the leader")
        try:
            return await asyncio.shield(task)  # the broker may disconnect, but the leader must learn the outcome
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            return failed(
                StoreUnavailableError("/", "the leader stopped before the write was complete: its outcome is not known")
            )

    async def _do(self, request: Request) -> Answer:
        session = request.session
        try:
            match request.change:
                case Open():
                    return await self._open(session, request.change)
                case Live():
                    return Done() if self._table.message_received(session) else failed(_lost(session))
                case Close():
                    self._table.released(session)
                    await asyncio.shield(self._clear_soon(session))
                    return Done()
                case Put() | Delete() as change:
                    if not self._table.message_received(session):
                        return failed(_lost(change.path))
                    with self._counted(session):
                        return await self._change(
                            session, inflated(change) if isinstance(change, DeflatedPut) else change
                        )
        except (GuardError, SessionLostError, StoreClosedError) as error:
            self._end_of_term(error)
            return not_done(error.path, error.detail)
        except MetadataError as error:
            self._end_of_term(error)
            return failed(error)

    @contextmanager
    def _counted(self, session: str) -> Iterator[None]:
        """Context manager: during the `with` statement, a write of `session` counts as running. Meanwhile the keys
        leased to this session are not removed.
        """
        self._under_way[session] += 1
        try:
            yield
        finally:
            self._under_way[session] -= 1
            if not self._under_way[session]:
                del self._under_way[session]

    def _end_of_term(self, error: MetadataError) -> None:
        """Called when a write has failed with `error`. End the leader's term if the error shows that another leader has
        a later epoch, or if it is unknown whether the write was executed.
        """
        if isinstance(error, (GuardError, StoreUnavailableError)):
            self._end_term(self.epoch)

    async def _open(self, session: str, change: Open) -> Answer:
        for former in change.former:
            self._table.released(former)
            await asyncio.shield(self._clear_soon(former))
        if len(self._table) >= MAX_SESSIONS:
            return failed(
                StoreRefusedError(session_path(session), f"there are {MAX_SESSIONS:,} sessions already, the maximum")
            )
        value = session_value(SessionRecord(change.broker_id, lease_ms=change.lease_ms))
        await self._store.put(session_path(session), value, expected_version=MUST_NOT_EXIST, guard=self.epoch.guard)
        self._table.opened(session, change.lease_ms)
        return Done()

    async def _change(self, session: str, change: Put | Delete) -> Answer:
        path = change.path
        if not self._may_write(path) or path == LEASED_ROOT or path.startswith(f"{LEASED_ROOT}/"):
            return failed(StoreRefusedError(path, "the leader does not write this key for other brokers"))
        mine = self.epoch.guard
        if change.guard is not None and change.guard != GuardedBy(mine.path, mine.version):
            return failed(GuardError(change.guard.path, change.guard.version, mine.version))
        async with self._key_locks.hold(path):
            for _ in range(_MAX_RACES):
                if not self._table.is_open(session):
                    return failed(_lost(path))
                try:
                    if isinstance(change, Put):
                        return Done(await self._put(session, change))
                    await self._delete(session, change)
                    return Done()
                except _RacedError:
                    continue
        return not_done(path, "other clients changed the key during each attempt")

    async def _put(self, session: str, change: Put) -> Stat:
        path, guard = change.path, self.epoch.guard
        if change.ephemeral and not path.startswith(tuple(f"{root.rstrip('/')}/" for root in self._roots)):
            raise StoreRefusedError(path, "ephemeral keys are not allowed at this path")
        if change.sequential:
            value = leased(session, change.value) if change.ephemeral else change.value
            stat = await self._store.put(path, value, expected_version=MUST_NOT_EXIST, sequential=True, guard=guard)
            if change.ephemeral:
                self._keys.setdefault(session, {})[stat.path] = None
            return replace(stat, ephemeral=change.ephemeral, created_by_self=True)
        record = await self._store.get(path)
        lessee = None if record is None else split_lease(record.value)[0]
        version = None if record is None else record.stat.version
        options = PutOptions(change.expected_version, change.ephemeral, if_own=change.if_own)
        check_put(path, version, options, own=lessee == session)
        if record is None and change.ephemeral:
            lessee = session
            self._keys.setdefault(session, {})[path] = None
        value = change.value if lessee is None else leased(lessee, change.value)
        stat = await _unraced(
            self._store.put(path, value, expected_version=MUST_NOT_EXIST if version is None else version, guard=guard)
        )
        return replace(stat, ephemeral=lessee is not None, created_by_self=record is None or lessee == session)

    async def _delete(self, session: str, change: Delete) -> None:
        path = change.path
        record = await self._store.get(path)
        lessee = None if record is None else split_lease(record.value)[0]
        version = None if record is None else record.stat.version
        own = lessee == session
        check_delete(path, version, expected=change.expected_version, if_own=change.if_own, own=own, has_children=False)
        await _unraced(self._store.delete(path, expected_version=version, guard=self.epoch.guard))
        if lessee is not None:
            self._keys.get(lessee, {}).pop(path, None)


class _RacedError(Exception):
    """The leader has read a key, and another client has changed it before the leader's write. Nothing was written."""


async def _unraced(write: Coroutine[Any, Any, T]) -> T:
    try:
        return await write
    except GuardError:
        raise
    except (BadVersionError, NotFoundError) as error:
        raise _RacedError from error


def _lost(path: str) -> SessionLostError:
    return SessionLostError(path, "the leader has ended the session")


def _session_of(record: Record) -> SessionRecord:
    """Decode the record of a session. If it cannot be decoded, return a record of a session that has ended."""
    try:
        return session_of(record)
    except InvalidValueError:
        return SessionRecord(is_marked=True)
