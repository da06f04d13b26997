"""Where a cluster has its metadata before and after a migration: in one store, or in another one as a copy.

The key FOLDER_KEY names the storage of the cluster in both. The switch to bookies is one compare-and-set of that key.
With two stores it is preceded by another one: the key in the present store is marked as moved, so that no broker starts
on it again. Between the two no broker starts in either store, until the migration is continued.
"""

from typing import Protocol

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY, moved_value
from pulsar_barycenter.ledger.migration.metadata_copy import MetadataCopy
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore, Record


class Stores(Protocol):
    """The metadata stores of a migration. `present` has the metadata of the cluster, `next` has it after the
    migration.
    """

    @property
    def present(self) -> MetadataStore: ...
    @property
    def next(self) -> MetadataStore: ...

    async def refusal(self) -> str:
        """Return why the metadata cannot get to the next store, as text; "" if it can. Changes nothing."""
        ...

    async def copy(self) -> None:
        """Make the metadata in the next store equal to that in the present one. Idempotent."""
        ...

    async def check(self) -> None:
        """Check that the next store has the metadata of the present one.

        Raises:
            LedgerError: it does not.
        """
        ...

    async def switch(self, stored: Record, value: bytes) -> None:
        """Write `value`, which names the bookies, to FOLDER_KEY of the next store. `stored` is that key of the present
        store as it was read.

        Raises:
            LedgerError: the key has changed since.
        """
        ...


class OneStore:
    """The metadata stays in its store."""

    def __init__(self, store: MetadataStore) -> None:
        self.present = self.next = store

    async def refusal(self) -> str:
        return ""

    async def copy(self) -> None:
        return

    async def check(self) -> None:
        return

    async def switch(self, stored: Record, value: bytes) -> None:
        await _put(self.next, value, stored.stat.version)


class TwoStores:
    """The metadata is copied to another store."""

    def __init__(self, present: MetadataStore, next_: MetadataStore, copy: MetadataCopy) -> None:
        self.present = present
        self.next = next_
        self._copy = copy

    async def refusal(self) -> str:
        return await self._copy.refusal()

    async def copy(self) -> None:
        await self._copy.carry_out()

    async def check(self) -> None:
        await self._copy.check()

    async def switch(self, stored: Record, value: bytes) -> None:
        if stored.value != moved_value(value):
            await _put(self.present, moved_value(value), stored.stat.version)
        await _put(self.next, value, MUST_NOT_EXIST)


async def _put(store: MetadataStore, value: bytes, version: int) -> None:
    try:
        await store.put(FOLDER_KEY, value, expected_version=version)
    except BadVersionError as error:
        raise LedgerError(
            "the storage of the cluster was changed during the migration, by a broker or by another migration: run this"
            " command again"
        ) from error
