"""The metadata store as every broker sees it: versioned keys, ephemeral keys, notifications, a session.

One suite, `tests/contract/test_metadata_store.py`, states the guarantees and runs on every backend.
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
    """What the store knows of a key besides its value.

    `version` is 0 after creation and grows by one with each change; a key that was deleted and created
    again starts at 0, so a version alone is not a generation. Times are milliseconds since 1970. Of a lasting
    key some stores know its maker only in the answer to the put that made it; `created_by_self` is false then.
    """

    path: str
    version: int
    created_at_ms: int
    modified_at_ms: int
    ephemeral: bool
    created_by_self: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """What a write may depend on besides the key that it changes: that the key `path` is at `version` (≥ 0).

    Whether it is, and the write, are one step of the store; Oxia's looks one request earlier, and holds the write
    itself against the session.
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
    """The only sequences are CONNECTION_LOST, RECONNECTED and
    CONNECTION_LOST, SESSION_LOST, RECONNECTED, SESSION_REESTABLISHED."""

    CONNECTION_LOST = "connection_lost"
    RECONNECTED = "reconnected"
    SESSION_LOST = "session_lost"
    SESSION_REESTABLISHED = "session_reestablished"


CONNECTED_EVENTS: Final = frozenset({SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED})
"""What tells that the store can be asked again, and that notifications may have been missed."""


class MetadataStore(Protocol):
    """A session with a metadata store.

    All methods run on the event loop that opened the store, and listeners are called on it, in the
    order of the changes. Every operation on a closed store raises StoreClosedError; one whose outcome is
    unknown raises StoreUnavailableError. What a store cannot keep of this is in `docs/metadata-stores.md`.
    """

    async def get(self, path: str) -> Record | None:
        """Return the value and stat of `path` from the store itself, or None if it is absent."""
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

        `expected_version` None writes unconditionally, MUST_NOT_EXIST creates, n ≥ 0 replaces version n.
        An ephemeral key vanishes with this session; the kind is fixed at creation. A sequential put
        appends a number to `path`, larger than every one that was given there, in this store's life,
        before it was called; the stat carries the real path. `if_own` demands besides that a key which is
        replaced was created by this very session, for a version alone does not tell one life of a key from
        the next. A `guard` is asked first.

        Raises:
            GuardError: the guard does not hold.
            BadVersionError: the expectation did not hold (also for n ≥ 0 and an absent key).
            OtherSessionError: `if_own`, and another session created the key.
            SessionLostError: the session that was current at the call has ended; nothing was written.
        """
        ...

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        """Delete `path`; with `if_own` only if this very session created it. A `guard` is asked first.

        Raises:
            GuardError: the guard does not hold.
            NotFoundError: it is absent, whatever version was expected.
            BadVersionError: it has another version.
            OtherSessionError: `if_own`, and another session created it.
            HasChildrenError: keys exist below it.
            SessionLostError: the session that was current at the call has ended; nothing was deleted.
        """
        ...

    async def children(self, path: str) -> list[str]:
        """Return the names of the first-level children, sorted; a name counts if any key lies below it."""
        ...

    async def exists(self, path: str) -> bool:
        """Tell whether `path` itself is a key."""
        ...

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        """Call `listener` for every change of the store, own changes included; return the way to stop."""
        ...

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        """Call `listener` for every session event; return the way to stop.

        After RECONNECTED notifications may have been missed: whoever keeps state reads it again.
        """
        ...

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        """Tell a cache what it must no longer answer from memory, before anyone else hears of it.

        `invalidate` is called with each notification before the listeners are, with each own change before
        its caller goes on, and with None (drop everything) before RECONNECTED and SESSION_REESTABLISHED
        are told. It must not raise. Return the way to stop.
        """
        ...

    @property
    def session_is_overdue(self) -> bool:
        """Whether the session may have ended without a word: there is none, or the store has not answered for so long.

        True no later than the store may let others take this session's keys, also if SESSION_LOST is still to be told.
        """
        ...

    async def close(self) -> None:
        """End the session: its ephemeral keys vanish at once. Idempotent."""
        ...


def check_path(path: str) -> None:
    """Raise InvalidPathError unless `path` is "/" or starts with "/", does not end with it, and is text
    without NUL that UTF-8 can say."""
    if path != "/" and (not path.startswith("/") or path.endswith("/") or "\0" in path):
        raise InvalidPathError(path)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidPathError(path) from error


def parent_path(path: str) -> str | None:
    """Return the path above `path`; a top-level path has none."""
    head, _, _ = path.rpartition("/")
    return head or None


def ancestors(path: str) -> list[str]:
    """Return the paths above `path`, the nearest first, without the root."""
    above = []
    parent = parent_path(path)
    while parent is not None:
        above.append(parent)
        parent = parent_path(parent)
    return above


def notifications_of(change: Notification) -> list[Notification]:
    """Return all that one change of a key has listeners told: a key that comes or goes changes the
    children of its parent and of every higher ancestor."""
    if change.type not in (NotificationType.CREATED, NotificationType.DELETED):
        return [change]
    return [change, *(Notification(NotificationType.CHILDREN_CHANGED, above) for above in ancestors(change.path))]


@runtime_checkable
class ReadsAhead(Protocol):
    """A store whose requests wait their turn, and that can read a key ahead of them."""

    async def get_ahead(self, path: str) -> Record | None:
        """See `MetadataStore.get`."""
        ...


async def get_ahead(store: MetadataStore, path: str) -> Record | None:
    """Read a key on which it depends whether this process may go on: ahead of what waits, where the store can."""
    return await (store.get_ahead(path) if isinstance(store, ReadsAhead) else store.get(path))
