"""Worker threads that make queued appends durable, one group at a time, and report to the event loop.

A writer that has entries to commit is in a queue, once. A worker thread takes the writer and commits all its entries as
one group. If more entries arrived meanwhile, the writer is queued again. So groups grow with the load, and without load
an append costs one fdatasync. The groups that are done are reported to the event loop together.
"""

import asyncio
from collections import deque
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)


class Committable(Protocol):
    """A writer that queues entries. Worker threads call `commit`, which makes the queued entries durable in groups."""

    gate: Lock
    """A lock that is held while the writer is queued, and while a group of it is being committed."""

    def has_queued(self) -> bool: ...

    def commit(self) -> object:
        """Make the queued entries, or a part of them, durable as one group. Called on a worker thread. Return the
        argument for `committed`. None: the writer has failed before, so `committed` is not called.
        """
        ...

    def committed(self, outcome: object) -> None:
        """Report the outcome of a group to the owner of the writer. Called on the event loop; `outcome` is the result
        of `commit`.
        """
        ...


class GroupCommitter:
    """The worker threads that call `commit` of writers, and then `committed` on the event loop. Create this object on
    that event loop.
    """

    def __init__(self, *, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queued: SimpleQueue[Committable | None] = SimpleQueue()
        self._done: deque[tuple[Committable, object]] = deque()
        self._waking = False
        self._threads = [Thread(target=self._work, name=f"ledger-commit-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, writer: Committable) -> None:
        """Queue a writer, so that a worker thread calls its `commit`. The caller must have acquired the lock
        `writer.gate`. The worker thread releases it after `commit`, except if the writer has failed before.
        """
        self._queued.put(writer)

    def _work(self) -> None:
        while (writer := self._queued.get()) is not None:
            outcome = writer.commit()
            if outcome is None:
                continue  # it failed before; its gate stays locked
            self._done.append((writer, outcome))
            self._wake()
            writer.gate.release()
            if writer.has_queued() and writer.gate.acquire(blocking=False):
                self._queued.put(writer)

    def _wake(self) -> None:
        # A worker sets this after it has added to `_done`; the loop clears it before it reads `_done`. So no group is
        # missed.
        if not self._waking:
            self._waking = True
            try:
                self._loop.call_soon_threadsafe(self._report)
            except RuntimeError:
                log.debug("group_not_reported", reason="the event loop is closed")

    def _report(self) -> None:
        self._waking = False
        done = self._done
        while done:
            writer, outcome = done.popleft()
            writer.committed(outcome)

    def stop(self) -> None:
        """Commit the groups of all writers that are queued, report them, and end the threads. This blocks until the
        threads have ended.
        """
        for _ in self._threads:
            self._queued.put(None)
        for thread in self._threads:
            thread.join()
        self._report()
