"""Where the records of the ownership channel are read and written.

One suite, `tests/contract/test_ownership_records*.py`, states the guarantees and runs on every kind.
Source: Pulsar's `ServiceUnitStateTableView`.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle

RecordListener: TypeAlias = Callable[[Bundle, ServiceUnitStateData | None, ServiceUnitStateData | None], None]
"""Called with a bundle, its record before and its record now."""


class ChannelUnavailableError(LookupFailedError):
    """The ownership channel cannot be written now, or it is not known whether it was."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"The ownership channel does not answer: {detail}. Try again.")


class OwnershipRecords(Protocol):
    """The records of all bundles as this broker has read them: everybody reads the same ones in the same order.

    All methods run on the event loop; listeners are called on it, in the order of the changes of each bundle.
    """

    @property
    def storage(self) -> StorageType: ...

    @property
    def is_read(self) -> bool:
        """Whether all that was there at the start has been read: before, nothing is known of any bundle."""
        ...

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        """Return the record as last read; never waits."""
        ...

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        """Return all records as last read, with their bundles."""
        ...

    def bundles(self) -> list[Bundle]:
        """Return the bundles that have a record."""
        ...

    def start(self, listener: RecordListener) -> None:
        """Begin to read, in the background, and to call `listener` with each change."""
        ...

    async def refresh(self, bundle: Bundle) -> None:
        """Look for a change of one record that nobody told of. What goes wrong is left to the next occasion."""
        ...

    async def catch_up(self) -> None:
        """Return when all that was written before this call has been read.

        Raises:
            ChannelUnavailableError: that cannot be known now.
        """
        ...

    async def put(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        guard: Guard | None = None,
    ) -> bool:
        """Offer `after` (None: a tombstone) in place of `before`, and return whether it was accepted.

        When this returns, the outcome has been read here, and the listener called. A `guard` is asked by the store that
        has the record in one step with the write; where the record is not in that store, it is for whoever calls.

        Raises:
            GuardError: it does not hold.
            ChannelUnavailableError: it was not written, or that is not known.
        """
        ...

    async def close(self) -> None:
        """Read and write no more. Idempotent."""
        ...
