"""One session with ZooKeeper, and the way from the thread of its client to the event loop.

The client's thread decides nothing: it hands over what came, in the order in which it came, and all the rest is done on
the event loop. A link that was left hands over answers only, for somebody may still wait for them.
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
from pulsar_barycenter.metadata.zookeeper.settings import ZooKeeperSettings

log = structlog.get_logger(__name__)

CREATED, DELETED, CHANGED = 1, 2, 3
"""Types of events, ZooKeeper's own numbers."""

_NEWS_IN_A_TURN: Final = 256
"""Answers and events that are taken before the event loop does something else."""

Ask = Callable[[RecursiveClient], Any]
"""Puts one request into the client's queue and returns kazoo's IAsyncResult."""


class Audience(Protocol):
    """Who hears of a link. Called on the event loop, in order."""

    def hear_connected(self) -> None:
        """There is a connection, and the watch is set on it."""
        ...

    def hear_refused(self, error: Exception) -> None:
        """The server would not set the watch."""
        ...

    def hear_disconnected(self) -> None:
        """The connection is gone; the client seeks another one for the same session."""
        ...

    def hear_expired(self) -> None:
        """The server says that the session has ended."""
        ...

    def hear_event(self, kind: int, path: str) -> None:
        """A node changed: CREATED, DELETED or CHANGED, and its whole path."""
        ...


class SessionLink:
    """A session that begins with the first connection, which the client seeks until `leave`."""

    def __init__(
        self, hosts: str, root: str, timeout_s: float, settings: ZooKeeperSettings, audience: Audience
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._audience: Audience | None = audience
        self._waiting: set[asyncio.Future[Any]] = set()
        self._news: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._is_called = False
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._client = RecursiveClient(
            hosts,
            root,
            timeout_s=timeout_s,
            settings=settings,
            hear_armed=lambda armed: self._hand_over(self._armed, armed),
            hear_event=lambda kind, path: self._hand_over(self._event, kind, path),
        )
        self._client.add_listener(self._state)
        self._client.start_async()

    @property
    def session(self) -> int | None:
        """ZooKeeper's number of the session while there is a connection."""
        known = self._client.client_id
        return None if known is None else known[0]

    @property
    def timeout_s(self) -> float:
        """The session timeout that the server grants."""
        granted: float = self._client.negotiated_timeout_s
        return granted

    @property
    def trouble(self) -> str:
        """Why the last connection that failed did so; blank if none did."""
        told: str = self._client.trouble
        return told

    def ask(self, ask: Ask) -> "asyncio.Future[Any]":
        """Send one request; the future has its answer, or kazoo's exception. Requests are answered in their order."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.add(answer)
        try:
            ask(self._client).rawlink(lambda result: self._hand_over(self._settle, answer, result))
        except KazooException as error:
            self._waiting.discard(answer)
            answer.set_exception(error)
        return answer

    def leave(self) -> "asyncio.Future[None]":
        """End the session if a server can be reached, and hear nothing more; done when the client's thread has ended.

        A server that does not answer holds that thread for up to a session timeout.
        """
        if self._audience is not None:
            self._audience = None
            threading.Thread(target=self._stop, name="leave zookeeper session", daemon=True).start()
        return self._left

    def give_up(self) -> None:
        """Tell all who still wait for an answer that it is not known."""
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
        self._news.append((callback, arguments))
        if self._is_called:
            return  # whoever takes the news says first that he was called no more
        self._is_called = True
        try:
            self._loop.call_soon_threadsafe(self._take_news)
        except RuntimeError:  # the loop is closed: nobody is left to hear it
            log.debug("zookeeper_news_for_closed_loop")

    # ---- on the event loop ----

    def _take_news(self) -> None:
        self._is_called = False
        try:
            for _ in range(min(len(self._news), _NEWS_IN_A_TURN)):
                callback, arguments = self._news.popleft()
                callback(*arguments)
        finally:
            if self._news:
                self._loop.call_soon(self._take_news)

    def _armed(self, armed: Any) -> None:
        if self._audience is None:
            return
        error = armed.exception
        if error is None:
            self._audience.hear_connected()
        elif not isinstance(error, ConnectionLoss):  # of a loss the state tells
            self._audience.hear_refused(error)

    def _disconnected(self) -> None:
        if self._audience is not None:
            self._audience.hear_disconnected()

    def _expired(self) -> None:
        if self._audience is not None:
            self._audience.hear_expired()

    def _event(self, kind: int, path: str) -> None:
        if self._audience is not None:
            self._audience.hear_event(kind, path)

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
