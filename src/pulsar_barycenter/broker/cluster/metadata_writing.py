"""Who writes the metadata of a cluster: each broker for itself, or the leader for all.

`leaderOnlyMetadataWrites` says which when a broker starts. Both are a `MetadataWriting`: `EachBrokerWrites`, and
`LeaderWrites` of `leader_writes`.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pulsar_barycenter.broker.cluster.leadership import Leadership
from pulsar_barycenter.broker.cluster.writing_modes import refuse_leader_writers
from pulsar_barycenter.metadata.store import MetadataStore

_STORE_ANSWERS_S: Final = 15.0
"""How long a broker that starts tries to reach a store that does not answer, in seconds."""


class NotWrittenByLeaderError(Exception):
    """A request to write arrived, but each broker of this cluster writes for itself."""


class MetadataWriting(Protocol):
    @property
    def store(self) -> MetadataStore:
        """The store that all parts of this broker use."""
        ...

    @property
    def former_session_s(self) -> float:
        """The longest time for which keys of a former incarnation of this broker may remain in the store, in
        seconds.
        """
        ...

    @property
    def lease_s(self) -> float:
        """The time for which this broker may serve without an answer of the store, in seconds."""
        ...

    def leadership(self, path: str, *, refresh_after_s: float, source: random.Random) -> Leadership:
        """Return this broker's `Leadership`: its part in the election at `path`. Called once."""
        ...

    async def open(self, broker_id: str, lead: Callable[[], Awaitable[None]]) -> None:
        """Prepare to write. `lead` is called if this broker has to take part in the election first.

        Raises:
            MixedWritersError: brokers are running that write in another mode.
            MetadataError: there was no leader for a long time, or the store did not answer.
        """
        ...

    async def refuse_others(self) -> None:
        """Check that no brokers run that write in another mode.

        Raises:
            MixedWritersError: such brokers are running.
            MetadataError: the store did not answer.
        """
        ...

    async def resign(self) -> None:
        """Resign as leader, if this broker does not need the leadership for its own writes until it is closed."""
        ...

    async def step_down(self) -> None:
        """Prepare for the close: complete the writes that are in progress, and begin no others."""
        ...

    async def close(self) -> None:
        """Stop writing. Idempotent."""
        ...

    def knows(self, secret: str) -> bool:
        """Return whether this broker writes for all brokers, and accepts this secret."""
        ...

    async def answer_to(self, body: bytes) -> bytes:
        """Answer a request to write that another broker sent.

        Raises:
            NotWrittenByLeaderError: each broker writes for itself.
            msgspec.ValidationError, msgspec.DecodeError: `body` is not such a request.
        """
        ...


class EachBrokerWrites:
    """Implements `MetadataWriting`."""

    def __init__(self, store: MetadataStore, *, session_timeout_s: float) -> None:
        self.store = store
        self.former_session_s = session_timeout_s
        self.lease_s = session_timeout_s
        self._leadership: Leadership | None = None

    def leadership(self, path: str, *, refresh_after_s: float, source: random.Random) -> Leadership:
        self._leadership = Leadership(self.store, path, refresh_after_s=refresh_after_s, source=source)
        return self._leadership

    async def open(self, broker_id: str, lead: Callable[[], Awaitable[None]]) -> None:
        """Do nothing: a broker can write as soon as it has a store."""

    async def refuse_others(self) -> None:
        await refuse_leader_writers(self.store, within_s=_STORE_ANSWERS_S)

    async def resign(self) -> None:
        assert self._leadership is not None
        await self._leadership.resign()

    async def step_down(self) -> None:
        await self.resign()

    async def close(self) -> None:
        return

    def knows(self, secret: str) -> bool:
        return False

    async def answer_to(self, body: bytes) -> bytes:
        raise NotWrittenByLeaderError
