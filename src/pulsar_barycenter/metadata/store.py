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

    `version` is 0 after the key was created, and grows by one with each change. If a key is deleted and created again,
    its version begins at 0 again, so an equal version does not prove that the key was not replaced. Times are in ms
    since 1970. `created_by_self` is True if the session that reads has created the key. Some stores do not store the
    creator of a persistent key: there, it is True only in the answer to the put that created the key, and False in
    later reads.
    """

    path: str
    version: int
    created_at_ms: int
    modified_at_ms: int
    ephemeral: bool
    created_by_self: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of a write that concerns another key than the one that is written: the key at `path` has the version
    `version` (≥ 0).

    The store checks the condition and writes in one step. Oxia is the exception: there, the client reads the other key
    before it writes.
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
    """A change in the state of the client's session with the store.

    Events occur in two sequences only. A short loss of the connection: CONNECTION_LOST, RECONNECTED. The loss of the
    session, which another session replaces: CONNECTION_LOST, SESSION_LOST, RECONNECTED, SESSION_REESTABLISHED.
    """

    CONNECTION_LOST = "connection_lost"
    RECONNECTED = "reconnected"
    SESSION_LOST = "session_lost"
    SESSION_REESTABLISHED = "session_reestablished"


CONNECTED_EVENTS: Final = frozenset({SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED})
"""The events after which the store answers again, and after which notifications may have been missed."""


class MetadataStore(Protocol):
    """A session with a metadata store.

    All methods are called on the event loop on which the store was opened. Listeners are called on this event loop, in
    the order of the changes. After `close`, every operation raises StoreClosedError. If it is unknown whether an
    operation was executed, it raises StoreUnavailableError. `docs/metadata-stores.md` lists the guarantees that some
    kinds of stores cannot give.
    """

    async def get(self, path: str) -> Record | None:
        """Return the value and stat of the key `path`, as they are in the store (not from a cache); None if the key
        does not exist.
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
        """Write `value` to the key `path`, and return the key's new stat.

        `expected_version`: None creates the key or replaces any version, MUST_NOT_EXIST only creates it, n ≥ 0 only
        replaces the version n. `ephemeral`: if the key is created, it is deleted when this session ends. Replacing the
        value does not change whether a key is ephemeral.
        `sequential`: a number is appended to `path`, and the key with this longer path is created. The number is larger
        than all numbers that the store has appended to `path` before. The stat has the key's path. `if_own`: only
        replace a key that this session has created. (An equal version does not prove that: versions begin at 0 again
        when a key is created again.)
        `guard`: only write if another key has a certain version; this is checked first.

        Raises:
            GuardError: the guard's key has another version, or does not exist.
            BadVersionError: the key has another version, exists although MUST_NOT_EXIST was expected, or does not exist
                although n ≥ 0 was expected.
            OtherSessionError: `if_own` is True, and another session created the key.
            SessionLostError: the session that was current at the call has ended; nothing was written.
        """
        ...

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        """Delete the key `path`. `expected_version`: only if the key has this version; None: any. `if_own`: only if
        this session created the key. `guard`: only if another key has a certain version; this is checked first.

        Raises:
            GuardError: the guard's key has another version, or does not exist.
            NotFoundError: the key does not exist, whatever version was expected.
            BadVersionError: the key has another version.
            OtherSessionError: `if_own` is True, and another session created the key.
            HasChildrenError: there are keys below `path`.
            SessionLostError: the session that was current at the call has ended; nothing was deleted.
        """
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names that follow `path` in the paths of keys below it, sorted, each once: if the only key is
        `/a/b/c`, then `b` is the only child of `/a`. The list is empty if there are none. `path` need not be a key.
        """
        ...

    async def exists(self, path: str) -> bool:
        """Return whether `path` itself is a key."""
        ...

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        """From now on, call `listener` for every change of a key, including the changes that this session makes. Return
        a function that removes the listener.
        """
        ...

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        """From now on, call `listener` for every session event. Return a function that removes the listener.

        Before RECONNECTED, notifications may have been missed. So a listener that keeps values of keys has to read them
        again then.
        """
        ...

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        """From now on, call `invalidate` when values in a cache become outdated. Return a function that ends this.

        `invalidate` is called with each notification, before the listeners are called. For a change that this session
        makes, it is called before the caller of `put` or `delete` continues. Before RECONNECTED and
        SESSION_REESTABLISHED are reported, it is called with None: the cache then drops all values. It must not raise
        an exception.
        """
        ...

    @property
    def session_is_overdue(self) -> bool:
        """True if the store may have ended the session without a report to this client: the client has no session, or
        the store has not answered for too long.

        Other sessions can create this session's ephemeral keys again only after this has become True. It may be True
        before SESSION_LOST is reported.
        """
        ...

    async def close(self) -> None:
        """End the session. Its ephemeral keys are deleted at once; if the store does not answer, they are deleted when
        the session expires. Idempotent.
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
    """Return the path above `path`: `/a` for `/a/b`. None if that is the root, or if `path` is the root."""
    head, _, _ = path.rpartition("/")
    return head or None


def ancestors(path: str) -> list[str]:
    """Return the paths above `path`, nearest first, without the root: `/a/b` and `/a` for `/a/b/c`."""
    above = []
    parent = parent_path(path)
    while parent is not None:
        above.append(parent)
        parent = parent_path(parent)
    return above


def notifications_of(change: Notification) -> list[Notification]:
    """Return all notifications that follow from `change`, the change of one key: `change` itself, and, if the key was
    created or deleted, CHILDREN_CHANGED for each path above it except the root.
    """
    if change.type not in (NotificationType.CREATED, NotificationType.DELETED):
        return [change]
    return [change, *(Notification(NotificationType.CHILDREN_CHANGED, above) for above in ancestors(change.path))]


@runtime_checkable
class ReadsAhead(Protocol):
    """A metadata store that can read a key without waiting for its other requests. (Its normal requests wait if too
    many of them are running.)
    """

    async def get_ahead(self, path: str) -> Record | None:
        """Return the value and stat of the key `path`, as `MetadataStore.get` does, but without waiting for other
        requests of this client.
        """
        ...


async def get_ahead(store: MetadataStore, path: str) -> Record | None:
    """Return the value and stat of the key `path`; None if the key does not exist. If `store` can do so, do not wait
    for other requests of this client. Used for keys whose value decides whether this process can continue to rely on
    its session.
    """
    return await (store.get_ahead(path) if isinstance(store, ReadsAhead) else store.get(path))
