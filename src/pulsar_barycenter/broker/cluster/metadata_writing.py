"""Who writes the metadata of a cluster: each broker for itself, or the leader for all.

The setting `leaderOnlyMetadataWrites` decides this when a broker starts. The two implementations of `MetadataWriting`
are `EachBrokerWrites`, and `LeaderWrites` in `leader_writes`.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pulsar_barycenter.broker.cluster.leadership import Leadership
from pulsar_barycenter.broker.cluster.writing_modes import refuse_leader_writers
from pulsar_barycenter.metadata.store import MetadataStore

_STORE_ANSWERS_S: Final = 15.0
"""The number of seconds for which a broker that starts tries to reach a store that does not answer."""


class NotWrittenByLeaderError(Exception):
    """This broker got a request to write metadata for another broker, but in this cluster each broker writes its own
    metadata.
    """


class MetadataWriting(Protocol):
    @property
    def store(self) -> MetadataStore:
        """The metadata store that all parts of this broker use."""
        ...

    @property
    def former_session_s(self) -> float:
        """The maximum number of seconds for which keys of an earlier run of this broker's process may remain in the
        store.
        """
        ...

    @property
    def lease_s(self) -> float:
        """The number of seconds for which this broker may serve its bundles without an answer of the store."""
        ...

    def leadership(self, path: str, *, refresh_after_s: float, source: random.Random) -> Leadership:
        """Return the object for this broker's participation in the leader election at `path`. Called once.
        `refresh_after_s` is the age in seconds at which a cached value of the leader's key is read again; `source`
        generates random pauses.
        """
        ...

    async def open(self, broker_id: str, lead: Callable[[], Awaitable[None]]) -> None:
        """Prepare to write metadata. `lead` is called if this broker has to take part in the leader election first.

        Raises:
            MixedWritersError: brokers are running that use another mode of writing metadata.
            MetadataError: there was no leader for a long time, or the store did not answer.
        """
        ...

    async def refuse_others(self) -> None:
        """Check that no brokers run that use another mode of writing metadata.

        Raises:
            MixedWritersError: such brokers are running.
            MetadataError: the store did not answer.
        """
        ...

    async def resign(self) -> None:
        """Resign as leader. Exception: if this broker can write only while it is the leader, it stays leader until
        `close`.
        """
        ...

    async def step_down(self) -> None:
        """Prepare for `close`. If each broker writes for itself, resign as leader. If the leader writes for all, do not
        resign; but from now on a write fails after a short time if there is no leader.
        """
        ...

    async def close(self) -> None:
        """Stop writing metadata. Idempotent."""
        ...

    def knows(self, secret: str) -> bool:
        """Return whether this broker is the one that writes for all brokers, and `secret` is the secret that it
        requires in requests.
        """
        ...

    async def answer_to(self, body: bytes) -> bytes:
        """Carry out a request to write metadata that another broker sent, and return the encoded answer.

        Raises:
            NotWrittenByLeaderError: in this cluster each broker writes for itself.
            msgspec.ValidationError, msgspec.DecodeError: `body` is not a valid request.
        """
        ...


class EachBrokerWrites:
    """The writing of metadata in clusters where each broker writes its own metadata. Implements `MetadataWriting`."""

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
