"""Numbers of leaders' terms, kept in a record that lasts, and what they keep from former leaders.

A leader's ephemeral key shows who leads, but not for how long: it begins anew with each leader, and whoever stood still
believes in the one he had. So each leader takes the next number, its epoch, before anything else, by compare-and-set on
a lasting record. Its writes are guarded by that record (`FencedStore`), and its commands carry the number
(`EpochGate`): when the next leader has taken his, the store and the other brokers refuse both.

`take_epoch` reads the record, then the leader's key, then writes. If the write succeeds, nobody took an epoch since the
first read, and the key was this session's after it. Who is elected later takes his epoch later, and a higher one.

A leader that leaves says so beforehand in a record of its own (`tell_release`), which nothing depends on: by it the
next one can tell an orderly end from a session that ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from pulsar_barycenter.metadata.codec import JsonCodec
from pulsar_barycenter.metadata.conditions import check_guard
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    FormerEpochError,
    GuardError,
    InvalidValueError,
    NotLeadingError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.store import (
    MUST_NOT_EXIST,
    Guard,
    MetadataStore,
    Notification,
    Record,
    SessionEvent,
    Stat,
)

MAX_EPOCH: Final = 1 << 53
"""Beyond it a record is none, and a command's number is refused: JSON's numbers are exact so far."""


class EpochRecord(msgspec.Struct, frozen=True, rename="camel"):
    """`epoch` counts from 1; `broker_id` is who took it."""

    epoch: Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH)] = 0
    broker_id: str = ""


class Predecessor(msgspec.Struct, frozen=True):
    """Who took the epoch before, and whether he gave it up of himself."""

    broker_id: str
    has_released: bool


_CODEC = JsonCodec(EpochRecord)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One term of a leader: its number, and what every write in it depends on.

    `before` is known to who took it: who led before, None if nobody did.
    """

    number: int
    guard: Guard
    before: Predecessor | None = field(default=None, compare=False)


def epoch_path(leader_path: str) -> str:
    """Return where the epochs are counted of those who are elected at `leader_path`."""
    return f"{leader_path}-epoch"


def release_path(leader_path: str) -> str:
    """Return where the last leader of those who are elected at `leader_path` says that he gives it up."""
    return f"{leader_path}-released"


async def read_epoch(store: MetadataStore, leader_path: str) -> Epoch | None:
    """Return the epoch of now; None before the first.

    Raises:
        InvalidValueError: the record is none.
    """
    record = await store.get(epoch_path(leader_path))
    return None if record is None else _epoch(record)


async def take_epoch(store: MetadataStore, leader_path: str, broker_id: str) -> Epoch | None:
    """Begin a term: take the next epoch. None: the leader's key is not this session's, or somebody else took one
    meanwhile.

    Raises:
        InvalidValueError: the record is none; a leader cannot tell which epochs there were.
        StoreUnavailableError: unknown whether one was taken; nobody will use it if it was.
    """
    path = epoch_path(leader_path)
    former = await store.get(path)
    before = None if former is None else _CODEC.decode(path, former.value)
    key = await store.get(leader_path)
    if key is None or not key.stat.created_by_self:
        return None
    released = None if before is None else await _released(store, leader_path)
    number, version = (1, MUST_NOT_EXIST)
    if former is not None and before is not None:
        number, version = before.epoch + 1, former.stat.version
    try:
        stat = await store.put(path, _CODEC.encode(EpochRecord(number, broker_id)), expected_version=version)
    except BadVersionError:
        return None
    led = None if before is None else Predecessor(before.broker_id, has_released=released == before.epoch)
    return Epoch(number, Guard(path, stat.version), led)


async def tell_release(store: MetadataStore, leader_path: str, epoch: int, broker_id: str) -> None:
    """Say that the leader of an epoch gives it up; to be called before its key is deleted.

    Raises:
        MetadataError: the store did not answer; the next leader will take it for a session that ended.
    """
    await store.put(release_path(leader_path), _CODEC.encode(EpochRecord(epoch, broker_id)))


async def _released(store: MetadataStore, leader_path: str) -> int | None:
    """Return the epoch that was given up last, None if none is known to be."""
    path = release_path(leader_path)
    record = await store.get(path)
    try:
        return None if record is None else _CODEC.decode(path, record.value).epoch
    except InvalidValueError:
        return None


async def require_guard(store: MetadataStore, guard: Guard) -> None:
    """Look whether a guard holds, for a write that goes elsewhere: what it tells may be over when it returns.

    Raises:
        GuardError: it does not.
    """
    record = await store.get(guard.path)
    check_guard(guard, None if record is None else record.stat.version)


def _epoch(record: Record) -> Epoch:
    stat = record.stat
    return Epoch(_CODEC.decode(stat.path, record.value).epoch, Guard(stat.path, stat.version))


class EpochGate:
    """Lets commands pass that carry the epoch of now. Remembers the highest that it saw."""

    def __init__(self, store: MetadataStore, leader_path: str) -> None:
        self._store = store
        self._leader_path = leader_path
        self._highest = 0

    async def admit(self, epoch: int) -> Guard:
        """Return what the writes of a command of that epoch are to depend on.

        Raises:
            FormerEpochError: another leader has a later one.
            MetadataError: the store does not answer, or has not heard of so late an epoch: ask again.
        """
        path = epoch_path(self._leader_path)
        if epoch < self._highest:
            raise FormerEpochError(path, epoch, self._highest)
        current = await read_epoch(self._store, self._leader_path)
        self._highest = max(self._highest, 0 if current is None else current.number)
        if epoch < self._highest:
            raise FormerEpochError(path, epoch, self._highest)
        if current is None or epoch > current.number:
            raise StoreUnavailableError(path, f"nothing is known here of leader epoch {epoch}. Try again.")
        return current.guard


class FencedStore:
    """A store whose writes are a leader's: each depends on the epoch that `epoch` tells at the call.

    Implements `MetadataStore`. `epoch` raises NotLeadingError where only a leader may write; None lets a write pass
    that is no leader's. `refused` hears of an epoch of which a write was refused. Listeners and the session are those
    of the store, which this one does not close.
    """

    def __init__(
        self, store: MetadataStore, epoch: Callable[[], Epoch | None], refused: Callable[[Epoch], None]
    ) -> None:
        self._store = store
        self._epoch = epoch
        self._refused = refused

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
        """Write as `MetadataStore.put` does, if no other leader has taken an epoch.

        Raises:
            NotLeadingError: this broker does not lead, or another one does by now; nothing was written.
        """
        assert guard is None, "the epoch is the guard"
        epoch = self._epoch()
        try:
            return await self._store.put(
                path,
                value,
                expected_version=expected_version,
                ephemeral=ephemeral,
                sequential=sequential,
                if_own=if_own,
                guard=None if epoch is None else epoch.guard,
            )
        except GuardError as error:
            raise self._deposed(path, epoch, error) from error

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        """Delete as `MetadataStore.delete` does, if no other leader has taken an epoch.

        Raises:
            NotLeadingError: this broker does not lead, or another one does by now; nothing was deleted.
        """
        assert guard is None, "the epoch is the guard"
        epoch = self._epoch()
        try:
            guard = None if epoch is None else epoch.guard
            await self._store.delete(path, expected_version=expected_version, if_own=if_own, guard=guard)
        except GuardError as error:
            raise self._deposed(path, epoch, error) from error

    def _deposed(self, path: str, epoch: Epoch | None, error: GuardError) -> NotLeadingError:
        assert epoch is not None, "there was a guard"
        self._refused(epoch)
        why = "another leader took the next" if error.actual is not None else f"the record {error.path} was deleted"
        return NotLeadingError(path, f"refused: it is of leader epoch {epoch.number}, and {why}")

    async def get(self, path: str) -> Record | None:
        return await self._store.get(path)

    async def children(self, path: str) -> list[str]:
        return await self._store.children(path)

    async def exists(self, path: str) -> bool:
        return await self._store.exists(path)

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return self._store.add_listener(listener)

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self._store.add_session_listener(listener)

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        return self._store.add_invalidator(invalidate)

    @property
    def session_is_overdue(self) -> bool:
        return self._store.session_is_overdue

    async def close(self) -> None:
        """Do nothing: the store is somebody else's."""
