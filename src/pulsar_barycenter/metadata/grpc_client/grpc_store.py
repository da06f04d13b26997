"""Opens and closes a store that is reached by gRPC, and ends its session if one of its tasks fails."""

import asyncio
from typing import Final, Protocol, Self

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import SessionLostError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.grpc_client.heartbeat_session import HeartbeatSession, Servers
from pulsar_barycenter.metadata.store import SessionEvent
from pulsar_barycenter.metadata.store_client import StoreClient

log = structlog.get_logger(__name__)

OPENING_S: Final = 10.0
"""The number of seconds in which a server must be found that answers, when a store is opened."""
OPENING_RETRY_S: Final = 0.1


class Connection(Servers, Protocol):
    """The connection to the servers of a store, one of which is used at a time."""

    async def close(self) -> None: ...


class Watch(Protocol):
    """Receives the changes of the keys of a store, and reports them."""

    @property
    def begun(self) -> asyncio.Future[None]:
        """A future that is done as soon as changes are received for the first time. If the servers refuse that, it gets
        an exception.
        """
        ...

    async def run(self) -> None:
        """Receive changes until cancelled. If the servers refuse the first attempt, set an exception in `begun`, and
        return. After any other failure, try again.
        """
        ...


class GrpcStore(StoreClient):
    """The base class of metadata stores whose servers are reached by gRPC. `name` is the store's name in logs and
    errors. The constructor of a subclass creates the connection, the session and the watch.
    """

    name: str
    connection: Connection
    keeper: HeartbeatSession
    _watch: Watch

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, None)
        self._tasks = BackgroundTasks("metadata_store_failed", expected=(Exception,))  # logged by _task_ended
        self._ending: asyncio.Task[None] | None = None

    @property
    def session_is_overdue(self) -> bool:
        return self._session is None or self.keeper.is_overdue

    async def close(self) -> None:
        self._closed = True
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name=f"{self.name} close")
        await asyncio.shield(self._ending)

    async def _opened(self, endpoints: tuple[str, ...]) -> Self:
        """Open the session, wait until changes are received, and return this store. If that fails, the store is closed.

        Raises:
            StoreUnavailableError, StoreRefusedError: the store cannot be opened; the message has the addresses of the
                servers, which are `endpoints`.
        """
        try:
            await self._begin()
        except (StoreUnavailableError, StoreRefusedError) as error:
            await self.close()
            raise type(error)(f"{self.name} {', '.join(endpoints)}", error.detail) from error
        except BaseException:
            await self.close()
            raise
        return self

    def _session_ended(self, session: int, path: str, operation: str) -> SessionLostError:
        self.keeper.ended(session)
        return SessionLostError(path, f"{operation} was refused: the session with the store has ended")

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + OPENING_S
        while True:
            line = self.connection.line
            try:
                await self.keeper.open()
                break
            except StoreUnavailableError:
                if loop.time() >= give_up_at_s:
                    raise
                self.connection.leave(line)
            await asyncio.sleep(OPENING_RETRY_S)
        self._tasks.start(self.keeper.run(), f"{self.name} session").add_done_callback(self._task_ended)
        self._tasks.start(self._watch.run(), f"{self.name} watch").add_done_callback(self._task_ended)
        try:
            async with asyncio.timeout(OPENING_S):
                await self._watch.begun
        except TimeoutError:
            raise StoreUnavailableError("/", "the servers did not answer the request to watch changes") from None

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Called when the task of the session or of the watch has ended. If it failed, which only a bug can cause,
        close the store and report that the session is lost.
        """
        if self._closed or task.cancelled() or task.exception() is None:
            return
        log.error("metadata_store_failed", task=task.get_name(), exc_info=task.exception())
        self._closed = True
        self._session = None
        self._listeners.session_events([SessionEvent.CONNECTION_LOST, SessionEvent.SESSION_LOST])

    async def _end(self) -> None:
        await self._tasks.close()
        await self.keeper.close()
        self._session = None
        await self.connection.close()
