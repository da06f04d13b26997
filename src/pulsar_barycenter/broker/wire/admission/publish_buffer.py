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
    """The bytes of all SENDs of all connections that the broker has not answered yet. When they exceed the limit,
    connections stop reading.

    `paused` has the connections from which the broker does not read now, for any reason. When half of the limit is free
    again, each of these connections checks whether it may resume reading.
    """

    __slots__ = ("_limit", "is_full", "paused", "size")

    def __init__(self, limit_mib: int) -> None:
        """`limit_mib` is the limit of the buffer in MiB; 0 or less means no limit. Each connection may exceed it by the
        bytes of one read.
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
        """Record that `count` SENDs, with `size` bytes in total, were answered or will get no answer. The caller then
        checks `are_few`, and resumes reading if it is True.
        """
        self.count -= count
        self.size -= size
        self._buffer.remove(size)

    def are_many(self, limit: int) -> bool:
        """Return whether reading from the connection has to stop, because a limit is exceeded: the number of its
        unanswered SENDs (`limit`), their bytes, or the bytes of all connections together.
        """
        return self.count > limit or self.size > PENDING_BYTES or self._buffer.is_full

    def are_few(self, limit: int) -> bool:
        """Return whether reading from the connection may resume: the number and the bytes of its unanswered SENDs are
        at most half of their limits, and the buffer of all connections has room.
        """
        return self.count * 2 <= limit and self.size * 2 <= PENDING_BYTES and not self._buffer.is_full
