"""An event loop on a thread of its own, for callers that are not asynchronous."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A thread with an asyncio event loop, which runs coroutines for other threads; the thread ends with `close`, or
    with the process.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end on the loop; return its result or raise its error.

        An interrupt of the calling thread (Ctrl-C) cancels the work.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel the tasks that still run on the loop, then end the loop and its thread. Idempotent."""
        if self._loop.is_closed():
            return
        self.run(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_all() -> None:
    """End the tasks, asynchronous generators and executor threads of the running loop.

    This runs on the loop itself, because the calling thread may have a running loop of its own (as in a notebook), and
    a thread that runs a loop cannot run a second one.
    """
    loop = asyncio.get_running_loop()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
