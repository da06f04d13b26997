"""Locks on paths of the metadata store: an ephemeral key that records which session holds the path.

The states of a lock and its transitions are the table LOCK_TRANSITIONS. In addition a lock may be *in doubt*, which its
holder does not see: after its key was deleted, after the session was lost or notifications were missed, and after an
update without an answer. Then the lock is revalidated (`_revalidate`): the key is read, and written again if necessary;
if another session holds the path, the lock expires. While the store does not answer, the lock stays valid: a lost
connection alone does not expire it. So a holder has to prove, at the target of its action, that it still holds the lock
(by an epoch, a version, a fenced ledger).

What must never happen: a former holder of a lock deletes the key of the next holder. Versions cannot prevent that,
because they start at 0 each time the key is created. So a key is deleted and updated only with `if_own`, only by the
lock object that is current for its path, and never after an operation whose outcome is unknown.

Source: Pulsar's `LockManagerImpl` and `ResourceLockImpl`. Three differences: a key of this session with another value
is overwritten without deleting it, so that observers see no gap; every lock is revalidated on RECONNECTED too, because
notifications may have been missed; and all locks are checked every `recheck_s`, in case a notification is lost
unnoticed.
"""

import asyncio
import enum
import operator
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Generic, TypeVar

import structlog

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.codec import Codec, JsonCodec
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    InvalidValueError,
    LockBusyError,
    LockLostError,
    MetadataError,
    NotFoundError,
    OtherSessionError,
    SessionLostError,
    StoreClosedError,
)
from pulsar_barycenter.metadata.store import (
    CONNECTED_EVENTS,
    MUST_NOT_EXIST,
    MetadataStore,
    Notification,
    NotificationType,
    Record,
    SessionEvent,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
MAX_RACES = 10
"""The maximum number of attempts of one revalidation, if other clients change the key meanwhile."""


class LockState(enum.Enum):
    """The state of a lock, as the object that acquired it knows it."""

    INIT = "init"
    """The store has not answered yet whether the lock was acquired."""
    VALID = "valid"
    """The lock was acquired, and is neither released nor known to be lost."""
    RELEASING = "releasing"
    """The lock's key is being deleted, after updates that began earlier."""
    EXPIRED = "expired"


class LockStep(enum.Enum):
    ACQUIRE = "acquire"
    """The store answered that the lock's key belongs to this session."""
    RELEASE = "release"
    """The holder does not need the lock any longer."""
    EXPIRE = "expire"
    """The lock was released, is known to be lost, or was abandoned without deleting its key."""


LOCK_TRANSITIONS: Final[Mapping[tuple[LockState, LockStep], LockState]] = {
    (LockState.INIT, LockStep.ACQUIRE): LockState.VALID,
    (LockState.INIT, LockStep.RELEASE): LockState.RELEASING,
    (LockState.INIT, LockStep.EXPIRE): LockState.EXPIRED,
    (LockState.VALID, LockStep.RELEASE): LockState.RELEASING,
    (LockState.VALID, LockStep.EXPIRE): LockState.EXPIRED,
    (LockState.RELEASING, LockStep.EXPIRE): LockState.EXPIRED,
}
"""The next state of a lock for each state and step. A step that is not listed changes nothing: no step leads out of
EXPIRED, nor from RELEASING back to VALID.
"""


class ResourceLock(Generic[T]):
    """A lock on one path, held by this session or being acquired: an ephemeral key with a value. Created by
    `LockManager.acquire`. Concurrent operations on one lock run one after the other.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        value: T,
        codec: Codec[T],
        same_owner: Callable[[T, T], bool],
        source: random.Random,
    ) -> None:
        self.path = path
        self.expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the lock is released or known to be lost; a lost connection alone does not set it."""
        self._store = store
        self._value = value
        self._codec = codec
        self._same_owner = same_owner
        self._back_off = BackOff(source, FIRST_BACKOFF_S, MAX_BACKOFF_S)
        self._state = LockState.INIT
        self._version = MUST_NOT_EXIST
        self._is_ambiguous = False
        self._serial = asyncio.Lock()
        self._in_doubt = asyncio.Event()
        self._revalidator: asyncio.Task[None] | None = None
        self._release: asyncio.Task[None] | None = None

    @property
    def value(self) -> T:
        """The value of the last write of this object to the lock's key that the store has answered."""
        return self._value

    @property
    def is_held(self) -> bool:
        """True from the moment when the lock is acquired, until it is released or this session learns that it has lost
        the lock.
        """
        return self._state is LockState.VALID

    async def update(self, value: T) -> None:
        """Replace the value in the lock's key by `value`.

        Raises:
            LockLostError: the lock is not held any longer.
            LockBusyError: another session has taken the lock; the lock has expired.
            StoreUnavailableError, SessionLostError: it is unknown whether the value was written. In the background, the
                key is read until the store answers, and gets the previous value again.
        """
        self._check_not({LockState.INIT, LockState.RELEASING, LockState.EXPIRED})
        async with self._serial:
            self._check_not({LockState.EXPIRED})  # a release that began after this update waits for it
            try:
                await self._write(value)
            except (LockBusyError, LockLostError, StoreClosedError):
                self.expire()
                raise
            except (MetadataError, asyncio.CancelledError):
                self._is_ambiguous = True
                self.doubt()
                raise

    async def release(self) -> None:
        """Release the lock: delete its key, after all updates that began earlier have ended. Idempotent.

        If several callers call this, the key is deleted once, and all of them wait for it. If the key does not exist or
        belongs to another session, the lock counts as released.

        Raises:
            MetadataError: the deletion failed, or was not tried because the outcome of an earlier operation is unknown.
                The key then stays until the session ends. Every later call raises the same error.
        """
        if self._release is None:
            if self._state is LockState.EXPIRED:
                return
            self._step(LockStep.RELEASE)
            self._in_doubt.set()
            self._release = asyncio.create_task(self._release_once(), name=f"release lock {self.path}")
            self._release.add_done_callback(lambda done: done.cancelled() or done.exception())  # callers may have left
        await asyncio.shield(self._release)

    def doubt(self) -> None:
        """Start to check, in the background, that this session still holds the lock. The key is read again and again
        until the store answers. If the lock is lost, it expires; if its key is missing, it is created again.
        """
        self._in_doubt.set()
        if self._state is LockState.VALID and (self._revalidator is None or self._revalidator.done()):
            self._revalidator = asyncio.create_task(
                self._revalidate_until_certain(), name=f"revalidate lock {self.path}"
            )

    def expire(self) -> None:
        """Stop using the lock without deleting its key. An update or a check that is running writes nothing after this
        call.
        """
        if not self._step(LockStep.EXPIRE):
            return
        self._in_doubt.set()
        if not self.expired.done():
            self.expired.set_result(None)

    async def acquire(self) -> None:
        """Acquire the lock: create its key, or take it over from an earlier session of the same owner. Only
        `LockManager` calls this.
        """
        async with self._serial:
            try:
                await self._create()
            except BadVersionError:
                await self._revalidate(self._value)
            self._step(LockStep.ACQUIRE)
        if self._in_doubt.is_set():  # the key was deleted, or the session lost, before the store answered
            self.doubt()

    def _step(self, step: LockStep) -> bool:
        """Change the state of the lock by `step`, and return True. If LOCK_TRANSITIONS does not have this step in the
        present state, change nothing and return False.
        """
        after = LOCK_TRANSITIONS.get((self._state, step))
        if after is None:
            return False
        self._state = after
        return True

    def _check_not(self, states: set[LockState]) -> None:
        if self._state in states:
            raise LockLostError(self.path)

    async def _release_once(self) -> None:
        try:
            async with self._serial:
                if self._is_ambiguous:
                    raise MetadataError(
                        self.path,
                        "the lock's key was not deleted, because the outcome of an earlier operation is unknown. "
                        "The key is deleted when the session ends",
                    )
                with suppress(NotFoundError, OtherSessionError, SessionLostError):
                    await self._delete()
        finally:
            self.expire()

    async def _delete(self) -> None:
        while self._state is LockState.RELEASING:  # a revalidation may have found that the lock is lost
            try:
                await self._store.delete(self.path, expected_version=self._version, if_own=True)
            except OtherSessionError:
                raise
            except BadVersionError:  # the key is another session's, or an update without an answer has taken effect
                record = await self._store.get(self.path)
                if record is None or not record.stat.created_by_self:
                    return
                self._version = record.stat.version
            else:
                return

    async def _revalidate_until_certain(self) -> None:
        """Check in the store, again and again until the store has answered, that this session still holds the lock.
        After that, the lock either is held or has expired.
        """
        self._back_off.reset()
        while self._state is LockState.VALID and self._in_doubt.is_set():
            self._in_doubt.clear()
            try:
                async with self._serial:
                    if self._state is LockState.VALID:
                        await self._revalidate(self._value, in_background=True)
                self._back_off.reset()
            except (BadVersionError, LockBusyError, LockLostError, StoreClosedError) as error:
                log.info("lock_lost", path=self.path, reason=str(error))
                self.expire()
            except MetadataError as error:
                backoff_s = self._back_off.next_s()
                log.info("lock_in_doubt", path=self.path, reason=str(error), retry_in_s=round(backoff_s, 3))
                with suppress(TimeoutError):
                    async with asyncio.timeout(backoff_s):
                        await self._in_doubt.wait()
                self._in_doubt.set()

    async def _revalidate(self, value: T, *, in_background: bool = False) -> None:
        """Make sure that the lock's key exists, belongs to this session and has `value`. Create, take over or rewrite
        the key if necessary. `in_background` is True for a check that no caller waits for.

        Raises:
            LockBusyError: the key belongs to another owner, or is not ephemeral and so not a lock, or was changed by
                other clients during each of MAX_RACES attempts.
        """
        for _ in range(MAX_RACES):
            try:
                await self._revalidate_once(value, in_background=in_background)
            except (BadVersionError, NotFoundError) as error:
                race = error
            else:
                return
        raise LockBusyError(self.path) from race

    async def _revalidate_once(self, value: T, *, in_background: bool) -> None:
        record = await self._store.get(self.path)
        if in_background and self._state is LockState.RELEASING:
            self._adopt_for_release(record)
            return
        if record is None:
            await self._create(value)
            return
        stat = record.stat
        if not stat.ephemeral:
            raise LockBusyError(self.path)
        stored = self._decode(record)
        if stat.created_by_self:
            if stored == value:
                self._adopt(value, stat.version)
            else:
                await self._replace(value, stat.version)
        elif stored is not None and self._same_owner(stored, value):
            # An earlier session of this owner left the key. It would expire, but later.
            await self._store.delete(self.path, expected_version=stat.version)
            await self._create(value)
        else:
            raise LockBusyError(self.path)

    def _adopt_for_release(self, record: Record | None) -> None:
        """Called when a check has read the lock's key as `record`, and a release waits for the check. Keep the version
        of the key for the release. If the key does not exist or belongs to another session, the lock expires, and the
        key is not created again.
        """
        if record is None or not record.stat.created_by_self:
            self.expire()
        elif self._decode(record) == self._value:
            self._adopt(self._value, record.stat.version)

    def _decode(self, record: Record) -> T | None:
        try:
            return self._codec.decode(self.path, record.value)
        except InvalidValueError:
            return None

    async def _write(self, value: T) -> None:
        try:
            await self._replace(value, self._version)
        except BadVersionError:
            await self._revalidate(value)

    async def _create(self, value: T | None = None) -> None:
        self._check_not({LockState.EXPIRED})
        value = self._value if value is None else value
        data = self._codec.encode(value)
        stat = await self._store.put(self.path, data, expected_version=MUST_NOT_EXIST, ephemeral=True)
        self._adopt(value, stat.version)

    async def _replace(self, value: T, version: int) -> None:
        self._check_not({LockState.EXPIRED})
        data = self._codec.encode(value)
        stat = await self._store.put(self.path, data, expected_version=version, ephemeral=True, if_own=True)
        self._adopt(value, stat.version)

    def _adopt(self, value: T, version: int) -> None:
        self._value, self._version, self._is_ambiguous = value, version, False


class LockManager(Generic[T]):
    """The locks of this session whose keys have values of the type `value_type`.

    The value of a lock identifies its owner. If the lock's key was created by another session, `same_owner` (default:
    equality) compares its value with this owner's value; True means that an earlier session of this owner left the key,
    and it is taken over. Close the manager before the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        value_type: type[T],
        *,
        same_owner: Callable[[T, T], bool] = operator.eq,
        codec: Codec[T] | None = None,
        recheck_s: float = 30.0,
        source: random.Random | None = None,
    ) -> None:
        """`recheck_s` is the number of seconds after which the keys of all locks are read again, even without a
        notification. `source` generates the random delays between attempts; the default is the system's randomness.
        """
        self._store = store
        self._codec: Codec[T] = codec or JsonCodec(value_type)
        self._same_owner = same_owner
        self._source = source or random.Random()
        self._locks: dict[str, ResourceLock[T]] = {}
        # a dict, because the order of a set would differ between runs
        self._acquiring: dict[ResourceLock[T], None] = {}
        self._closed = False
        self._stops = (store.add_listener(self._notified), store.add_session_listener(self._session_event))
        self._recheck_s = recheck_s
        self._recheck: asyncio.TimerHandle | None = None

    async def acquire(self, path: str, value: T) -> ResourceLock[T]:
        """Take the lock on `path` with the value `value`, and hold it until it is released or lost.

        If this manager holds a lock on the same path already, the new object takes over the key, and the old object
        expires.

        Raises:
            LockBusyError: another owner holds the lock.
            StoreUnavailableError: it is unknown whether the lock was taken; the caller finds out by calling this again.
        """
        self._check_open(path)
        lock = ResourceLock(self._store, path, value, self._codec, self._same_owner, self._source)
        self._acquiring[lock] = None
        try:
            await lock.acquire()
        finally:
            del self._acquiring[lock]
        if self._closed:
            await self._release_quietly(lock)
        self._check_open(path)
        former = self._locks.get(path)
        self._locks[path] = lock
        lock.expired.add_done_callback(lambda _: self._forget(lock))
        if former is not None:
            former.expire()
        self._schedule_recheck()
        return lock

    def expire_all(self) -> None:
        """Stop using every lock without deleting its key. None of them is acquired again after the session was replaced
        by another.
        """
        for lock in tuple(self._locks.values()):
            lock.expire()

    async def close(self) -> None:
        """Release all locks. If a release fails, that lock's key stays until the session ends. Idempotent."""
        self._closed = True
        for stop in self._stops:
            stop()
        if self._recheck is not None:
            self._recheck.cancel()
        await asyncio.gather(*(self._release_quietly(lock) for lock in tuple(self._locks.values())))

    async def _release_quietly(self, lock: ResourceLock[T]) -> None:
        try:
            await lock.release()
        except MetadataError as error:
            log.warning("lock_release_failed", path=lock.path, reason=str(error))

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise StoreClosedError(path)

    def _forget(self, lock: ResourceLock[T]) -> None:
        if self._locks.get(lock.path) is lock:
            del self._locks[lock.path]

    def _notified(self, notification: Notification) -> None:
        if notification.type is not NotificationType.DELETED:
            return
        lock = self._locks.get(notification.path)
        if lock is not None:
            lock.doubt()
        for lock in self._acquiring:
            if lock.path == notification.path:
                lock.doubt()

    def _session_event(self, event: SessionEvent) -> None:
        if event in CONNECTED_EVENTS:
            self._doubt_all()

    def _doubt_all(self) -> None:
        for lock in (*self._locks.values(), *self._acquiring):
            lock.doubt()

    def _schedule_recheck(self) -> None:
        if self._recheck is None and not self._closed:
            self._recheck = asyncio.get_running_loop().call_later(self._recheck_s, self._recheck_all)

    def _recheck_all(self) -> None:
        self._recheck = None
        if self._locks:
            self._doubt_all()
            self._schedule_recheck()
