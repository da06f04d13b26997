"""Epochs: the numbers of leaders' terms, in a persistent record, and how they stop a former leader.

A leader's ephemeral key says which broker leads, but not in which term: each leader creates the key again, and a
process that was paused still relies on the key that it created. So each leader first writes the next number, its epoch,
to a persistent record, by a compare-and-set. The leader's writes depend on the version of that record (`FencedStore`),
and its commands contain the epoch (`EpochGate`). Once the next leader has taken its epoch, the store refuses the former
leader's writes, and the other brokers refuse its commands.

`take_epoch` reads the record, then the leader's key, then writes. If the write succeeds, then no other broker took an
epoch since the record was read, and the leader's key belonged to this session after that read. A broker that is elected
later takes its epoch later, and a higher one.

A leader that resigns writes that to another record (`announce_release`). Nothing depends on that record, but the next
leader can tell an orderly end from a session that expired.
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
"""The largest valid epoch: JSON numbers are exact up to it. A record or command with a larger one is invalid."""


class EpochRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The record in the store with an election's current epoch. Epochs count from 1. `broker_id` is the id of the
    leader that has this epoch.
    """

    epoch: Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH)] = 0
    broker_id: str = ""


class Predecessor(msgspec.Struct, frozen=True):
    """The broker that led in the previous epoch. `has_released` is True if it resigned; False if its session ended
    without that.
    """

    broker_id: str
    has_released: bool


_CODEC = JsonCodec(EpochRecord)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The term of one leader. `number` is its epoch. `guard` is the condition that every write of the leader in this
    term has: that no later leader has taken an epoch.

    `before` is the leader of the previous epoch. Only `take_epoch` returns it, so only the new leader knows it. None:
    there was no previous leader, or this object was read from the store.
    """

    number: int
    guard: Guard
    before: Predecessor | None = field(default=None, compare=False)


def epoch_path(leader_path: str) -> str:
    """Return the path of the record with the current epoch, for the election whose candidates create the key
    `leader_path`.
    """
    return f"{leader_path}-epoch"


def release_path(leader_path: str) -> str:
    """Return the path of the record that a leader writes when it resigns, for the election whose candidates create the
    key `leader_path`.
    """
    return f"{leader_path}-released"


async def read_epoch(store: MetadataStore, leader_path: str) -> Epoch | None:
    """Return the current epoch of the election with the leader's key `leader_path`; None if no leader has taken an
    epoch yet.

    Raises:
        InvalidValueError: the record with the epoch cannot be decoded.
    """
    record = await store.get(epoch_path(leader_path))
    return None if record is None else _epoch(record)


async def take_epoch(store: MetadataStore, leader_path: str, broker_id: str) -> Epoch | None:
    """Begin a leader's term: write the next epoch to the store, and return it. The caller has been elected: its session
    has created the leader's key. Return None, and write nothing, if the key is not of this session any more, or if
    another broker has taken an epoch in the meantime.

    Raises:
        InvalidValueError: the record with the last epoch cannot be decoded.
        StoreUnavailableError: it is unknown whether the epoch was written. If it was, no broker uses this epoch.
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


async def announce_release(store: MetadataStore, leader_path: str, epoch: int, broker_id: str) -> None:
    """Write to the store that the leader of `epoch` resigns. The leader calls this before it deletes its key.

    Raises:
        MetadataError: the store did not answer. If it has not stored the record, the next leader assumes that this
            leader's session expired.
    """
    await store.put(release_path(leader_path), _CODEC.encode(EpochRecord(epoch, broker_id)))


async def _released(store: MetadataStore, leader_path: str) -> int | None:
    """Return the epoch of the last leader that wrote that it resigned; None if there is no such record, or if it cannot
    be decoded.
    """
    path = release_path(leader_path)
    record = await store.get(path)
    try:
        return None if record is None else _CODEC.decode(path, record.value).epoch
    except InvalidValueError:
        return None


async def require_guard(store: MetadataStore, guard: Guard) -> None:
    """Check that the key of `guard` still has the version in `guard`. Callers do this before they write to another
    system than this store, which cannot check the guard itself.

    The key may change at any time after the check.

    Raises:
        GuardError: the key has another version, or does not exist.
    """
    record = await store.get(guard.path)
    check_guard(guard, None if record is None else record.stat.version)


def _epoch(record: Record) -> Epoch:
    stat = record.stat
    return Epoch(_CODEC.decode(stat.path, record.value).epoch, Guard(stat.path, stat.version))


class EpochGate:
    """Refuses the commands of former leaders to this broker. It remembers the highest epoch that it has read from the
    store.
    """

    def __init__(self, store: MetadataStore, leader_path: str) -> None:
        self._store = store
        self._leader_path = leader_path
        self._highest = 0

    async def admit(self, epoch: int) -> Guard:
        """Check that `epoch`, which a leader has sent with a command, is the current epoch. Return the guard for the
        writes by which this broker carries out the command.

        Raises:
            FormerEpochError: another leader has taken a later epoch.
            MetadataError: the store does not answer, or this broker has not read `epoch` from the store yet. The leader
                has to send the command again.
        """
        path = epoch_path(self._leader_path)
        if epoch < self._highest:
            raise FormerEpochError(path, epoch, self._highest)
        current = await read_epoch(self._store, self._leader_path)
        self._highest = max(self._highest, 0 if current is None else current.number)
        if epoch < self._highest:
            raise FormerEpochError(path, epoch, self._highest)
        if current is None or epoch > current.number:
            raise StoreUnavailableError(
                path, f"this broker has not read leader epoch {epoch} from the store yet. Try again."
            )
        return current.guard


class FencedStore:
    """A metadata store for the writes of a leader. It passes each operation to the store `store`. A write succeeds only
    if no other leader has taken a later epoch.

    `epoch` is a function that returns the epoch of the write. It returns None for a write that need not be a leader's,
    which is then passed on without a condition, and raises NotLeadingError if the write needs a leader and this broker
    does not lead. `refused` is called with the epoch of a write that was refused because a later leader exists. `close`
    does not close `store`.
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
        """Write as `MetadataStore.put` does, but only if no other leader has taken a later epoch than the one that
        `epoch()` returns.

        Raises:
            NotLeadingError: this broker does not lead, or another leader has a later epoch; nothing was written.
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
        """Delete as `MetadataStore.delete` does, but only if no other leader has taken a later epoch than the one that
        `epoch()` returns.

        Raises:
            NotLeadingError: this broker does not lead, or another leader has a later epoch; nothing was deleted.
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
        why = (
            "another leader has taken the next epoch"
            if error.actual is not None
            else f"the record {error.path} was deleted"
        )
        return NotLeadingError(path, f"refused: the write is of leader epoch {epoch.number}, and {why}")

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
        """Do nothing: the store to which operations are passed is closed by its owner."""
