"""Worker threads that make queued appends durable, a group at a time, and tell the event loop.

A writer with something queued stands in the line once. A worker takes it, commits everything queued by then as
one group, and puts it in the line again if more came meanwhile: so groups grow with the load by themselves, and
without load an append costs one fdatasync. However many groups are done, the loop is woken once.
"""

import asyncio
from collections import deque
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)


class Committable(Protocol):
    gate: Lock
    """Locked while the writer stands in the line or is being committed."""

    def has_queued(self) -> bool: ...

    def commit(self) -> object:
        """Make a group durable, on a worker thread; return what `committed` shall get, or None for nothing."""
        ...

    def committed(self, outcome: object) -> None:
        """Report the group, on the event loop."""
        ...


class GroupCommitter:
    """Start it on the event loop that is to be told."""

    def __init__(self, *, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._line: SimpleQueue[Committable | None] = SimpleQueue()
        self._done: deque[tuple[Committable, object]] = deque()
        self._waking = False
        self._threads = [Thread(target=self._work, name=f"ledger-commit-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, writer: Committable) -> None:
        """Put a writer, whose gate the caller has locked, in the line."""
        self._line.put(writer)

    def _work(self) -> None:
        while (writer := self._line.get()) is not None:
            outcome = writer.commit()
            if outcome is None:
                continue  # it failed before: its gate stays locked
            self._done.append((writer, outcome))
            self._wake()
            writer.gate.release()
            if writer.has_queued() and writer.gate.acquire(blocking=False):
                self._line.put(writer)

    def _wake(self) -> None:
        # Set before the loop looks into `_done`, cleared by it before it looks: none is overlooked.
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
        """End the threads after what stands in the line, and wait for them."""
        for _ in self._threads:
            self._line.put(None)
        for thread in self._threads:
            thread.join()
        self._report()
