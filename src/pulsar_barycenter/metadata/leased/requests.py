"""What a broker asks of the leader, and what the leader answers, as JSON.

Bounds: a path has at most LONGEST_PATH characters, a value MOST_BYTES, deflated if it has more, and MOST_INFLATED
before that, a lease LONGEST_LEASE_MS, a session's id is 32 hexadecimal digits. What is outside of them is no request.
"""

import zlib
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from pulsar_barycenter.config.broker_conf import LONGEST_LEASED_SESSION_MS
from pulsar_barycenter.metadata.coordination.epochs import MAX_EPOCH
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    GuardError,
    HasChildrenError,
    InvalidPathError,
    InvalidValueError,
    MetadataError,
    NotFoundError,
    NotLeadingError,
    OtherSessionError,
    SessionLostError,
    StoreRefusedError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.store import Guard, Stat

LONGEST_PATH: Final = 4_000
MOST_BYTES: Final = 600_000
"""Of a value: so much fits into a request of the admin REST."""
MOST_INFLATED: Final = 8 << 20
"""Bytes of a value that is deflated on its way: a load report of 30,000 bundles."""
MOST_FORMER: Final = 8
LONGEST_LEASE_MS: Final = LONGEST_LEASED_SESSION_MS // 2

SessionId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
Path: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_PATH)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH)]
LeaseMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_LEASE_MS)]
Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=MAX_EPOCH)]


class GuardedBy(msgspec.Struct, frozen=True):
    path: Path
    version: Number


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Begin the session; whoever asks does nothing any more by those of `former`, which are over.

    `lease_ms` is how long after a read that found no mark the broker may rely on its session; 0: as long as the leader.
    """

    broker_id: Annotated[str, msgspec.Meta(max_length=300)]
    former: Annotated[tuple[SessionId, ...], msgspec.Meta(max_length=MOST_FORMER)] = ()
    lease_ms: LeaseMs = 0


class Live(msgspec.Struct, frozen=True, tag="live"):
    """The broker of the session lives."""


class Close(msgspec.Struct, frozen=True, tag="close"):
    """The session is over: its broker does nothing any more by it."""


class Put(msgspec.Struct, frozen=True, tag="put", omit_defaults=True):
    """See `MetadataStore.put`."""

    path: Path
    value: bytes
    expected_version: Version | None = None
    ephemeral: bool = False
    sequential: bool = False
    if_own: bool = False
    guard: GuardedBy | None = None


class DeflatedPut(Put, frozen=True, tag="put deflated", omit_defaults=True):
    """A put whose `value` is deflated (zlib)."""


class Delete(msgspec.Struct, frozen=True, tag="delete", omit_defaults=True):
    """See `MetadataStore.delete`."""

    path: Path
    expected_version: Version | None = None
    if_own: bool = False
    guard: GuardedBy | None = None


Change: TypeAlias = Open | Live | Close | Put | DeflatedPut | Delete


class Request(msgspec.Struct, frozen=True):
    """`epoch` is that of the leader who is asked. Requests of a session are numbered from 1; of those below
    `over_below` nobody waits for the answer, and what comes late is not done any more."""

    secret: Annotated[str, msgspec.Meta(max_length=100)]
    epoch: Number
    session: SessionId
    number: Number
    over_below: Number
    change: Change


class Done(msgspec.Struct, frozen=True, tag="done"):
    """`stat` is that of a put."""

    stat: Stat | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Of `not done` it is certain that nothing was written: ask again, perhaps another broker."""

    kind: Literal[
        "not done",
        "unknown",
        "session lost",
        "guard",
        "version",
        "other session",
        "not found",
        "has children",
        "refused",
        "path",
        "invalid",
    ]
    path: str
    detail: str
    expected: int | None = None
    actual: int | None = None


Answer: TypeAlias = Done | Failed

request_decoder: Final = msgspec.json.Decoder(Request)
answer_decoder: Final[msgspec.json.Decoder[Answer]] = msgspec.json.Decoder(Answer)
encode: Final = msgspec.json.encode


def guard_of(guard: Guard | None) -> GuardedBy | None:
    return None if guard is None else GuardedBy(guard.path, guard.version)


def not_done(path: str, why: str) -> Failed:
    return Failed("not done", path, why)


def failed(error: MetadataError) -> Failed:
    """Return the answer that tells of an error; `error_of` makes it again on the other side."""
    match error:
        case GuardError():
            return Failed("guard", error.path, error.detail, error.expected, error.actual)
        case OtherSessionError():
            return Failed("other session", error.path, error.detail, error.expected, error.actual)
        case BadVersionError():
            return Failed("version", error.path, error.detail, error.expected, error.actual)
        case NotFoundError():
            return Failed("not found", error.path, error.detail)
        case HasChildrenError():
            return Failed("has children", error.path, error.detail)
        case SessionLostError():
            return Failed("session lost", error.path, error.detail)
        case InvalidPathError():
            return Failed("path", error.path, error.detail)
        case InvalidValueError():
            return Failed("invalid", error.path, error.detail)
        case StoreRefusedError():
            return Failed("refused", error.path, error.detail)
        case _:
            return Failed("unknown", error.path, error.detail)


def error_of(answer: Failed) -> MetadataError:
    path, detail = answer.path, answer.detail
    match answer.kind:
        case "not done":
            return NotLeadingError(path, detail)
        case "session lost":
            return SessionLostError(path, detail)
        case "guard":
            return GuardError(path, answer.expected, answer.actual)
        case "other session":
            return OtherSessionError(path, answer.expected, answer.actual or 0)
        case "version":
            return BadVersionError(path, answer.expected, answer.actual)
        case "not found":
            return NotFoundError(path)
        case "has children":
            return HasChildrenError(path)
        case "path":
            return InvalidPathError(path)
        case "invalid":
            return InvalidValueError(path, detail)
        case "refused":
            return StoreRefusedError(path, detail)
        case "unknown":
            return StoreUnavailableError(path, detail)


def fitted(put: Put) -> Put:
    """Return a put as it goes into a request.

    Raises:
        ValueTooLargeError: it does not fit into one.
    """
    size = len(put.value)
    if size <= MOST_BYTES:
        return put
    deflated = zlib.compress(put.value, 1) if size <= MOST_INFLATED else b""
    if not 0 < len(deflated) <= MOST_BYTES:
        limit = f"{MOST_BYTES:,} bytes pass to the leader, deflated if there are more, and {MOST_INFLATED:,} of these"
        raise ValueTooLargeError(put.path, size, limit)
    return DeflatedPut(put.path, deflated, put.expected_version, put.ephemeral, put.sequential, put.if_own, put.guard)


def inflated(put: DeflatedPut) -> Put:
    """Return the put as it was.

    Raises:
        InvalidValueError: its value is not deflated, or larger than MOST_INFLATED.
    """
    inflating = zlib.decompressobj()
    try:
        value = inflating.decompress(put.value, MOST_INFLATED)
    except zlib.error:
        raise InvalidValueError(put.path, "a value that is not deflated as it says") from None
    if not inflating.eof:
        raise InvalidValueError(put.path, f"a value that is cut short, or has more than {MOST_INFLATED:,} bytes")
    return Put(put.path, value, put.expected_version, put.ephemeral, put.sequential, put.if_own, put.guard)
