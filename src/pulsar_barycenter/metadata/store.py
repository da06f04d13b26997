"""The interface of a metadata store: versioned keys, ephemeral keys, notifications, a session.

The suite `tests/contract/test_metadata_store.py` checks the guarantees on every backend.

Source: Pulsar's `MetadataStore` and `MetadataStoreExtended`.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from pulsar_barycenter.metadata.errors import InvalidPathError

MUST_NOT_EXIST: Final = -1
"""The expected version of a put that must create its key."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The metadata of a key.

    `version` is 0 after creation and grows by one with each change. A key that is deleted and created again starts at
    0, so a version does not identify one life of a key. Times are milliseconds since 1970.
    Of a persistent key, some stores know the creator only in the answer to the put that created it; in their other
    answers `created_by_self` is False.
    """

    path: str
    version: int
    created_at_ms: int
    modified_at_ms: int
    ephemeral: bool
    created_by_self: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of a write on another key: the key `path` is at `version` (≥ 0).

    The store checks the condition and writes in one step. Oxia cannot do that: its store checks the guard in a request
    before the write, and the write itself is only checked against the session.
    """

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes
    stat: Stat


class NotificationType(enum.Enum):
    CREATED = "created"
    MODIFIED = "modified"
    CHILDREN_CHANGED = "children_changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Notification:
    type: NotificationType
    path: str


class SessionEvent(enum.Enum):
    """A change of the session. The only sequences are CONNECTION_LOST, RECONNECTED and CONNECTION_LOST, SESSION_LOST,
    RECONNECTED, SESSION_REESTABLISHED.
    """

    CONNECTION_LOST = "connection_lost"
    RECONNECTED = "reconnected"
    SESSION_LOST = "session_lost"
    SESSION_REESTABLISHED = "session_reestablished"


CONNECTED_EVENTS: Final = frozenset({SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED})
"""The events after which the store answers again, and after which notifications may have been missed."""


class MetadataStore(Protocol):
    """A session with a metadata store.

    All methods run on the event loop that opened the store. Listeners are called on this event loop, in the order of
    the changes. An operation on a closed store raises StoreClosedError. An operation whose outcome is unknown raises
    StoreUnavailableError. `docs/metadata-stores.md` lists the guarantees that a backend cannot give.
    """

    async def get(self, path: str) -> Record | None:
        """Return the value and stat of `path` from the store itself, not from a cache; None if the key does not
        exist.
        """
        ...

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        if_own: bool = False,
        guard: Guard | None = None,
    ) -> Stat:
        """Write `value` and return the new stat.

        `expected_version`: None writes unconditionally, MUST_NOT_EXIST creates, n ≥ 0 replaces version n.
        `ephemeral`: the key is deleted when this session ends. A key is ephemeral or persistent from its creation on.
        `sequential`: a number is appended to `path`. It is larger than every number that this store gave for the path
        before the call. The stat has the full path.
        `if_own`: a key that is replaced must have been created by this session. A version alone does not identify one
        life of a key.
        `guard`: is checked first.

        Raises:
            GuardError: the guard's key has another version.
            BadVersionError: the key has another version, or does not exist although n ≥ 0 was expected.
            OtherSessionError: `if_own`, and another session created the key.
            SessionLostError: the session that was current at the call has ended; nothing was written.
        """
        ...

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        """Delete `path`. With `if_own` only if this session created it. A `guard` is checked first.

        Raises:
            GuardError: the guard's key has another version.
            NotFoundError: the key does not exist, whatever version was expected.
            BadVersionError: the key has another version.
            OtherSessionError: `if_own`, and another session created the key.
            HasChildrenError: there are keys below it.
            SessionLostError: the session that was current at the call has ended; nothing was deleted.
        """
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names of the first-level children, sorted. A name counts if it is a key or if there is a key below
        it.
        """
        ...

    async def exists(self, path: str) -> bool:
        """Return whether `path` itself is a key."""
        ...

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        """Call `listener` for every change of the store, including this session's own. Return a function that removes
        it.
        """
        ...

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        """Call `listener` for every session event. Return a function that removes it.

        After RECONNECTED, notifications may have been missed: a listener that keeps state must read it again.
        """
        ...

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        """Add a function that makes a cache drop values before anybody can see that they are outdated. Return a
        function that removes it.

        `invalidate` is called with each notification before the listeners are, and with each own change before the
        caller continues. It is called with None (drop everything) before RECONNECTED and SESSION_REESTABLISHED are
        reported. It must not raise.
        """
        ...

    @property
    def session_is_overdue(self) -> bool:
        """Whether the session may have ended without a message: there is none, or the store has not answered for too
        long.

        It is True before the store may let others take this session's keys, even if SESSION_LOST is not reported yet.
        """
        ...

    async def close(self) -> None:
        """End the session. Its ephemeral keys are deleted at once. Idempotent."""
        ...


def check_path(path: str) -> None:
    """Check a path; raise InvalidPathError if it is not valid. Valid are "/", and a text that starts with "/", does not
    end with "/", has no NUL and can be encoded as UTF-8.
    """
    if path != "/" and (not path.startswith("/") or path.endswith("/") or "\0" in path):
        raise InvalidPathError(path)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidPathError(path) from error


def parent_path(path: str) -> str | None:
    """Return the path above `path`; None for a top-level path."""
    head, _, _ = path.rpartition("/")
    return head or None


def ancestors(path: str) -> list[str]:
    """Return the paths above `path`, nearest first, without the root."""
    above = []
    parent = parent_path(path)
    while parent is not None:
        above.append(parent)
        parent = parent_path(parent)
    return above


def notifications_of(change: Notification) -> list[Notification]:
    """Return all notifications that one change of a key causes. If a key is created or deleted, the children of its
    parent and of every higher ancestor change too.
    """
    if change.type not in (NotificationType.CREATED, NotificationType.DELETED):
        return [change]
    return [change, *(Notification(NotificationType.CHILDREN_CHANGED, above) for above in ancestors(change.path))]


@runtime_checkable
class ReadsAhead(Protocol):
    """A store that queues its requests, and that can read a key ahead of the queue."""

    async def get_ahead(self, path: str) -> Record | None:
        """See `MetadataStore.get`."""
        ...


async def get_ahead(store: MetadataStore, path: str) -> Record | None:
    """Read a key that decides whether this process may continue. Reads ahead of queued requests if the store can."""
    return await (store.get_ahead(path) if isinstance(store, ReadsAhead) else store.get(path))
