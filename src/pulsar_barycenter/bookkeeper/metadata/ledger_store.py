"""Creates, reads, changes and deletes the metadata of ledgers in the metadata store, and creates ledger ids.

Source: `org.apache.bookkeeper.meta.AbstractZkLedgerManager`, `ZkLedgerIdGenerator`, and Pulsar's `PulsarLedgerManager`
and `PulsarLedgerIdGenerator`.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from pulsar_barycenter.bookkeeper.errors import (
    BookKeeperError,
    ClusterLayoutError,
    LedgerExistsError,
    NoSuchLedgerError,
)
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, decode, encode
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import (
    DEFAULT_ROOT,
    Layout,
    ledger_of,
    ledger_path,
    parse_layout,
)
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import BadVersionError, NotFoundError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

_MAX_DRAWS: Final = 100
_LAST_SHORT_ID: Final = 2**31 - 2

DrawId: TypeAlias = Callable[[MetadataStore, str], Awaitable[int]]
"""A function that returns a ledger id that no other client of the cluster gets. It takes the path of the key
`idgen`.
"""


async def draw_by_sequential_key(store: MetadataStore, path: str) -> int:
    """Return a new ledger id, made as clients of ZooKeeper do: create a key with a sequence number below `path`, and
    delete the key at once. The sequence number is the id.
    """
    return await next_counter_value(store, path, prefix="ID-")


async def draw_by_version(store: MetadataStore, path: str) -> int:
    """Return a new ledger id, made as Pulsar does on etcd and Oxia: write the key at `path`. The key's new version is
    the ledger id.
    """
    return (await store.put(path, b"")).version


def draw_of(url: str) -> DrawId:
    """Return the function that creates ledger ids as Pulsar's clients do in the metadata store of this URL."""
    return draw_by_version if url.startswith(("etcd:", "oxia:")) else draw_by_sequential_key


class LedgerStore:
    """The metadata of the ledgers of one cluster of bookies."""

    def __init__(self, store: MetadataStore, root: str, layout: Layout, instance_id: str, draw: DrawId) -> None:
        self.root = root
        self.instance_id = instance_id
        """The cluster's UUID."""
        self._store = store
        self._layout = layout
        self._draw = draw
        self._random = random.SystemRandom()

    @staticmethod
    async def open(
        store: MetadataStore, *, root: str = DEFAULT_ROOT, draw: DrawId = draw_by_sequential_key
    ) -> "LedgerStore":
        """Open the metadata of the cluster of bookies whose keys are below `root`.

        Raises:
            ClusterLayoutError: there is no cluster, or its keys are of a form that this client does not write.
            MetadataError: the store did not answer.
        """
        instance = await store.get(f"{root}/INSTANCEID")
        if instance is None:
            raise ClusterLayoutError(
                f"{root}/INSTANCEID does not exist: no cluster of bookies was initialized there. Run `bookkeeper shell"
                " initnewcluster` or `pulsar initialize-cluster-metadata`, or correct bookkeeperMetadataServiceUri"
            )
        layout = await store.get(f"{root}/LAYOUT")
        found = Layout.HIERARCHICAL if layout is None else parse_layout(layout.value)
        return LedgerStore(store, root, found, instance.value.decode(errors="replace").strip(), draw)

    async def create(self, metadata: LedgerMetadata) -> tuple[int, LedgerMetadata, int]:
        """Create a new ledger in the metadata store. Return its id, its metadata as it was stored, and the version of
        its key.

        Raises:
            ClusterLayoutError: all ids of 31 bits are used up, so that the cluster uses longer ones, which this client
                does not create.
            MetadataError: the store did not answer. The ledger may exist; if so, it has no entries.
        """
        for _ in range(_MAX_DRAWS):
            ledger = await self.draw()
            with suppress(LedgerExistsError):
                return ledger, *await self.create_at(ledger, metadata)
        raise BookKeeperError(f"{self.root}/idgen gave {_MAX_DRAWS} ids of ledgers that exist already; try again")

    async def draw(self) -> int:
        """Return a new ledger id. No other client of the cluster gets this id.

        Raises:
            ClusterLayoutError: all ids of 31 bits are used up, so that the cluster uses longer ones, which this client
                does not create.
            MetadataError: the store did not answer.
        """
        if await self._store.exists(f"{self.root}/idgen-long"):
            raise ClusterLayoutError(
                f"{self.root}/idgen-long exists: the cluster uses ledger ids of 63 bits, which this client does not "
                "create"
            )
        ledger = await self._draw(self._store, f"{self.root}/idgen")
        if not 0 <= ledger <= _LAST_SHORT_ID:
            raise ClusterLayoutError(
                f"{self.root}/idgen gave {ledger}: ids of 31 bits are used up, and this client does not create "
                "longer ids"
            )
        return ledger

    async def create_at(self, ledger: int, metadata: LedgerMetadata) -> tuple[LedgerMetadata, int]:
        """Create the ledger with this id in the metadata store; return its metadata and the version of the key.

        Raises:
            LedgerExistsError: another client created it.
            MetadataError: the store did not answer. The ledger may exist; if so, it has no entries.
        """
        # the store may have created the key although its answer was lost: the token tells
        metadata = replace(metadata, token=self._random.getrandbits(63))
        try:
            stat = await self._store.put(self.path(ledger), encode(metadata), expected_version=MUST_NOT_EXIST)
        except BadVersionError:
            found, version = await self.read(ledger)
            if found.token != metadata.token:
                raise LedgerExistsError(f"ledger {ledger} exists already") from None
            return found, version
        return metadata, stat.version

    async def ids(self) -> AsyncIterator[int]:
        """Yield the ids of all ledgers in the metadata store. Ledgers that are created or deleted meanwhile may be
        among them or not.

        Raises:
            MetadataError: the store did not answer.
        """
        folders = [self.root]
        while folders:
            folder = folders.pop()
            for name in await self._store.children(folder):
                path = f"{folder}/{name}"
                ledger = ledger_of(self.root, path)
                if ledger is not None:
                    yield ledger
                elif name.isascii() and name.isdecimal():
                    folders.append(path)

    async def read(self, ledger: int) -> tuple[LedgerMetadata, int]:
        """Return a ledger's metadata and the version of its key.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            LedgerMetadataError: the stored value cannot be read.
            MetadataError: the store did not answer.
        """
        record = await self._store.get(self.path(ledger))
        if record is None:
            raise NoSuchLedgerError(ledger)
        return decode(ledger, record.value), record.stat.version

    async def exists(self, ledger: int) -> bool:
        """Return whether the ledger with this id exists.

        Raises:
            MetadataError: the store did not answer.
        """
        return await self._store.exists(self.path(ledger))

    async def swap(self, ledger: int, metadata: LedgerMetadata, version: int) -> int:
        """Replace a ledger's metadata if its key still has `version`; return the key's new version.

        Raises:
            MetadataError: the key has another version, or it is unknown whether the write took effect.
        """
        return (await self._store.put(self.path(ledger), encode(metadata), expected_version=version)).version

    async def delete(self, ledger: int) -> None:
        """Delete a ledger from the metadata store; bookies delete its entries later. It is no error if it does not
        exist.

        Raises:
            MetadataError: the store did not answer. The metadata may have been deleted.
        """
        try:
            await self._store.delete(self.path(ledger))
        except NotFoundError:
            return

    def path(self, ledger: int) -> str:
        return ledger_path(self.root, self._layout, ledger)
