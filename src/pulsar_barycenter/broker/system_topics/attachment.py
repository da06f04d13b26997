"""Staying attached to the broker that serves a topic, whichever that is: the loop that publishers and readers share.

    ask who serves ─▶ connect, or share the connection ─▶ attach ─▶ attached ─▶ until closed, lost, or the owner changed
         ▲                                                  │ refused, or no answer in time              │
         └──────────────────────── back off, which a hint that the owner changed ends ◀──────────────────┘

The log is told of each change between attached and not, never of an attempt.
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
    """What gives connections to everybody who is attached; see `SystemTopicClient`."""

    @property
    def settings(self) -> ClientSettings: ...

    @property
    def hints(self) -> int:
        """How often it was told that the owner changed."""
        ...

    def new_back_off(self) -> BackOff: ...

    async def connection(self) -> BrokerConnection:
        """Ask who serves the topics, and return an open connection to that broker; raises UnreachableError."""
        ...

    async def pause(self, seconds: float) -> None:
        """Return after that time, or when told that the owner changed."""
        ...

    def forget(self, attachment: "Attachment") -> None: ...


class Attachment(ABC):
    """One publisher or reader of one topic. Made inside a running loop, it attaches at once and by itself."""

    role: str

    def __init__(self, connections: Connections, topic: str) -> None:
        self.topic = topic
        self._connections = connections
        self._settings = connections.settings
        self._is_attached: bool | None = None
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._stay_attached(), name=f"{self.role} of {topic}")

    @property
    def is_attached(self) -> bool:
        return self._is_attached is True

    async def close(self) -> None:
        """Detach for good. Idempotent; no task is left."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._connections.forget(self)

    @abstractmethod
    async def _attach(self, connection: BrokerConnection) -> None:
        """Say what attaches this; errors as of `BrokerConnection.request`."""

    @abstractmethod
    def _detach(self, connection: BrokerConnection) -> None:
        """Forget what `_attach` did, however far it came."""

    async def _while_attached(self, connection: BrokerConnection) -> str:
        """Return why this is attached no more."""
        return await self._gone

    def detached(self, reason: str) -> None:
        """The broker closed this, or the connection is lost."""
        if not self._gone.done():
            self._gone.set_result(reason)

    async def _stay_attached(self) -> None:
        loop = asyncio.get_running_loop()
        back_off = self._connections.new_back_off()
        while True:
            hints = self._connections.hints
            began = loop.time()
            reason = await self._attach_once()
            self._tell(is_attached=False, reason=reason)
            if self._connections.hints != hints:
                back_off.reset()
                continue
            if loop.time() - began > self._settings.longest_back_off_s:
                back_off.reset()
            await self._connections.pause(back_off.next_s())

    async def _attach_once(self) -> str:
        """Attach and stay so; return why it ended, or never began."""
        self._gone = asyncio.get_running_loop().create_future()
        connection: BrokerConnection | None = None
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                connection = await self._connections.connection()
                await self._attach(connection)
            if not self._gone.done():
                self._tell(is_attached=True, broker=connection.url)
            return await self._while_attached(connection)
        except TimeoutError:
            if connection is not None:
                connection.probe()
            return f"no answer within {self._settings.attempt_timeout_s} s"
        except SystemTopicError as error:
            return str(error)
        except Exception as error:
            log.exception("system_topic_failed", topic=self.topic, role=self.role)
            return repr(error)
        finally:
            if connection is not None:
                self._detach(connection)

    def _tell(self, *, is_attached: bool, **fields: str) -> None:
        if self._is_attached is is_attached:
            return
        self._is_attached = is_attached
        if is_attached:
            log.info("system_topic_attached", topic=self.topic, role=self.role, **fields)
        else:
            log.warning("system_topic_detached", topic=self.topic, role=self.role, **fields)
