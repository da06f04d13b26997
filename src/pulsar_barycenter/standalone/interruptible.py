"""Runs work that a signal may interrupt."""

import asyncio
from collections.abc import Awaitable


async def unless(event: asyncio.Event, work: Awaitable[None]) -> bool:
    """Await `work`, but cancel it when `event` is set; return whether the work was completed.

    Raises the errors of the work, also during its cancellation.
    """
    task = asyncio.ensure_future(work)
    waiter = asyncio.create_task(event.wait(), name="wait for a signal")
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True
