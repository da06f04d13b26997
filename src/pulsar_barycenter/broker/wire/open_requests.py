"""Runs the requests of a connection that have to wait, each in a task, and answers those that fail.

Log lines of such a task carry the id of the connection and the client's request id. Requests that are answered at once
do not use this module, so they have no such cost.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from pulsar_barycenter.broker.authorization.errors import AccessError
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.broker.wire.bounds import OPEN_REQUESTS, PENDING_BYTES
from pulsar_barycenter.broker.wire.errors import error_code, error_text
from pulsar_barycenter.broker.wire.refusals import refusal, request_name
from pulsar_barycenter.broker.wire.services import ServedConnection
from pulsar_barycenter.cluster_logs.request_ids import new_connection_id, serving


class OpenRequests:
    """The requests of one connection that are being answered in tasks. `refused` is the log event for those that fail.
    `ended` is called after each request.
    """

    __slots__ = ("_bytes", "_connection", "_ended", "_loop", "_refused", "_tasks", "id")

    def __init__(self, connection: ServedConnection, refused: BoundedLog, ended: Callable[[], None]) -> None:
        self.id = new_connection_id()
        """The id of the connection in the log."""
        self._connection = connection
        self._refused = refused
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._bytes = 0

    @property
    def are_many(self) -> bool:
        """Whether reading has to stop, because the number or the bytes of the requests that are being answered exceed
        their limit.
        """
        return len(self._tasks) > OPEN_REQUESTS or self._bytes > PENDING_BYTES

    @property
    def are_few(self) -> bool:
        """Whether reading may resume after it stopped because of `are_many`: the number and the bytes of the requests
        are at most half of their limits.
        """
        return len(self._tasks) * 2 <= OPEN_REQUESTS and self._bytes * 2 <= PENDING_BYTES

    def start(self, work: Coroutine[Any, Any, None], number: int, request: Any) -> asyncio.Task[None]:
        """Run `work`, which answers a request of command type `number`, in a task, and return the task. The task is
        cancelled when the connection closes. If `work` raises an exception, `failed` sends the error.
        """
        name = f"{request_name(number)}:{self._connection.address}"
        task = self._loop.create_task(self._run(work, number, request), name=name)
        size = self._tasks[task] = request.ByteSize()
        self._bytes += size
        task.add_done_callback(partial(self._done, work))
        return task

    async def _run(self, work: Coroutine[Any, Any, None], number: int, request: Any) -> None:
        name = getattr(request, "request_id", request_name(number))
        with serving(f"{self.id}-{name}", connection=self.id, address=self._connection.address):
            try:
                await work
            except Exception as error:  # noqa: BLE001 (every error has an answer)
                self.failed(number, request, error)

    def _done(self, work: Coroutine[Any, Any, None], task: asyncio.Task[None]) -> None:
        work.close()  # a task that was cancelled before its first step has not started the coroutine
        self._bytes -= self._tasks.pop(task, 0)
        self._ended()

    def failed(self, number: int, request: Any, error: Exception) -> None:
        """Send the client the error response to its request, if the command has one, and log the error. A missing right
        is not logged again here.
        """
        text = error_text(error)
        if not isinstance(error, AccessError):
            about = {"connection": self.id, "address": self._connection.address}
            self._refused.log(request=request_name(number), **about, reason=text)
        answer = refusal(number, request, error_code(error), text)
        if answer is not None:
            self._connection.send(answer)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
