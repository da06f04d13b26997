"""The locks that a broker takes in addition to its records while other brokers own by locks.

A cluster changes from the modular load manager to the extensible one, or back, broker by broker. In this time some
brokers own a bundle by its lock alone, the others by its record *and* its lock, so that the lock shows all of them
which broker serves:

- The lock is acquired before the number of the term is taken. It is released after the term ended and before the next
  record is published. So the proof about epochs in `ownership.locks` is valid for both kinds of terms.
- If a record gives a broker a bundle that another broker owns by its lock, the first broker does not take the lock, and
  writes that the bundle has no owner by records.
- If a record names no owner, look-ups read the lock, so that every broker finds the owner.
"""

from collections.abc import Callable

import msgspec

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.contract import InTransit
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER, BundleLock, BundleLocks, Spawn
from pulsar_barycenter.broker.ownership.other_owners import OtherOwners, bundle_of_lock
from pulsar_barycenter.broker.ownership.term import PauseDetector
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.store import MetadataStore, Notification
from pulsar_barycenter.naming.bundle import Bundle


class TermLocks:
    """The locks that this broker needs for its terms in addition to records, while other brokers own bundles by locks.
    Implements `TermGuard`.

    `owns_by_records` returns whether the broker with an id owns by records. `changed` is called with a bundle whose
    lock was created, deleted or changed; `lost` with a bundle whose lock this broker had and lost.
    """

    def __init__(
        self,
        store: MetadataStore,
        bundles: BundleCache,
        urls: ServiceUrls,
        *,
        incarnation: str,
        pauses: PauseDetector,
        spawn: Spawn,
        owns_by_records: Callable[[str], bool],
        changed: Callable[[Bundle], None],
        lost: Callable[[Bundle], None],
    ) -> None:
        self._store = store
        self._broker_id = urls.broker_id
        self._incarnation = incarnation
        self._owns_by_records = owns_by_records
        self._changed = changed
        self._lost = lost
        self._won: dict[Bundle, BundleLock] = {}
        self._locks = BundleLocks(
            store, bundles, incarnation=incarnation, pauses=pauses, spawn=spawn, is_held=self._won.__contains__
        )
        self._locks.set_identity(urls)
        self._others = OtherOwners(store, incarnation)
        self._stop_listening = store.add_listener(self._on_notification)

    # ---- lifecycle and session ----

    def interrupted(self) -> None:
        self._locks.interrupted()

    def lose_session(self) -> None:
        self._locks.lose_session()

    def regain_session(self) -> None:
        self._locks.regain_session()

    async def close(self) -> None:
        """Acquire no more locks, and release all locks."""
        self._locks.stop()
        self._stop_listening()
        self._others.close()
        await self._locks.close()

    # ---- this broker's locks ----

    @property
    def holds_locks(self) -> bool:
        return True

    def holds(self, bundle: Bundle) -> bool:
        won = self._won.get(bundle)
        return won is not None and won.lock.is_held

    def lacks(self, bundle: Bundle) -> bool:
        return not self.holds(bundle)

    def bundles(self) -> list[Bundle]:
        """Return the bundles whose lock this broker has acquired and not released."""
        return list(self._won)

    async def number(self, bundle: Bundle, *, is_child: Callable[[], bool]) -> int:
        """Acquire the bundle's lock, if this broker does not have it, and take an epoch for a term; see
        `BundleLocks.acquire`.

        Raises:
            BundleNotFoundError, BundleNotAcquiredError, MetadataError: the lock was not acquired, or no epoch was
                taken.
            LockBusyError: another broker has the lock.
        """
        is_made = is_child()
        async with self._locks.serial(bundle):
            won = self._won.get(bundle)
            if won is not None and won.lock.is_held:
                number = await next_counter_value(self._store, EPOCH_COUNTER)
                await won.lock.update(msgspec.structs.replace(won.record, epoch=number))
                return number
            taken = self._won[bundle] = await self._locks.acquire(bundle, is_child=is_made)
            taken.lock.expired.add_done_callback(lambda _: self._expired(bundle, taken))
            return taken.epoch

    async def give_back(self, bundle: Bundle) -> None:
        """Release the bundle's lock, if this broker has it."""
        async with self._locks.serial(bundle):
            won = self._won.pop(bundle, None)
            if won is not None:
                await self._locks.release(bundle, won.lock)

    def _expired(self, bundle: Bundle, won: BundleLock) -> None:
        if self._won.get(bundle) is won:
            del self._won[bundle]
            self._lost(bundle)

    # ---- locks of other brokers ----

    def known(self, bundle: Bundle) -> Owner | None:
        """Return the broker that owns the bundle by a lock, without an ownership record, if this is known without
        reading. None: there is no such broker, or it is not known.
        """
        owner = self._others.get(bundle)
        return None if owner is None or self._owns_by_records(owner.broker_id) else owner

    async def owner(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the broker that has the bundle's lock; None if no broker has it. InTransit: a broker has it but does
        not serve the bundle, or the record in the lock has not been read yet.
        """
        record = await self._others.read(bundle)
        if record is None:
            return None
        if record.incarnation == self._incarnation:
            if bundle not in self._won:
                self._locks.scrub_idle(bundle)
            return InTransit(self._broker_id)
        if record.disabled or self._owns_by_records(record.broker_id):
            return InTransit(record.broker_id)
        return record.owner()

    def _on_notification(self, notification: Notification) -> None:
        bundle = bundle_of_lock(notification)
        if bundle is not None:
            self._changed(bundle)
