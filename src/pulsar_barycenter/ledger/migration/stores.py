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
    """The two metadata stores of a migration, which may be the same store. `present` has the cluster's metadata before
    the migration, `next` has it after the migration.
    """

    @property
    def present(self) -> MetadataStore: ...
    @property
    def next(self) -> MetadataStore: ...

    async def refusal(self) -> str:
        """Return why the metadata cannot be copied to the next store, as text; "" if it can, or if both stores are the
        same. Changes nothing.
        """
        ...

    async def copy(self) -> None:
        """Copy the metadata from the present store to the next store. Do nothing if both are the same store.
        Idempotent.
        """
        ...

    async def check(self) -> None:
        """Check that the next store has the same metadata as the present store.

        Raises:
            LedgerError: the stores have different metadata.
        """
        ...

    async def switch(self, stored: Record, value: bytes) -> None:
        """Make the cluster use the bookies: write `value`, which names the bookies, to FOLDER_KEY of the next store.
        `stored` is the record that was read at FOLDER_KEY of the present store.

        Raises:
            LedgerError: FOLDER_KEY has changed since `stored` was read.
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
