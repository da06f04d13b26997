"""Acquires the lock of a bundle, proves that it is held, and releases it.

The lock is an ephemeral key /namespace/<tenant>/<ns>/<range>. `acquire` creates it and then, while it is held, takes
the epoch of the term that begins. `release` deletes it. `scrub` deletes a key that a write of unknown outcome may have
left. `by_locks` decides what is done with an acquired bundle.

**Epochs.** A term takes its epoch from one counter of the whole cluster *after* it acquired the lock and while it holds
the lock. Claim: of two terms whose bundles overlap, the later has the higher epoch. Proof: let term 1 end before term 2
begins, both of one range. Term 1 took its number while it held the lock: the write of the number into the lock record
was conditional on the version of the acquisition and made in the same session, so the lock was held all the time. Term
2 took its number after it acquired the lock, which was after term 1 lost it. The counter returns increasing numbers, so
number 2 > number 1, whatever the order in which the two brokers first tried. A number that is taken before the lock
would not be enough: A takes 5, B takes 6, acquires and loses the lock, and A acquires it with 5. In a split, the
children acquire their locks while their parent is held, so they take their numbers after it. And a parent can never be
acquired again after the children's boundaries were written, because an acquisition reads the boundaries after it has
the lock, and fails if its range is not among them. Ledgers that were opened in the parent's term keep its lower epoch,
and the next owner's is higher than the children's.

**Sessions.** When the session is lost, this broker abandons every lock at once, so that the next session begins without
records of ended terms. No session takes over the lock of another.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, BundleNotFoundError
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.namespaces.boundaries import needs_no_record
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.other_owners import bundle_of_lock
from pulsar_barycenter.broker.ownership.record import OwnershipRecord, lock_path, never_inherited
from pulsar_barycenter.broker.ownership.term import PauseDetector
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.coordination.locks import LockManager, ResourceLock
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    LockBusyError,
    LockLostError,
    MetadataError,
    NotFoundError,
)
from pulsar_barycenter.metadata.key_locks import KeyLocks
from pulsar_barycenter.metadata.store import MetadataStore, Notification, NotificationType, SessionEvent
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

EPOCH_COUNTER: Final = "/counters/ownership-epoch"
_SCRUB_PAUSE_S: Final = 1.0

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], object]


@dataclass(frozen=True, slots=True)
class BundleLock:
    """The lock of a bundle that this broker has. `epoch` was taken after the lock was acquired; `record` is the value
    that was then written to the lock's key.
    """

    lock: ResourceLock[OwnershipRecord]
    record: OwnershipRecord
    epoch: int


class BundleLocks:
    """The locks of bundles that this broker has in its present session.

    `spawn` runs work in the background under a name. `is_held` returns whether a term uses the lock of a bundle. A lock
    that exists in the store and that no term uses is deleted (scrubbed), because it is left from a write whose outcome
    was not known.
    """

    def __init__(
        self,
        store: MetadataStore,
        bundles: BundleCache,
        *,
        incarnation: str,
        pauses: PauseDetector,
        spawn: Spawn,
        is_held: Callable[[Bundle], bool],
    ) -> None:
        self._store = store
        self._bundles = bundles
        self._incarnation = incarnation
        self._pauses = pauses
        self._spawn = spawn
        self._is_held = is_held
        self._locks: LockManager[OwnershipRecord] = LockManager(
            store, OwnershipRecord, same_owner=never_inherited, source=random.Random(incarnation)
        )
        self._urls: ServiceUrls | None = None
        self._refusal: str | None = "this broker is starting"
        self._session = 0
        self._session_lost = False
        self._serials = KeyLocks[Bundle]()
        self._scrubbing: dict[Bundle, bool] = {}
        """The bundles that are being scrubbed, and whether another scrub was requested since the last check."""
        self._unanswered: set[Bundle] = set()
        """The bundles whose lock this session requested without an answer: it may be created at any later time."""
        self._closed = False
        self._stop_listening = [
            store.add_listener(self._on_notification),
            store.add_session_listener(self._on_session_event),
        ]

    # ---- lifecycle and session ----

    def set_identity(self, urls: ServiceUrls) -> None:
        """Set the id and URLs that lock records name as owner. From now on locks may be acquired."""
        self._urls = urls
        self._refusal = None

    def refuse(self, why: str) -> None:
        """Acquire no more locks. `why` is the reason for the refusal."""
        self._refusal = why

    def stop(self) -> None:
        """Acquire no more locks; acquisitions in progress fail, and lock keys are not scrubbed any more. Locks that
        this broker has are not released; `close` does this.
        """
        self._closed = True
        self._refusal = "this broker is stopped"
        for stop in self._stop_listening:
            stop()

    async def close(self) -> None:
        """Release every lock that this broker still has."""
        with suppress(MetadataError):
            await self._locks.close()

    @property
    def has_session(self) -> bool:
        return not self._session_lost

    def interrupted(self) -> None:
        """Record that the process was paused: acquisitions that began before this call will fail."""
        self._session += 1

    def lose_session(self) -> None:
        self._session_lost = True
        self._unanswered.clear()
        self.interrupted()
        self._locks.expire_all()

    def regain_session(self) -> None:
        self._session_lost = False

    # ---- one bundle ----

    def serial(self, bundle: Bundle) -> AbstractAsyncContextManager[None]:
        """Return an asyncio lock for changes of a bundle: hold it during a change, so that only one change runs at a
        time.
        """
        return self._serials.hold(bundle)

    async def acquire(self, bundle: Bundle, *, is_child: bool = False) -> BundleLock:
        """Acquire the lock of a bundle, then take an epoch, then write the epoch into the value of the lock's key. Call
        this within `serial(bundle)`.

        `is_child`: `bundle` is a child of a split in progress, so it is not a bundle of the namespace yet.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            BundleNotAcquiredError: nothing is acquired now, or the session was lost in between.
            LockBusyError: another broker has the lock.
            MetadataError: the store did not answer.
        """
        if self._refusal is not None or self._urls is None:
            raise BundleNotAcquiredError(bundle, self._refusal or "this broker is starting")
        if self._session_lost or self._pauses.has_paused():
            raise BundleNotAcquiredError(bundle, "this broker lost its session with the metadata store")
        session = self._session
        preliminary = OwnershipRecord.of(self._urls, self._incarnation, epoch=None, disabled=True)
        try:
            lock = await self._locks.acquire(lock_path(bundle), preliminary)
        except LockBusyError:
            raise
        except MetadataError:
            self._unanswered.add(bundle)
            self.scrub_later(bundle)
            raise
        try:
            if not is_child:
                await self._require_current(bundle)
            epoch = await next_counter_value(self._store, EPOCH_COUNTER)
            self._require_session(bundle, session, lock)
            record = msgspec.structs.replace(preliminary, epoch=epoch, disabled=False)
            await lock.update(record)
            self._require_session(bundle, session, lock)
            if not is_child:
                self._require_known(bundle)
        except BaseException as error:
            self._spawn(self.release(bundle, lock), f"release {bundle}")
            if isinstance(error, LockLostError):
                raise _session_lost(bundle) from error
            raise
        return BundleLock(lock, record, epoch)

    async def mark_disabled(self, won: BundleLock) -> None:
        """Write into the lock's key that the owner does not serve the bundle (`disabled`), so that look-ups at other
        brokers wait for the next owner. An error is ignored, because this mark is optional.
        """
        with suppress(MetadataError):
            await won.lock.update(msgspec.structs.replace(won.record, disabled=True))

    async def release(self, bundle: Bundle, lock: ResourceLock[OwnershipRecord]) -> None:
        """Release the lock. If this fails, its key is deleted in the background (`scrub_later`)."""
        try:
            await lock.release()
        except MetadataError as error:
            log.warning("lock_not_released", bundle=str(bundle), reason=str(error))
            self.scrub_later(bundle)

    def scrub_idle(self, bundle: Bundle) -> None:
        """Delete, in the background, a lock of this process that no term uses. Do nothing if a change of the bundle is
        in progress.
        """
        if bundle not in self._serials:
            self.scrub_later(bundle)

    def _on_notification(self, notification: Notification) -> None:
        """When a lock was just created in the store, delete it if this broker requested it and got no answer to the
        request: it is not used by a term.
        """
        bundle = bundle_of_lock(notification) if notification.type is NotificationType.CREATED else None
        if bundle in self._unanswered:
            self.scrub_later(bundle)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # notifications may have been lost
            for bundle in self._unanswered:
                self.scrub_later(bundle)

    def scrub_later(self, bundle: Bundle) -> None:
        if bundle in self._scrubbing:
            self._scrubbing[bundle] = True
        else:
            self._scrubbing[bundle] = False
            self._spawn(self._scrub(bundle), f"scrub {bundle}")

    async def _scrub(self, bundle: Bundle) -> None:
        """Delete this process' lock of `bundle` if no term uses it. Repeat this until it is certain that no such lock
        exists in the store.
        """
        try:
            while not self._closed:
                self._scrubbing[bundle] = False
                try:
                    is_certain = await self._scrub_once(bundle)
                except MetadataError as error:
                    is_certain = False
                    log.info("orphaned_ownership_not_deleted", bundle=str(bundle), reason=str(error))
                if not is_certain:
                    await asyncio.sleep(_SCRUB_PAUSE_S)
                elif not self._scrubbing[bundle]:
                    return
        finally:
            del self._scrubbing[bundle]

    async def _scrub_once(self, bundle: Bundle) -> bool:
        """Delete this process' lock of `bundle` if no term uses it. Return True if it is certain that this process has
        no lock of the bundle any more, except one that a term uses.

        The lock of a former session is not deleted here, because the store deletes it when that session ends. If it
        were deleted by its version, the lock of another broker could be deleted instead, which also starts at version
        0.
        """
        async with self.serial(bundle):
            if self._is_held(bundle):
                return True
            stored = await self._store.get(lock_path(bundle))
            if stored is None or not _is_of(stored.value, self._incarnation):
                return True
            if not stored.stat.created_by_self:
                return False
            try:
                await self._store.delete(lock_path(bundle), expected_version=stored.stat.version, if_own=True)
            except BadVersionError:  # a late write was carried out in between
                return False
            except NotFoundError:
                return True
            log.warning("orphaned_ownership_deleted", bundle=str(bundle))
            return True

    async def _require_current(self, bundle: Bundle) -> None:
        """While the lock is held, read the namespace from the store and raise BundleNotFoundError if the range is not
        one of its bundles. After this check it stays one, because no other broker can split a bundle whose lock is
        held.
        """
        bundles = await self._bundles.fresh(bundle.namespace)
        exists = bundles.version is not None or needs_no_record(bundle.namespace)
        if not exists or bundles.find_hash(bundle.range.lower) != bundle:
            raise BundleNotFoundError(bundle)

    def _require_known(self, bundle: Bundle) -> None:
        """Raise BundleNotFoundError if the cached boundaries show that the range is not a bundle any more. They may
        have changed after they were read and before the bundle was registered as held; of later changes this broker is
        notified.
        """
        bundles = self._bundles.cached(bundle.namespace)
        if bundles is not None and bundles.find_hash(bundle.range.lower) != bundle:
            raise BundleNotFoundError(bundle)

    def _require_session(self, bundle: Bundle, session: int, lock: ResourceLock[OwnershipRecord]) -> None:
        if (
            self._closed
            or self._session != session
            or self._session_lost
            or not lock.is_held
            or self._pauses.has_paused()
        ):
            raise _session_lost(bundle)


def _session_lost(bundle: Bundle) -> BundleNotAcquiredError:
    return BundleNotAcquiredError(bundle, "the session was lost during the acquisition")


def _is_of(value: bytes, incarnation: str) -> bool:
    try:
        return msgspec.json.decode(value, type=OwnershipRecord).incarnation == incarnation
    except msgspec.DecodeError:
        return False
