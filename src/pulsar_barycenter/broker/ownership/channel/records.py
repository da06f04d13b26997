"""The interface of a place where ownership records are read and written.

The contract suite `tests/contract/test_ownership_records*.py` states its guarantees and runs on every implementation.
Source: Pulsar's `ServiceUnitStateTableView`.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle

RecordListener: TypeAlias = Callable[[Bundle, ServiceUnitStateData | None, ServiceUnitStateData | None], None]
"""Called with a bundle, its former record and its present record."""


class ChannelUnavailableError(LookupFailedError):
    """The ownership channel cannot be written now, or it is not known whether a write succeeded."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"The ownership channel does not answer: {detail}. Try again.")


class OwnershipRecords(Protocol):
    """The records of all bundles as this broker has read them. All brokers read the same records in the same order.

    All methods run on the event loop. Listeners are called on it, for each bundle in the order of its changes.
    """

    @property
    def storage(self) -> StorageType: ...

    @property
    def is_read(self) -> bool:
        """Whether all records that existed at the start have been read; before that, the state of no bundle is
        known.
        """
        ...

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        """Return the record that was read last, without waiting; None if there is none."""
        ...

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        """Return all records that were read last, with their bundles."""
        ...

    def bundles(self) -> list[Bundle]:
        """Return the bundles that have a record."""
        ...

    def start(self, listener: RecordListener) -> None:
        """Start to read in the background, and to call `listener` with each change."""
        ...

    async def refresh(self, bundle: Bundle) -> None:
        """Read one record again, in case a notification was lost. Errors are ignored."""
        ...

    async def catch_up(self) -> None:
        """Wait until all records that were written before this call have been read.

        Raises:
            ChannelUnavailableError: the records cannot be read now.
        """
        ...

    async def put(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        guard: Guard | None = None,
    ) -> bool:
        """Publish `after` (None: a tombstone) as the replacement of `before`; return whether it was accepted.

        When this returns, this broker has read the outcome and called the listener. If the metadata store has the
        records, it checks `guard` in one step with the write; otherwise the caller has to check `guard`.

        Raises:
            GuardError: the guard's key has another version.
            ChannelUnavailableError: the record was not written, or this is not known.
        """
        ...

    async def close(self) -> None:
        """Stop reading and writing. Idempotent."""
        ...
