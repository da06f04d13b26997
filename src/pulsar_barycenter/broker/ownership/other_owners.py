"""Caches the owners in the locks of other processes.

A cached owner is used until the store reports a change of the lock's key, and at most for REMOTE_OWNER_LIFE_S seconds,
because a notification may be late or lost. An answer that arrives after a change was reported is not cached.
"""

import asyncio
from typing import Final

import msgspec

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership.record import OWNERSHIP_ROOT, OwnershipRecord, lock_path
from pulsar_barycenter.metadata.errors import InvalidValueError
from pulsar_barycenter.metadata.store import MetadataStore, Notification, NotificationType
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError

REMOTE_OWNER_LIFE_S: Final = 3.0


class OtherOwners:
    """Caches the owners of bundles that other processes own, as their lock records name them. Lock records with
    `incarnation`, which identifies this run of this process, are not cached.
    """

    def __init__(self, store: MetadataStore, incarnation: str) -> None:
        self._store = store
        self._incarnation = incarnation
        self._known: dict[Bundle, tuple[Owner, float]] = {}
        self._reads: dict[Bundle, object] = {}
        self.close = store.add_invalidator(self._on_change)

    def get(self, bundle: Bundle) -> Owner | None:
        """Return the owner if it is cached and not too old, else None."""
        known = self._known.get(bundle)
        if known is None or known[1] < asyncio.get_running_loop().time():
            return None
        return known[0]

    def forget(self, bundle: Bundle) -> None:
        self._known.pop(bundle, None)
        self._reads.pop(bundle, None)

    def forget_all(self) -> None:
        self._known.clear()
        self._reads.clear()

    async def read(self, bundle: Bundle) -> OwnershipRecord | None:
        """Read the lock of a bundle from the store, and return its record; None if there is none. If the record says
        that the owner serves the bundle, cache the owner.

        Raises:
            InvalidValueError: the value is not a lock record.
        """
        token = self._reads.setdefault(bundle, object())
        try:
            stored = await self._store.get(lock_path(bundle))
            if stored is None:
                return None
            try:
                record = msgspec.json.decode(stored.value, type=OwnershipRecord)
            except msgspec.DecodeError as error:
                raise InvalidValueError(stored.stat.path, str(error)) from error
            if self._reads.get(bundle) is token and not record.disabled and record.incarnation != self._incarnation:
                self._known[bundle] = (record.owner(), asyncio.get_running_loop().time() + REMOTE_OWNER_LIFE_S)
            return record
        finally:
            if self._reads.get(bundle) is token:
                del self._reads[bundle]

    def _on_change(self, change: Notification | None) -> None:
        """Drop the cached owner of the bundle whose lock changed. `change` None means that notifications may be
        missing: drop all cached owners.
        """
        if change is None:
            self.forget_all()
        elif (bundle := bundle_of_lock(change)) is not None:
            self.forget(bundle)


def bundle_of_lock(change: Notification) -> Bundle | None:
    """Return the bundle whose lock was created, deleted or changed; None if the change is that of another key."""
    if change.type is NotificationType.CHILDREN_CHANGED or not change.path.startswith(OWNERSHIP_ROOT + "/"):
        return None
    try:
        return Bundle.parse(change.path[len(OWNERSHIP_ROOT) + 1 :])
    except InvalidNameError:
        return None
