"""The interface of a metadata store: versioned keys, ephemeral keys, notifications, a session.

The tests in `tests/contract/test_metadata_store.py` check the guarantees for every kind of store.

Source: Pulsar's `MetadataStore` and `MetadataStoreExtended`.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from pulsar_barycenter.metadata.errors import InvalidPathError

MUST_NOT_EXIST: Final = -1
"""The `expected_version` of a put that must create its key, and fails if the key exists."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The version, times and creator of a key.

    `version` is 0 after creation and grows by one with each change. A key that is deleted and created again starts at
    0, so an equal version does not prove that the key is still the same. Times are milliseconds since 1970. Some stores
    know who created a persistent key only in the answer to the put that created it. In all later answers of these
    stores `created_by_self` is False for such a key.
    """

    path: str
    version: int
    created_at_ms: int
    modified_at_ms: int
    ephemeral: bool
    created_by_self: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of a write that concerns another key: the key at `path` has `version` (≥ 0).

    The store checks the condition and writes in one step. Oxia cannot do that: there the condition is checked by a
    request before the write.
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
    """A change of the client's session with the store.

    The only sequences are CONNECTION_LOST, RECONNECTED; and CONNECTION_LOST, SESSION_LOST, RECONNECTED,
    SESSION_REESTABLISHED.
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
        `ephemeral`: the key is deleted when this session ends. An update does not change whether a key is ephemeral.
        `sequential`: a number is appended to `path`. The number is larger than all numbers that the store appended to
        this path before the call. The stat has the full path. `if_own`: a key that is replaced must have been created
        by this session. (An equal version does not prove that: versions start at 0 again when a key is created again.)
        `guard`: another key that must have a certain version; it is checked first.

        Raises:
            GuardError: the guard's key has another version.
            BadVersionError: the key has another version, exists although MUST_NOT_EXIST was expected, or does not exist
                although n ≥ 0 was expected.
            OtherSessionError: `if_own`, and another session created the key.
            SessionLostError: the session that was current at the call has ended; nothing was written.
        """
        ...

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        """Delete the key at `path`. With `if_own`: only if this session created it. `guard`: another key that must have
        a certain version; it is checked first.

        Raises:
            GuardError: the guard's key has another version.
            NotFoundError: the key does not exist, whatever version was expected.
            BadVersionError: the key has another version.
            OtherSessionError: `if_own`, and another session created the key.
            HasChildrenError: there are keys below `path`.
            SessionLostError: the session that was current at the call has ended; nothing was deleted.
        """
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names of the children of `path`, sorted: the names directly below it that are keys or have keys
        below them. The list is empty if there are none, also if `path` is not a key.
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
        """Register a function that makes a cache drop outdated values. Return a function that removes it again.

        `invalidate` is called with each notification before the listeners are, and with each change by this session
        before the caller of the change continues. It is called with None (drop everything) before RECONNECTED and
        SESSION_REESTABLISHED are reported. It must not raise.
        """
        ...

    @property
    def session_is_overdue(self) -> bool:
        """Whether the session may have ended without notice: there is no session, or the store has not answered for too
        long.

        The store may give this session's keys to others only after this has become True, even if SESSION_LOST is not
        reported yet.
        """
        ...

    async def close(self) -> None:
        """End the session. Its ephemeral keys are deleted at once, or, if the store does not answer, when the session
        expires. Idempotent.
        """
        ...


def check_path(path: str) -> None:
    """Check that a path is valid: it is "/", or starts with "/", does not end with "/", has no NUL and can be encoded
    as UTF-8.

    Raises:
        InvalidPathError: the path is not valid.
    """
    if path != "/" and (not path.startswith("/") or path.endswith("/") or "\0" in path):
        raise InvalidPathError(path)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidPathError(path) from error


def parent_path(path: str) -> str | None:
    """Return the path above `path`; None for a path directly below the root, and for the root itself."""
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
    """Return all notifications that a change of one key causes.

    If a key is created or deleted, the lists of children of its parent and of every higher ancestor change too.
    """
    if change.type not in (NotificationType.CREATED, NotificationType.DELETED):
        return [change]
    return [change, *(Notification(NotificationType.CHILDREN_CHANGED, above) for above in ancestors(change.path))]


@runtime_checkable
class ReadsAhead(Protocol):
    """A metadata store that queues its requests, and that can read a key without waiting in the queue."""

    async def get_ahead(self, path: str) -> Record | None:
        """Return the value and stat of `path`, as `MetadataStore.get` does, without waiting for requests that are
        queued.
        """
        ...


async def get_ahead(store: MetadataStore, path: str) -> Record | None:
    """Return the value and stat of `path`; None if the key does not exist. If the store can, do not wait for requests
    that are queued. This is for keys whose value decides whether this process may continue.
    """
    return await (store.get_ahead(path) if isinstance(store, ReadsAhead) else store.get(path))
