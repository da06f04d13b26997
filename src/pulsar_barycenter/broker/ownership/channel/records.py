"""The interface of a storage in which ownership records are read and written.

The tests in `tests/contract/test_ownership_records*.py` check the guarantees for every implementation.
Source: Pulsar's `ServiceUnitStateTableView`.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle

RecordListener: TypeAlias = Callable[[Bundle, ServiceUnitStateData | None, ServiceUnitStateData | None], None]
"""A function that is called with a bundle, its former ownership record and its present one."""


class ChannelUnavailableError(LookupFailedError):
    """The ownership records cannot be written now, or it is not known whether a write succeeded."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"The ownership channel does not answer: {detail}. Try again.")


class OwnershipRecords(Protocol):
    """The ownership records of all bundles, as this broker has read them. For each bundle, all brokers read the same
    records in the same order.

    All methods run on the event loop, and listeners are called on it.
    """

    @property
    def storage(self) -> StorageType: ...

    @property
    def is_read(self) -> bool:
        """Whether all ownership records that existed at the start have been read. Before that, the state of no bundle
        is known.
        """
        ...

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        """Return the bundle's ownership record as it was read last, without waiting; None if there is none."""
        ...

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        """Return all ownership records as they were read last, with their bundles."""
        ...

    def bundles(self) -> list[Bundle]:
        """Return the bundles that have an ownership record."""
        ...

    def start(self, listener: RecordListener) -> None:
        """Begin to read the ownership records in the background. `listener` is called with the bundle, the former and
        the new record after each change.
        """
        ...

    async def refresh(self, bundle: Bundle) -> None:
        """Read the record of one bundle again, because the notification of a change may have been lost. Errors are
        ignored.
        """
        ...

    async def catch_up(self) -> None:
        """Wait until all ownership records that were written before this call have been read.

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
        """Replace an ownership record: `before` is the present one, `after` the new one (None: delete the record).
        Return True after that. Return False, and change nothing, if the present record is not `before`, or the rules
        for changes of records refuse this change.

        When this returns, this broker has read the outcome and called the listener. `guard` is a key that must have a
        certain version. If the records are in the metadata store, the store checks `guard` in one step with the write;
        if they are in a topic, the caller has to check it before this call.

        Raises:
            GuardError: the guard's key has another version.
            ChannelUnavailableError: the record was not written, or this is not known.
        """
        ...

    async def close(self) -> None:
        """Stop reading and writing ownership records. Idempotent."""
        ...
