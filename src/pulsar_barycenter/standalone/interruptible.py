"""Runs work that a signal may interrupt."""

import asyncio
from collections.abc import Awaitable


async def unless(event: asyncio.Event, work: Awaitable[None]) -> bool:
    """Await `work` until it ends or `event` is set; if `event` is set first, cancel the work and wait until it has
    ended. Return True if the work was completed, False if it was cancelled.

    An error of the work is raised, also one that it raises while it is cancelled.
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
