"""What a term needs in addition to the bundle's ownership record: a number, and the bundle's lock if some brokers own
bundles by locks.

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
        """Whether a term needs the lock of its bundle, in addition to the ownership record."""
        ...

    def holds(self, bundle: Bundle) -> bool:
        """Return whether this broker has the lock of a bundle."""
        ...

    def lacks(self, bundle: Bundle) -> bool:
        """Return whether a term of the bundle needs a lock and this broker does not have that lock."""
        ...

    def bundles(self) -> list[Bundle]:
        """Return the bundles whose lock this broker has acquired and not released."""
        ...

    async def number(self, bundle: Bundle, *, is_child: Callable[[], bool]) -> int:
        """Take an epoch for a term. If terms need locks, acquire the bundle's lock first, unless this broker has it.
        `is_child` returns whether the bundle is one of the new bundles of a split in progress, so that it is not in its
        namespace yet.

        Raises:
            LockBusyError: another broker has the lock.
            BundleNotFoundError, BundleNotAcquiredError, MetadataError: the lock was not acquired, or no epoch was
                taken.
        """
        ...

    async def give_back(self, bundle: Bundle) -> None:
        """Release the bundle's lock, if this broker has it, because its term has ended or will not begin."""
        ...

    def known(self, bundle: Bundle) -> Owner | None:
        """Return the broker that owns the bundle by a lock, without an ownership record, if this is known without
        reading. None: there is no such broker, or it is not known.
        """
        ...

    async def owner(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the broker that has the bundle's lock; None if no broker has it. InTransit: a broker has it but does
        not serve the bundle, or the record in the lock has not been read yet.
        """
        ...

    def interrupted(self) -> None:
        """Record that the process was paused: acquisitions of locks that began before this call will fail."""
        ...

    def lose_session(self) -> None: ...

    def regain_session(self) -> None: ...

    async def close(self) -> None: ...


class RecordsAlone:
    """Implements `TermGuard` for clusters in which every broker owns bundles by records, so that a term needs no lock.
    `number` takes the next number of the counter that all brokers share.
    """

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
