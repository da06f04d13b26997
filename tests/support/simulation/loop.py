"""An event loop whose clock jumps: whole clusters run on it in one thread, repeatably, in no time.

`time()` moves only when nothing is ready, and then to the next timer. The order of execution depends on nothing but the
order of calls; the network (`support.simulation.network`) draws its delays from the random source it was given.

Every callback belongs to the *node* (a simulated process) in whose context it was scheduled. A crashed node's
callbacks are dropped; a paused node's are held, in order, until it is resumed: that is how SIGKILL and SIGSTOP
appear from inside. There are no threads, sockets, signals or executors here; using one is an error.
"""

import asyncio
import contextvars
import heapq
import inspect
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from support.simulation.network import Network

T = TypeVar("T")

START_S = 1_000.0
"""What `time()` says at the beginning; not 0, so that nobody takes a time for a duration."""


class SimulationError(AssertionError):
    """The simulation found a fault; `check` is the short name of what was violated."""

    def __init__(self, check: str, detail: str) -> None:
        super().__init__(f"{check}: {detail}")
        self.check = check
        self.detail = detail


class Node:
    """One simulated process. A restarted process is a new node of the same name."""

    def __init__(self, loop: "VirtualTimeLoop", name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self.paused = False
        self.held: deque[_Handle] = deque()
        self._context = contextvars.copy_context()
        self._context.run(NODE.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}{'' if self.alive else ' (crashed)'}{' (paused)' if self.paused else ''}>"

    @property
    def context(self) -> contextvars.Context:
        """A new context of this node, for a task or a callback."""
        return self._context.copy()

    def call(self, work: Callable[..., T], *args: object) -> T:
        """Run `work` now, as this node: what it schedules belongs to it."""
        return self.context.run(work, *args)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        return self.loop.create_task(work, name=f"{self.name}: {name}", context=self.context)

    def crash(self) -> None:
        """Drop everything of this node. The network handles its connections."""
        self.alive = False
        self.held.clear()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.loop.release(self)


NODE: contextvars.ContextVar[Node | None] = contextvars.ContextVar("simulated node", default=None)


class _Future(asyncio.Future[Any]):
    """Hashed by age instead of address, so that sets of futures are iterated in the same order in every run."""

    def __init__(self, age: int, loop: asyncio.AbstractEventLoop) -> None:
        self.age = age
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.age


class _Task(asyncio.Task[Any]):
    def __init__(self, age: int, node: Node | None, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self.age = age
        self.node = node
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self.age


class _Handle(asyncio.TimerHandle):
    """A handle for timers and for callbacks that run soon. It has no debugging, as the loop has none: half the cost
    of asyncio's."""

    __slots__ = ()
    _callback: Callable[..., object]
    _context: contextvars.Context

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        self._when = when
        self._scheduled = False
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = self._source_traceback = None


class VirtualTimeLoop(asyncio.AbstractEventLoop):
    """See the module. A run ends with the first of `failures`, right after the callback that caused it."""

    def __init__(self, *, max_steps: int = 2_000_000, max_steps_at_once: int = 100_000) -> None:
        """`max_steps` bounds the callbacks in all, `max_steps_at_once` those without progress of time (livelock)."""
        self.network: Network | None = None
        self.steps = 0
        self.failures: list[BaseException] = []
        """What checks found, and what callbacks and tasks died of without anyone caring: the first ends the run."""
        self._now = START_S
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._ages = itertools.count()
        self._tasks: list[_Task] = []
        self._given: list[Coroutine[Any, Any, Any]] = []
        self._max_steps = max_steps
        self._max_steps_at_once = max_steps_at_once
        self._steps_at = 0
        self._running = False
        self._closed = False

    # ---- time and callbacks

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = _Handle(self._now, callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        handle = _Handle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._ages), handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are skipped when they are due."""

    def release(self, node: Node) -> None:
        """Make the held callbacks of `node` ready, after those that are ready already."""
        self._ready.extend(node.held)
        node.held.clear()

    # ---- running

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until `future` is done; return its result.

        Raises:
            SimulationError: nothing is ready and no timer is set (deadlock), or too much happened (livelock).
            BaseException: the first of `failures`.
        """
        task = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not task.done():
                self._run_once()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
        return task.result()

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._advance()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context
            node = context.get(NODE)
            if node is not None and (node.paused or not node.alive):
                if node.alive:
                    node.held.append(handle)
                continue
            self.steps += 1
            try:
                context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - it ends the run, below
                self.failures.append(error)
            if self.failures:
                raise self.failures[0]
        if self.steps > self._max_steps or self.steps - self._steps_at > self._max_steps_at_once:
            raise SimulationError("livelock", f"{self.steps} steps by {self._now - START_S:.3f} s")

    def _advance(self) -> None:
        """Move the clock to the next timer and make ready all that are due then."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise SimulationError("deadlock", f"nothing is ready and no timer is set at {self._now - START_S:.3f} s")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._steps_at = self.steps
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()
        self._given.clear()

    def tear_down(self) -> None:
        """Cancel every task, including those of crashed and paused nodes, and let them end."""
        asyncio._set_running_loop(self)
        try:
            for _ in range(200):
                if not self._cancel_all():
                    break
                self.failures.clear()
                with suppress(Exception):
                    self._run_once()
        finally:
            asyncio._set_running_loop(None)
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                assert inspect.iscoroutine(coroutine)
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:  # its first step fell to a crash
                    coroutine.close()
            elif not task.cancelled():
                task.exception()
        for coroutine in self._given:
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()
        self.close()

    def _cancel_all(self) -> int:
        """Wake every node and cancel what is not done; return the number of these tasks."""
        tasks = self.running_tasks()
        for task in tasks:
            node = task.node
            if node is not None:
                node.alive = True
                if node.paused:
                    node.resume()
            task.cancel()
        return len(tasks)

    def running_tasks(self) -> "list[_Task]":
        """Return the tasks that are not done, the oldest first."""
        return [task for task in self._tasks if not task.done()]

    def unheard(self) -> list[BaseException]:
        """Return the errors of tasks of live nodes that no code retrieved."""
        return [
            error
            for task in self._tasks
            if task.done() and not task.cancelled() and task._log_traceback and (task.node is None or task.node.alive)
            if (error := task.exception()) is not None
        ]

    # ---- tasks and futures

    def create_future(self) -> "asyncio.Future[Any]":
        return _Future(next(self._ages), self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None
    ) -> "asyncio.Task[Any]":
        age = next(self._ages)
        node = NODE.get() if context is None else context.get(NODE)
        self._given += _not_begun(coro)
        task = _Task(age, node, coro, loop=self, name=f"task {age}" if name is None else str(name), context=context)
        tasks = self._tasks
        tasks.append(task)  # kept alive: the collector must not run a crashed node's finally blocks
        if len(tasks) > 2_000 and not age % 500:
            self._tasks = [each for each in tasks if not each.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Collect; see `failures`."""
        error = context.get("exception")
        self.failures.append(error if error is not None else RuntimeError(str(context.get("message"))))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        return

    async def shutdown_default_executor(self) -> None:
        return

    # ---- the network

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        if self.network is None:
            raise OSError(101, "there is no network here")
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self.network is not None
        return self.network.listen(protocol_factory, host, port)

    # ---- what a simulated process cannot have

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise SimulationError("executor", f"{func} must not run in a thread here")

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise SimulationError("signal", "there are no signals here")


def _not_begun(work: Any) -> list[Coroutine[Any, Any, Any]]:
    """Return the coroutines that `work` was given to await; none is closed if its process crashes first."""
    given = inspect.getcoroutinelocals(work).values() if inspect.iscoroutine(work) else ()
    return [each for each in given if inspect.iscoroutine(each)]
