"""The order of the steps by which a topic gets its next ledger. It belongs to the form of the topic's record.

A list may have two open ledgers where every later owner recovers all open ones: then the successor is listed while the
full ledger is written, and appends wait for one group commit only (`SuccessorFirst`). Java brokers recover the last
ledger of a list only. There, a ledger ends before its successor is listed, and one write of the list has both, the end
and the successor (`EndFirst`). A crash before that write leaves a list whose last ledger has ended, and a successor
that nothing names.

Source of the second order: `ManagedLedgerImpl.ledgerClosed` and `createComplete` of Pulsar. The successor is created
earlier here, while appends continue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias, TypeVar

New = TypeVar("New")
Step: TypeAlias = Callable[[], Awaitable[None]]


class Succession(Protocol):
    """The order of the steps. `make` creates a ledger, and `add` lists it, or deletes it if that fails. What `make` and
    `add` raise passes through.
    """

    def ahead(self, make: Callable[[], Coroutine[Any, Any, New]]) -> asyncio.Task[New] | None:
        """Start to make the ledger for the next append, while the former owner still has the topic; None if the list
        could not have it when the topic is taken over.
        """
        ...

    async def begin(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], ended: Step
    ) -> New:
        """Return a ledger for a topic of which none is being written. `ended` waits until one whose writer failed has
        ended.
        """
        ...

    async def follow(self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], end: Step) -> New:
        """Return the successor of the ledger that is being written. `end` makes appends wait, and ends that ledger.

        If `end` was not called before an error, the former ledger goes on.
        """
        ...

    async def followed(self, save: Step) -> None:
        """Store the end of the former ledger by `save`, if the list does not have it yet."""
        ...


class SuccessorFirst:
    """Lists the successor, then ends the former ledger."""

    __slots__ = ()

    def ahead(self, make: Callable[[], Coroutine[Any, Any, New]]) -> asyncio.Task[New] | None:
        return asyncio.create_task(make())

    async def begin(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], ended: Step
    ) -> New:
        new = await make()
        await add(new)
        return new

    async def follow(self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], end: Step) -> New:
        new = await self.begin(make, add, end)
        await end()
        return new

    async def followed(self, save: Step) -> None:
        await save()


class EndFirst:
    """Ends the former ledger, then lists its end and its successor by one write."""

    __slots__ = ()

    def ahead(self, make: Callable[[], Coroutine[Any, Any, New]]) -> asyncio.Task[New] | None:
        return None

    async def begin(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], ended: Step
    ) -> New:
        new = await make()
        await ended()
        await add(new)
        return new

    async def follow(self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], end: Step) -> New:
        return await self.begin(make, add, end)

    async def followed(self, save: Step) -> None:
        return


SUCCESSOR_FIRST: Final = SuccessorFirst()
END_FIRST: Final = EndFirst()
