"""The background tasks of one object: started by name, their failures logged, ended together.

An event loop keeps only a weak reference to a task, and what a task raises is lost unless it is asked for. So an object
that starts tasks keeps them here. They end in the order in which they were started, which is the same in every run.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

from pulsar_barycenter.cluster_logs.request_ids import kept_task

log = structlog.get_logger(__name__)

T = TypeVar("T")


class TasksClosedError(Exception):
    """The work was cancelled because its owner was closed."""


class BackgroundTasks:
    """Owns tasks until they are done. All methods run on the event loop.

    `failure` is the log event of a task that raised. Errors of the kinds `expected` are not logged: they are part of
    the work, and who awaits it handles them.
    """

    def __init__(self, failure: str, *, expected: tuple[type[Exception], ...] = ()) -> None:
        self._failure = failure
        self._expected = expected
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """A dict because it keeps the order of the starts; a set would have another order in each run."""
        self._is_closed = False

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `work` as a task of that name, and return the task."""
        return self._keep(asyncio.create_task(work, name=name))

    def start_for_request(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Do as `start`, and have the log lines of the work carry the request id of the caller to the end."""
        return self._keep(kept_task(work, name))

    async def complete(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Run `work` to its end even if the caller is cancelled, and return its result.

        Log lines of the work carry the request id of the caller to the end.

        Raises:
            TasksClosedError: `close` cancelled the work.
        """
        task = self.start_for_request(work, name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and self._is_closed:
                raise TasksClosedError(name) from None
            raise

    def __len__(self) -> int:
        """Return how many tasks are not done."""
        return len(self._tasks)

    def cancel(self) -> None:
        """Cancel every task, the first started first; they end after this step."""
        for task in list(self._tasks):
            task.cancel()

    async def ended(self) -> None:
        """Return when the tasks that run now have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Cancel every task, and return when all have ended. Idempotent."""
        self._is_closed = True
        self.cancel()
        await self.ended()

    def _keep(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, self._expected):
            log.error(self._failure, task=task.get_name(), error=repr(error))
