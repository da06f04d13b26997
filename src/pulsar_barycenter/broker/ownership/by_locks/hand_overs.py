"""On whose behalf bundles change hands where nothing passes from owner to owner but a lock.

    /barycenter/hand-overs/<request id>,<bundle, with %2F for />      ephemeral, without a value

The old owner makes the key while it closes the bundle, and deletes it once the lock is free. Every broker is notified
of the key; the one that takes the lock soon after logs the id that the key named. A lost notification costs a line in a
log, and nothing else: nobody waits for one.
"""

import asyncio
from contextlib import suppress
from typing import Final

from pulsar_barycenter.cluster_logs.request_ids import is_request_id
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore, Notification, NotificationType
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError

HAND_OVERS_ROOT: Final = "/barycenter/hand-overs"
_SOON_S: Final = 60.0
"""For how long a bundle that was given up is taken on behalf of the request that had it given up."""
_MOST_REMEMBERED: Final = 10_000


class HandOvers:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._told: dict[Bundle, tuple[str, float]] = {}
        self.close = store.add_listener(self._on_notification)

    async def begin(self, bundle: Bundle, request_id: str) -> None:
        """Say on whose behalf a bundle is about to be given up; "" is nobody's."""
        if request_id:
            with suppress(MetadataError):
                await self._store.put(_path(bundle, request_id), b"", ephemeral=True)

    async def end(self, bundle: Bundle, request_id: str) -> None:
        if request_id:
            with suppress(MetadataError):
                await self._store.delete(_path(bundle, request_id))

    def taken(self, bundle: Bundle) -> str:
        """Return on whose behalf a bundle that is taken now was given up just before, "" if nobody said so."""
        request_id, until = self._told.pop(bundle, ("", 0.0))
        return request_id if asyncio.get_running_loop().time() < until else ""

    def _on_notification(self, change: Notification) -> None:
        if change.type is not NotificationType.CREATED or not change.path.startswith(HAND_OVERS_ROOT + "/"):
            return
        request_id, _, name = change.path[len(HAND_OVERS_ROOT) + 1 :].partition(",")
        try:
            bundle = Bundle.parse(name.replace("%2F", "/"))
        except InvalidNameError:
            return
        if is_request_id(request_id):
            self._told.pop(bundle, None)
            if len(self._told) >= _MOST_REMEMBERED:
                del self._told[next(iter(self._told))]
            self._told[bundle] = request_id, asyncio.get_running_loop().time() + _SOON_S


def _path(bundle: Bundle, request_id: str) -> str:
    return f"{HAND_OVERS_ROOT}/{request_id},{str(bundle).replace('/', '%2F')}"
