"""Keeps a publisher or reader attached to the broker that serves its topic, while owners change.

    look up the owner ─▶ connect, or share the connection ─▶ attach ─▶ attached, until closed, lost or the owner changed
         ▲                                                     │ refused, or no answer in time           │
         └──────────────────────── back-off, which a hint that the owner changed ends ◀──────────────────┘

Each change between attached and detached is logged, but not each attempt.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

import structlog

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.broker.system_topics.connection import BrokerConnection
from pulsar_barycenter.broker.system_topics.errors import SystemTopicError
from pulsar_barycenter.broker.system_topics.settings import ClientSettings

log = structlog.get_logger(__name__)


class Connections(Protocol):
    """The methods of the client that publishers and readers need; see `SystemTopicClient`."""

    @property
    def settings(self) -> ClientSettings: ...

    @property
    def hints(self) -> int:
        """How often since the start of this client the client was notified that another broker may serve the system
        topics. A caller that reads it before and after a step sees whether a notification came in between.
        """
        ...

    def new_back_off(self) -> BackOff: ...

    async def connection(self) -> BrokerConnection:
        """Look up the broker that serves the system topics, and return an open connection to it.

        Raises:
            UnreachableError: no broker serves the system topics now, or that broker cannot be reached.
        """
        ...

    async def pause(self, seconds: float) -> None:
        """Wait for `seconds`, but return earlier if a notification comes that another broker may serve the system
        topics.
        """
        ...

    def forget(self, attachment: "Attachment") -> None: ...


class Attachment(ABC):
    """The base class of `Publisher` and `Reader`. Each object is one publisher or one reader of one topic. From its
    creation, which requires a running event loop, until `close`, it attaches to the topic and attaches again whenever
    it is detached.
    """

    role: str

    def __init__(self, connections: Connections, topic: str) -> None:
        self.topic = topic
        self._connections = connections
        self._settings = connections.settings
        self._is_attached: bool | None = None
        self._detached: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._stay_attached(), name=f"{self.role} of {topic}")

    @property
    def is_attached(self) -> bool:
        return self._is_attached is True

    async def close(self) -> None:
        """Detach this publisher or reader, and do not attach again. When this returns, its task has ended. No effect if
        it is closed already.
        """
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._connections.forget(self)

    @abstractmethod
    async def _attach(self, connection: BrokerConnection) -> None:
        """Send the request that attaches this publisher or reader. Raises the errors of `BrokerConnection.request`."""

    @abstractmethod
    def _detach(self, connection: BrokerConnection) -> None:
        """Undo `_attach`, even if `_attach` did not finish."""

    async def _while_attached(self, connection: BrokerConnection) -> str:
        """Wait until this publisher or reader is detached; return the reason."""
        return await self._detached

    def detached(self, reason: str) -> None:
        """Called when the broker has closed this publisher or reader, or the connection is lost. This object then
        attaches again.
        """
        if not self._detached.done():
            self._detached.set_result(reason)

    async def _stay_attached(self) -> None:
        loop = asyncio.get_running_loop()
        back_off = self._connections.new_back_off()
        while True:
            hints = self._connections.hints
            began = loop.time()
            reason = await self._attach_once()
            self._log_change(is_attached=False, reason=reason)
            if self._connections.hints != hints:
                back_off.reset()
                continue
            if loop.time() - began > self._settings.longest_back_off_s:
                back_off.reset()
            await self._connections.pause(back_off.next_s())

    async def _attach_once(self) -> str:
        """Attach, and wait until this publisher or reader is detached; return why it was detached, or could not
        attach.
        """
        self._detached = asyncio.get_running_loop().create_future()
        connection: BrokerConnection | None = None
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                connection = await self._connections.connection()
                await self._attach(connection)
            if not self._detached.done():
                self._log_change(is_attached=True, broker=connection.url)
            return await self._while_attached(connection)
        except TimeoutError:
            if connection is not None:
                connection.probe()
            return f"the broker did not answer within {self._settings.attempt_timeout_s} s"
        except SystemTopicError as error:
            return str(error)
        except Exception as error:
            log.exception("system_topic_failed", topic=self.topic, role=self.role)
            return repr(error)
        finally:
            if connection is not None:
                self._detach(connection)

    def _log_change(self, *, is_attached: bool, **fields: str) -> None:
        if self._is_attached is is_attached:
            return
        self._is_attached = is_attached
        if is_attached:
            log.info("system_topic_attached", topic=self.topic, role=self.role, **fields)
        else:
            log.warning("system_topic_detached", topic=self.topic, role=self.role, **fields)
