"""The order of the steps by which a topic gets its next ledger. It depends on how the topic's record is stored
(`RecordForm`).

If every later owner recovers all open ledgers of a list, the list may have two of them: then the successor is listed
while the full ledger is still written, appends wait for one group commit only, and the full ledger is closed while
they continue in the successor (`SuccessorFirst`). Java brokers recover the last ledger of a list only. With them, a
ledger ends before its successor is listed, and one write of the list stores both, the end and the successor
(`EndFirst`). A crash before that write leaves a list whose last ledger has ended, and a successor that no list
contains.

Source of the second order: `ManagedLedgerImpl.ledgerClosed` and `createComplete` of Pulsar. The successor is created
earlier here, while appends continue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias, TypeVar

New = TypeVar("New")
Step: TypeAlias = Callable[[], Awaitable[None]]


class Succession(Protocol):
    """The order in which a topic's next ledger is created and listed, and the former ledger is ended. In the methods,
    `make` is a function that creates a ledger. `add` is a function that writes a new ledger to the topic's list; if
    that fails, it deletes the ledger or has it deleted later. Errors of `make` and `add` are raised to the caller.
    """

    def ahead(self, make: Callable[[], Coroutine[Any, Any, New]]) -> asyncio.Task[New] | None:
        """Start a task that creates the ledger for the next append by `make`, while the former owner still has the
        topic. Return None, and create nothing, if with this order of steps the new ledger cannot be listed in the write
        that takes over the topic.
        """
        ...

    async def begin(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], ended: Step
    ) -> New:
        """Create a ledger by `make`, list it by `add`, and return it. Used when no ledger of the topic is being
        written.

        `ended` is a function that waits until the former ledger, whose writer failed, is closed.
        """
        ...

    async def follow(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], pause: Step, end: Step
    ) -> New:
        """While a ledger is being written, create its successor by `make`, list the successor by `add`, and return it.
        `pause` is a function that makes appends wait, and returns when all entries of the old ledger are reported.
        `end` is a function that then closes the old ledger.

        If an error is raised before `pause` was called, appends continue in the old ledger.
        """
        ...

    async def followed(self, end: Step, save: Step) -> None:
        """Called when appends continue in the new ledger. Call `end`, which closes the old ledger, and `save`, which
        writes the list, if `follow` has not stored the end of the old ledger.
        """
        ...


class SuccessorFirst:
    """An order of steps: store the successor in the list of ledgers, then end the former ledger."""

    __slots__ = ()

    def ahead(self, make: Callable[[], Coroutine[Any, Any, New]]) -> asyncio.Task[New] | None:
        return asyncio.create_task(make())

    async def begin(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], ended: Step
    ) -> New:
        new = await make()
        await add(new)
        return new

    async def follow(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], pause: Step, end: Step
    ) -> New:
        new = await self.begin(make, add, end)
        await pause()
        return new

    async def followed(self, end: Step, save: Step) -> None:
        await end()
        await save()


class EndFirst:
    """An order of steps: end the former ledger, then store its end and its successor in one write of the list."""

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

    async def follow(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], pause: Step, end: Step
    ) -> New:
        async def ended() -> None:
            await pause()
            await end()

        return await self.begin(make, add, ended)

    async def followed(self, end: Step, save: Step) -> None:
        return


SUCCESSOR_FIRST: Final = SuccessorFirst()
END_FIRST: Final = EndFirst()
