"""SENDs that have no answer yet: those of a connection, and the memory that those of all connections take together.

Beyond `maxMessagePublishBufferSizeInMB` nothing is read from connections that publish, until half of it is free again.
What a connection sent counts on when it is gone, until it is stored. Source: Pulsar's `ServerCnx.startSendOperation`
and `completedSendOperation`.
"""

from typing import Final, Protocol

from pulsar_barycenter.broker.wire.bounds import PENDING_BYTES

_MIB: Final = 1 << 20


class PausedConnection(Protocol):
    """A connection that is not read at present, as the buffer wakes it."""

    def maybe_resume_reading(self) -> None: ...


class PublishBuffer:
    """`paused` are the connections that are not read, whatever for: they are asked when there is room again."""

    __slots__ = ("_limit", "is_full", "paused", "size")

    def __init__(self, limit_mib: int) -> None:
        """Hold up to `limit_mib` MiB, exceeded by what is read of each connection at once; 0 or less is no limit."""
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
    """The SENDs of one connection: how many, and of how many bytes."""

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
        """So many are answered, or will not be. Whoever asks `are_few` after that knows whether to read on."""
        self.count -= count
        self.size -= size
        self._buffer.remove(size)

    def are_many(self, most: int) -> bool:
        """Whether no more should be read; `most` is how many one connection may have."""
        return self.count > most or self.size > PENDING_BYTES or self._buffer.is_full

    def are_few(self, most: int) -> bool:
        """Whether reading may go on that was stopped."""
        return self.count * 2 <= most and self.size * 2 <= PENDING_BYTES and not self._buffer.is_full
