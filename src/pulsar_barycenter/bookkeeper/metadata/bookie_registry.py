"""Keeps a current list of the bookies: which of them are writable, where they listen, and in which racks they are.

Source: `org.apache.bookkeeper.discover.ZKRegistrationClient` and Pulsar's `BookieRackAffinityMapping`.
"""

import asyncio
from typing import Final

import structlog

from pulsar_barycenter.bookkeeper.errors import LedgerMetadataError
from pulsar_barycenter.bookkeeper.metadata.bookie_info import Address, Racks, bookie_address, parse_racks
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import CONNECTED_EVENTS, MetadataStore, Notification, SessionEvent

log = structlog.get_logger(__name__)

RACKS: Final = "/bookies"
_READ_ONLY: Final = "readonly"


class BookieRegistry:
    """The bookies of a cluster, as their keys in the metadata store list them. The list is read again after each change
    of the keys.

    It may be out of date for a moment. The safety of entries does not depend on it.
    """

    def __init__(self, store: MetadataStore, root: str) -> None:
        self.writable: tuple[str, ...] = ()
        """The ids of the writable bookies, sorted."""
        self.read_only: tuple[str, ...] = ()
        self.placed = Racks({}, {})
        """The racks and groups of bookies."""
        self.store: Final = store
        self._available = f"{root}/available"
        self._addresses: dict[str, Address] = {}
        """Where bookies listen, also of those that are not there now."""
        self._tasks = BackgroundTasks("bookies_not_read", expected=(MetadataError,))
        self._is_outdated = False
        self._is_following = False
        self._removals = [
            store.add_listener(self._on_change),
            store.add_session_listener(self._on_session),
        ]

    async def start(self) -> None:
        """Read the keys of all bookies once; after this, the lists of bookies are known.

        Raises:
            MetadataError: the store did not answer.
        """
        await self._read()

    def address(self, bookie: str) -> Address | None:
        """Return where a bookie listens; None if it was never registered and its id is not `host:port`."""
        known = self._addresses.get(bookie)
        if known is not None:
            return known
        try:
            return bookie_address(bookie, b"")
        except LedgerMetadataError:
            return None

    def close(self) -> None:
        for remove in self._removals:
            remove()
        self._tasks.cancel()

    async def _read(self) -> None:
        names = await self.store.children(self._available)
        read_only = await self.store.children(f"{self._available}/{_READ_ONLY}")
        await asyncio.gather(*(self._read_address(self._available, name) for name in names if name != _READ_ONLY))
        await asyncio.gather(*(self._read_address(f"{self._available}/{_READ_ONLY}", name) for name in read_only))
        self.writable = tuple(name for name in names if name != _READ_ONLY and name not in read_only)
        self.read_only = tuple(read_only)
        await self._read_racks()

    async def _read_address(self, folder: str, bookie: str) -> None:
        record = await self.store.get(f"{folder}/{bookie}")
        if record is None:
            return
        try:
            self._addresses[bookie] = bookie_address(bookie, record.value)
        except LedgerMetadataError as error:
            log.warning("bookie_address_unknown", bookie=bookie, error=str(error))

    async def _read_racks(self) -> None:
        record = await self.store.get(RACKS)
        try:
            self.placed = parse_racks(b"" if record is None else record.value)
        except LedgerMetadataError as error:
            log.warning("racks_not_read", error=str(error))

    def _on_change(self, change: Notification) -> None:
        if change.path == RACKS or change.path == self._available or change.path.startswith(f"{self._available}/"):
            self._read_again()

    def _on_session(self, event: SessionEvent) -> None:
        if event in CONNECTED_EVENTS:
            self._read_again()

    def _read_again(self) -> None:
        self._is_outdated = True
        if not self._is_following:
            self._is_following = True
            self._tasks.start(self._follow(), "read bookies")

    async def _follow(self) -> None:
        try:
            while self._is_outdated:
                self._is_outdated = False
                await self._read()
        finally:
            self._is_following = False
