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
    """A writer whose entries the worker threads commit in groups."""

    gate: Lock
    """A lock that is held while the writer is queued, and while a group of it is being committed."""

    def has_queued(self) -> bool: ...

    def commit(self) -> object:
        """Make a group of entries durable. Runs on a worker thread. Return the argument for `committed`, or None to
        report nothing.
        """
        ...

    def committed(self, outcome: object) -> None:
        """Report the group that `commit` made durable. Runs on the event loop."""
        ...


class GroupCommitter:
    """The worker threads that commit groups. Create this object on the event loop to which the threads report."""

    def __init__(self, *, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queued: SimpleQueue[Committable | None] = SimpleQueue()
        self._done: deque[tuple[Committable, object]] = deque()
        self._waking = False
        self._threads = [Thread(target=self._work, name=f"ledger-commit-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, writer: Committable) -> None:
        """Queue a writer, so that a thread calls its `commit`. The caller must have acquired `writer.gate`, which is
        released after the commit.
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
        """Commit the groups that are queued, then end the threads. Waits for their end."""
        for _ in self._threads:
            self._queued.put(None)
        for thread in self._threads:
            thread.join()
        self._report()
