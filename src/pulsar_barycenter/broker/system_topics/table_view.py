"""A table of the newest value of each key of a topic.

A reader fills it from the beginning of the topic, in the order of the stored messages. So all views of a persistent
topic reach the same content. A view of a non-persistent topic has what was published while it was attached. Messages
without a key are ignored. An empty value counts as a null value, because clients of some languages cannot send null
values.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

import structlog

from pulsar_barycenter.broker.system_topics.entries import MessageId
from pulsar_barycenter.broker.system_topics.errors import ClosedError, NotCaughtUpError
from pulsar_barycenter.broker.system_topics.publisher import Publisher
from pulsar_barycenter.broker.system_topics.reader import Deliver, Reader
from pulsar_barycenter.broker.system_topics.settings import ClientSettings

log = structlog.get_logger(__name__)

Accepts: TypeAlias = "Callable[[bytes | None, bytes | None], bool]"
"""A function that gets the present value and the new one (None: no value), and returns whether the new one replaces the
present one.
"""
Listener: TypeAlias = "Callable[[str, bytes | None, bytes | None], None]"
"""A function that gets a key, its former value and its new value (None: no value)."""


def newest_wins(before: bytes | None, after: bytes | None) -> bool:
    return True


class Topics(Protocol):
    """The methods of the client that a table view needs, to create its reader and publisher; see
    `SystemTopicClient`.
    """

    def publisher(self, topic: str) -> Publisher: ...
    def reader(self, topic: str, deliver: Deliver, *, read_compacted: bool) -> Reader: ...


class TableView:
    """A table with the newest value of each key of a topic, unless `accepts` refuses it. It has at most `max_keys`
    keys, with values of at most `max_value_bytes` bytes. A further key or a larger value is ignored, which is logged
    once for each reason; the key then keeps its former value.
    """

    def __init__(
        self, topics: Topics, topic: str, *, accepts: Accepts, read_compacted: bool, settings: ClientSettings
    ) -> None:
        self.topic = topic
        self._topics = topics
        self._accepts = accepts
        self._read_compacted = read_compacted
        self._settings = settings
        self._values: dict[str, bytes] = {}
        self._listeners: list[Listener] = []
        self._logged: set[str] = set()
        self._reader: Reader | None = None
        self._publisher: Publisher | None = None

    def listen(self, listener: Listener) -> None:
        """Call `listener` after each change that `accepts` has accepted. This includes a null value for a key that is
        not in the table.

        A listener must not wait. If it raises an exception, this is logged.
        """
        self._listeners.append(listener)

    # ---- start and close ----

    async def start(self, timeout_s: float) -> None:
        """Clear the view, start to read the topic, and wait until the view contains everything that was in the topic
        when the reader attached. Do nothing if the view is started already.

        Raises:
            NotCaughtUpError: the view did not contain everything within `timeout_s`; it is closed again.
            ClosedError: the client is closed, or the view was closed during this call.
        """
        if self._reader is not None:
            return
        self._values.clear()
        self._publisher = self._topics.publisher(self.topic)
        reader = self._reader = self._topics.reader(self.topic, self._take, read_compacted=self._read_compacted)
        try:
            async with asyncio.timeout(timeout_s):
                await reader.caught_up()
        except TimeoutError:
            await self.close()
            raise NotCaughtUpError(self.topic, timeout_s) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop reading the topic. The content of the view stays readable. Idempotent."""
        reader, self._reader = self._reader, None
        publisher, self._publisher = self._publisher, None
        for attachment in (reader, publisher):
            if attachment is not None:
                await attachment.close()

    async def reach_end(self) -> None:
        """Wait until the view has everything that was in the topic at the time of the call. The caller limits the time.

        Raises:
            ClosedError: the view is not started, or was closed meanwhile.
        """
        if self._reader is None:
            raise ClosedError(f"the view of {self.topic} is not started")
        await self._reader.reach_end()

    @property
    def is_caught_up(self) -> bool:
        """Whether the view's reader is attached, and the view contains everything that was in the topic when the reader
        attached.
        """
        return self._reader is not None and self._reader.is_caught_up

    # ---- the table ----

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def items(self) -> list[tuple[str, bytes]]:
        """Return all keys with their values, as a list that later changes do not affect."""
        return list(self._values.items())

    def __len__(self) -> int:
        return len(self._values)

    async def put(self, key: str, value: bytes, *, timeout_s: float | None = None) -> MessageId:
        """Publish a value of `key`, and wait for the receipt. Return the position of the message.

        The table does not have the value at that moment: it gets the value when its own reader receives the message.
        Call `reach_end` to wait for this. Raises the errors of `Publisher.publish`, and ClosedError if the view is not
        started.
        """
        return await self._to_publish().publish(key, value, timeout_s=timeout_s)

    async def remove(self, key: str, *, timeout_s: float | None = None) -> MessageId:
        """Publish a null value, which removes `key`, and wait for the receipt. Return the position of the message. As
        with `put`, the table changes when its own reader receives the message. Raises the errors of `put`.
        """
        return await self._to_publish().publish(key, None, timeout_s=timeout_s)

    def _to_publish(self) -> Publisher:
        if self._publisher is None:
            raise ClosedError(f"the view of {self.topic} is not started")
        return self._publisher

    # ---- received messages ----

    def _take(self, key: str | None, value: bytes | None, message_id: MessageId, publish_time_ms: int) -> None:
        if key is None:
            return
        after = value or None
        before = self._values.get(key)
        if after is not None and not self._has_room(key, before, after):
            return
        if not self._accepts(before, after):
            return
        if after is None:
            self._values.pop(key, None)
        else:
            self._values[key] = after
        for listener in list(self._listeners):
            try:
                listener(key, before, after)
            except Exception:
                log.exception("system_topic_listener_failed", topic=self.topic, key=key)

    def _has_room(self, key: str, before: bytes | None, after: bytes) -> bool:
        if len(after) > self._settings.max_value_bytes:
            self._ignore(key, f"a value has more than {self._settings.max_value_bytes} bytes")
            return False
        if before is None and len(self._values) >= self._settings.max_keys:
            self._ignore(key, f"there are {self._settings.max_keys} keys already")
            return False
        if len(key.encode(errors="replace")) > self._settings.max_key_bytes:
            self._ignore(key[:100], f"a key has more than {self._settings.max_key_bytes} bytes")
            return False
        return True

    def _ignore(self, key: str, reason: str) -> None:
        if reason not in self._logged:
            self._logged.add(reason)
            log.error("system_topic_value_ignored", topic=self.topic, key=key, reason=reason)
