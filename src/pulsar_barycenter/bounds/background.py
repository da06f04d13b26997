"""The background tasks of an object: started with a name, their failures logged, ended together.

An event loop has only a weak reference to a task, and an exception of a task is lost if no code reads it. So an object
that starts tasks keeps them here. They end in the order in which they were started, which is the same in every run.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")


class TasksClosedError(Exception):
    """The task was cancelled, because the `BackgroundTasks` object that kept it was closed."""


class BackgroundTasks:
    """Has references to tasks until they are done, so that asyncio does not drop them while they run. All methods run
    on the event loop.

    If a task raises an exception, the log event `failure` is written, except for the types in `expected`: the code that
    awaits the task handles them.
    """

    __slots__ = ("_expected", "_failure", "_is_closed", "_tasks")

    def __init__(self, failure: str, *, expected: tuple[type[Exception], ...] = ()) -> None:
        self._failure = failure
        self._expected = expected
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """A dict because it keeps the order of the starts; a set would have another order in each run."""
        self._is_closed = False

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `work` as a task of that name, add the task to this object, and return it."""
        return self.keep(asyncio.create_task(work, name=name))

    def keep(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """Add a task that the caller started, and return it."""
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    async def complete(self, task: asyncio.Task[T]) -> T:
        """Add a task, wait for its end, and return its result, or raise its error. The task runs to its end even if the
        caller is cancelled while it waits.

        Raises:
            TasksClosedError: `close` cancelled the task.
        """
        try:
            return await asyncio.shield(self.keep(task))
        except asyncio.CancelledError:
            if task.cancelled() and self._is_closed:
                raise TasksClosedError(task.get_name()) from None
            raise

    def __len__(self) -> int:
        """Return the number of tasks that are not done."""
        return len(self._tasks)

    def cancel(self) -> None:
        """Request the cancellation of every task, the first started first. This does not wait for their end."""
        for task in list(self._tasks):
            task.cancel()

    async def ended(self) -> None:
        """Wait until all tasks that run at the moment of the call have ended, except the task that calls this. Tasks
        that start meanwhile are not waited for.
        """
        current = asyncio.current_task()
        running = [task for task in self._tasks if task is not current]
        if running:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Cancel every task, and return when all have ended. Calling it again has no effect."""
        self._is_closed = True
        self.cancel()
        await self.ended()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, self._expected):
            log.error(self._failure, task=task.get_name(), error=repr(error))
