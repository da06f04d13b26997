"""What a term needs in addition to its record: a number, and the bundle's lock if some brokers own by locks.

`RecordsAlone` is for a cluster in which every broker owns by records; `term_locks` for one in which some own by locks.
The configuration at the start of the broker decides.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership.contract import InTransit
from pulsar_barycenter.naming.bundle import Bundle


class TermGuard(Protocol):
    @property
    def holds_locks(self) -> bool:
        """Whether a term needs the lock of its bundle."""
        ...

    def holds(self, bundle: Bundle) -> bool:
        """Return whether this broker has the lock of a bundle."""
        ...

    def lacks(self, bundle: Bundle) -> bool:
        """Return whether a term of the bundle needs a lock that this broker does not have."""
        ...

    def bundles(self) -> list[Bundle]:
        """Return the bundles whose lock was acquired and not released."""
        ...

    async def number(self, bundle: Bundle, *, is_child: Callable[[], bool]) -> int:
        """Take the number of a term, under the bundle's lock if there are locks. `is_child` returns whether the bundle
        is a child of a split in progress, so that it is not in its namespace yet.

        Raises:
            LockBusyError: another broker has the lock.
            BundleNotFoundError, BundleNotAcquiredError, MetadataError
        """
        ...

    async def give_back(self, bundle: Bundle) -> None:
        """Release the lock, if this broker has it: the term has ended, or there will be none."""
        ...

    def known(self, bundle: Bundle) -> Owner | None:
        """Return the broker that owns the bundle by a lock, without a record; None if there is none, or if a read would
        be needed.
        """
        ...

    async def owner(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the broker that has the bundle's lock; InTransit if that broker does not serve the bundle, or if its
        record has not been read yet.
        """
        ...

    def interrupted(self) -> None:
        """Record that the process stood still: acquisitions of locks that began before this call fail."""
        ...

    def lose_session(self) -> None: ...

    def regain_session(self) -> None: ...

    async def close(self) -> None: ...


class RecordsAlone:
    """A term needs only a record. Implements `TermGuard`; `number` takes the next number of the cluster."""

    holds_locks = False

    def __init__(self, number: Callable[[], Awaitable[int]]) -> None:
        self._number = number

    def holds(self, bundle: Bundle) -> bool:
        return False

    def lacks(self, bundle: Bundle) -> bool:
        return False

    def bundles(self) -> list[Bundle]:
        return []

    async def number(self, bundle: Bundle, *, is_child: Callable[[], bool]) -> int:
        return await self._number()

    async def give_back(self, bundle: Bundle) -> None:
        return

    def known(self, bundle: Bundle) -> Owner | None:
        return None

    async def owner(self, bundle: Bundle) -> Owner | InTransit | None:
        return None

    def interrupted(self) -> None:
        return

    def lose_session(self) -> None:
        return

    def regain_session(self) -> None:
        return

    async def close(self) -> None:
        return
