"""The order of the steps by which a topic gets its next ledger. It depends on how the topic's record is stored
(`RecordForm`).

If every later owner recovers all open ledgers of a list, the list may have two of them: then the successor is listed
while the full ledger is still written, appends wait for one group commit only, and the full ledger is closed while
they continue in the successor (`SuccessorFirst`). Java brokers
recover the last ledger of a list only. With them, a ledger ends before its successor is listed, and one write of the
list stores both, the end and the successor (`EndFirst`). A crash before that write leaves a list whose last ledger has
ended, and a successor that no list contains.

Source of the second order: `ManagedLedgerImpl.ledgerClosed` and `createComplete` of Pulsar. The successor is created
earlier here, while appends continue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias, TypeVar

New = TypeVar("New")
Step: TypeAlias = Callable[[], Awaitable[None]]


class Succession(Protocol):
    """The order of the steps by which a topic gets its next ledger. `make` creates a ledger; `add` writes it to the
    topic's list, or deletes it if that fails. Errors of `make` and `add` are raised to the caller.
    """

    def ahead(self, make: Callable[[], Coroutine[Any, Any, New]]) -> asyncio.Task[New] | None:
        """Start to make the ledger for the next append, while the former owner still has the topic. None: with this
        order of steps the list may not contain such a ledger when the topic is taken over, so none is made.
        """
        ...

    async def begin(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], ended: Step
    ) -> New:
        """Create and list a ledger for a topic when none of its ledgers is being written, and return it.

        `ended` waits until the former ledger, whose writer failed, has ended.
        """
        ...

    async def follow(
        self, make: Callable[[], Awaitable[New]], add: Callable[[New], Awaitable[None]], pause: Step, end: Step
    ) -> New:
        """Create and list the successor of the ledger that is being written, and return it. `pause` makes appends wait,
        and returns when all entries of the old ledger are reported. `end` ends the old ledger after that.

        If there is an error before `pause` was called, the old ledger is continued.
        """
        ...

    async def followed(self, end: Step, save: Step) -> None:
        """Complete what `follow` left, when appends continue in the successor: end the old ledger, and store its end in
        the list by calling `save`.
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
