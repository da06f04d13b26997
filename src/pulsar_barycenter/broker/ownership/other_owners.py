"""What this broker believes of the locks that others hold, and for how long.

A record is believed until the store tells of a change of its key, and REMOTE_OWNER_LIFE_S at the longest: a
notification may be late or lost. An answer that was on its way when a change was told is not kept.
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
    """Bundle -> owner, as read from the lock records of other processes than `incarnation`."""

    def __init__(self, store: MetadataStore, incarnation: str) -> None:
        self._store = store
        self._incarnation = incarnation
        self._known: dict[Bundle, tuple[Owner, float]] = {}
        self._reads: dict[Bundle, object] = {}
        self.close = store.add_invalidator(self._on_change)

    def get(self, bundle: Bundle) -> Owner | None:
        """Return the owner if it is known and still believed."""
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
        """Return the lock record as the store has it; remember its owner if that one serves.

        Raises:
            InvalidValueError: something else is stored there.
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
        """None stands for a time in which changes were perhaps not told."""
        if change is None:
            self.forget_all()
        elif (bundle := bundle_of_lock(change)) is not None:
            self.forget(bundle)


def bundle_of_lock(change: Notification) -> Bundle | None:
    """Return the bundle whose lock record came, went or changed; None for any other change."""
    if change.type is NotificationType.CHILDREN_CHANGED or not change.path.startswith(OWNERSHIP_ROOT + "/"):
        return None
    try:
        return Bundle.parse(change.path[len(OWNERSHIP_ROOT) + 1 :])
    except InvalidNameError:
        return None
