"""Counts the SENDs without an answer: their number for one connection, and their memory for all connections.

Above `maxMessagePublishBufferSizeInMB` the broker stops reading from connections that publish, until half of it is free
again. The messages of a closed connection count until they are stored. Source: Pulsar's `ServerCnx.startSendOperation`
and `completedSendOperation`.
"""

from typing import Final, Protocol

from pulsar_barycenter.broker.wire.bounds import PENDING_BYTES

_MIB: Final = 1 << 20


class PausedConnection(Protocol):
    """The methods of a connection that the buffer needs to resume reading."""

    def maybe_resume_reading(self) -> None: ...


class PublishBuffer:
    """The memory of unanswered SENDs of all connections, in bytes.

    `paused` has the connections that the broker does not read from, for any reason. When the buffer has room again,
    each of these connections checks whether reading may resume.
    """

    __slots__ = ("_limit", "is_full", "paused", "size")

    def __init__(self, limit_mib: int) -> None:
        """Set the limit, in MiB; 0 or less means no limit. Each connection may exceed the limit by the bytes of one
        read.
        """
        self._limit = limit_mib * _MIB
        self.size = 0
        self.is_full = False
        self.paused: dict[PausedConnection, None] = {}

    def add(self, size: int) -> None:
        self.size += size
        if 0 < self._limit < self.size:
            self.is_full = True

    def remove(self, size: int) -> None:
        self.size -= size
        if self.is_full and self.size * 2 <= self._limit:
            self.is_full = False
            for connection in list(self.paused):
                connection.maybe_resume_reading()


class Unanswered:
    """The unanswered SENDs of one connection: their number and size."""

    __slots__ = ("_buffer", "count", "size")

    def __init__(self, buffer: PublishBuffer) -> None:
        self._buffer = buffer
        self.count = 0
        self.size = 0

    def add(self, count: int, size: int = 0) -> None:
        self.count += count
        self.size += size
        self._buffer.add(size)

    def remove(self, count: int, size: int = 0) -> None:
        """Record that `count` SENDs were answered, or get no answer. After this, the caller checks `are_few` and may
        resume reading.
        """
        self.count -= count
        self.size -= size
        self._buffer.remove(size)

    def are_many(self, limit: int) -> bool:
        """Return whether there are so many unanswered SENDs that reading has to stop; `limit` is the maximum number of
        SENDs of one connection.
        """
        return self.count > limit or self.size > PENDING_BYTES or self._buffer.is_full

    def are_few(self, limit: int) -> bool:
        """Return whether there are so few unanswered SENDs that reading may resume after it stopped: at most half of
        the limits.
        """
        return self.count * 2 <= limit and self.size * 2 <= PENDING_BYTES and not self._buffer.is_full
