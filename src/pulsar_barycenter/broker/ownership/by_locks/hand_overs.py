"""Publishes the id of the request because of which a bundle changes its owner. With locks, the old owner cannot pass it
to the next one in another way.

    /barycenter/hand-overs/<request id>,<bundle, with %2F for />      ephemeral, without a value

The old owner creates the key while it closes the bundle, and deletes it when the lock is free. Every broker gets a
notification of the key, and the next owner logs the request id in it. If a notification is lost, only a log line is
missing: no operation waits for one.
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
_VALID_S: Final = 60.0
"""If a bundle is acquired within this number of seconds after its release, the acquisition is logged with the same
request id.
"""
_MAX_REMEMBERED: Final = 10_000


class HandOvers:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._released_for: dict[Bundle, tuple[str, float]] = {}
        self.close = store.add_listener(self._on_notification)

    async def begin(self, bundle: Bundle, request_id: str) -> None:
        """Publish the id of the request because of which this broker is about to release a bundle, so that the next
        owner can log the same id. If the id is "", there is no request, and nothing is published.
        """
        if request_id:
            with suppress(MetadataError):
                await self._store.put(_path(bundle, request_id), b"", ephemeral=True)

    async def end(self, bundle: Bundle, request_id: str) -> None:
        if request_id:
            with suppress(MetadataError):
                await self._store.delete(_path(bundle, request_id))

    def taken(self, bundle: Bundle) -> str:
        """Return the id of the request because of which the former owner released a bundle, and forget it. Called when
        this broker has acquired the bundle. "" if no id was published in the last _VALID_S seconds.
        """
        request_id, until = self._released_for.pop(bundle, ("", 0.0))
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
            self._released_for.pop(bundle, None)
            if len(self._released_for) >= _MAX_REMEMBERED:
                del self._released_for[next(iter(self._released_for))]
            self._released_for[bundle] = request_id, asyncio.get_running_loop().time() + _VALID_S


def _path(bundle: Bundle, request_id: str) -> str:
    return f"{HAND_OVERS_ROOT}/{request_id},{str(bundle).replace('/', '%2F')}"
