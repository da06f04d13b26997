"""Work that a signal may end before it is done."""

import asyncio
from collections.abc import Awaitable


async def unless(event: asyncio.Event, work: Awaitable[None]) -> bool:
    """Await `work` unless `event` is set first, then cancel it; return whether the work was finished.

    Raises what the work raises, also while it is cancelled.
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
