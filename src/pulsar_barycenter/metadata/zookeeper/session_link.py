"""One session with ZooKeeper: passes requests to its client's thread, and answers and events from there to the event
loop.

The client's thread only passes on what arrives, in order; all decisions are made on the event loop. After `leave`, only
answers are passed on, because callers may still wait for them.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.protocol.states import KazooState, KeeperState

from pulsar_barycenter.metadata.zookeeper.recursive_client import RecursiveClient
from pulsar_barycenter.metadata.zookeeper.zookeeper_settings import ZooKeeperSettings

log = structlog.get_logger(__name__)

CREATED, DELETED, CHANGED = 1, 2, 3
"""The types of events, with ZooKeeper's own numbers."""

_MAX_MESSAGES_AT_ONCE: Final = 256
"""The maximum number of answers and events that are processed before the event loop does other work."""

Ask = Callable[[RecursiveClient], Any]
"""A function that puts one request into the client's queue and returns kazoo's IAsyncResult."""


class SessionListener(Protocol):
    """Receives the events of one session. Its methods are called on the event loop, in the order of the events."""

    def on_connected(self) -> None:
        """Called each time a connection of the session is open and the watch is set on it."""
        ...

    def on_refused(self, error: Exception) -> None:
        """Called when the server refused to set the watch."""
        ...

    def on_disconnected(self) -> None:
        """Called when the connection is lost. kazoo's client then tries to open another connection for the same
        session.
        """
        ...

    def on_expired(self) -> None:
        """Called when a server has reported that the session has ended."""
        ...

    def on_event(self, kind: int, path: str) -> None:
        """Called when a node has changed. `kind` is CREATED, DELETED or CHANGED, `path` is the full path of
        the node.
        """
        ...


class SessionLink:
    """One session with ZooKeeper. The session begins when the first connection is open. Until `leave` is called, the
    client tries again and again to connect.
    """

    def __init__(
        self, hosts: str, root: str, timeout_s: float, settings: ZooKeeperSettings, listener: SessionListener
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener: SessionListener | None = listener
        self._waiting: set[asyncio.Future[Any]] = set()
        self._messages: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._is_called = False
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._client = RecursiveClient(
            hosts,
            root,
            timeout_s=timeout_s,
            settings=settings,
            on_armed=lambda armed: self._hand_over(self._armed, armed),
            on_event=lambda kind, path: self._hand_over(self._event, kind, path),
        )
        self._client.add_listener(self._state)
        self._client.start_async()

    @property
    def session(self) -> int | None:
        """ZooKeeper's id of the session; None while there is no connection."""
        known = self._client.client_id
        return None if known is None else known[0]

    @property
    def timeout_s(self) -> float:
        """The session timeout that the servers have chosen, in seconds; 0 before the session has begun."""
        granted: float = self._client.negotiated_timeout_s
        return granted

    @property
    def last_failure(self) -> str:
        """Why the last attempt to connect that failed has failed, as text, even if a later attempt succeeded; blank if
        no attempt has failed.
        """
        failure: str = self._client.last_failure
        return failure

    def ask(self, ask: Ask) -> "asyncio.Future[Any]":
        """Send one request: `ask` is a function that passes the request to kazoo's client. Return a future that gets
        the answer, or kazoo's exception. Requests are answered in the order in which they are sent.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.add(answer)
        try:
            ask(self._client).rawlink(lambda result: self._hand_over(self._settle, answer, result))
        except KazooException as error:
            self._waiting.discard(answer)
            answer.set_exception(error)
        return answer

    def leave(self) -> "asyncio.Future[None]":
        """End the session, if a server can be reached, and report no more events. Return a future that is done when
        kazoo's client and its thread have ended.

        If a server does not answer, this may take up to a session timeout.
        """
        if self._listener is not None:
            self._listener = None
            threading.Thread(target=self._stop, name="leave zookeeper session", daemon=True).start()
        return self._left

    def give_up(self) -> None:
        """Make all requests that wait for an answer fail with kazoo's ConnectionLoss. It is unknown whether they were
        executed.
        """
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(ConnectionLoss())
        self._waiting.clear()

    # ---- on other threads ----

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:  # noqa: BLE001  # kazoo's stop raises bare exceptions; the daemon thread is all there is left
            log.warning("zookeeper_client_did_not_stop", error=str(error))
        finally:
            self._hand_over(self._stopped)

    def _state(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            self._hand_over(self._disconnected)
        elif state == KazooState.LOST:
            expired = self._client.client_state == KeeperState.EXPIRED_SESSION
            self._hand_over(self._expired if expired else self._disconnected)

    def _hand_over(self, callback: Callable[..., None], *arguments: object) -> None:
        self._messages.append((callback, arguments))
        if self._is_called:
            return  # _process_messages clears the flag before it takes messages, so none is left
        self._is_called = True
        try:
            self._loop.call_soon_threadsafe(self._process_messages)
        except RuntimeError:  # the loop is closed: there is no listener left
            log.debug("zookeeper_news_for_closed_loop")

    # ---- on the event loop ----

    def _process_messages(self) -> None:
        self._is_called = False
        try:
            for _ in range(min(len(self._messages), _MAX_MESSAGES_AT_ONCE)):
                callback, arguments = self._messages.popleft()
                callback(*arguments)
        finally:
            if self._messages:
                self._loop.call_soon(self._process_messages)

    def _armed(self, armed: Any) -> None:
        if self._listener is None:
            return
        error = armed.exception
        if error is None:
            self._listener.on_connected()
        elif not isinstance(error, ConnectionLoss):  # a lost connection is reported by _state
            self._listener.on_refused(error)

    def _disconnected(self) -> None:
        if self._listener is not None:
            self._listener.on_disconnected()

    def _expired(self) -> None:
        if self._listener is not None:
            self._listener.on_expired()

    def _event(self, kind: int, path: str) -> None:
        if self._listener is not None:
            self._listener.on_event(kind, path)

    def _settle(self, answer: "asyncio.Future[Any]", result: Any) -> None:
        self._waiting.discard(answer)
        if answer.done():
            return
        if result.exception is None:
            answer.set_result(result.value)
        else:
            answer.set_exception(result.exception)

    def _stopped(self) -> None:
        self.give_up()
        if not self._left.done():
            self._left.set_result(None)
