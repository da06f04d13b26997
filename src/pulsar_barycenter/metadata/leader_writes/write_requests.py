"""The requests of a broker to the leader, and the leader's answers, as JSON.

Limits: a path has at most MAX_PATH_CHARACTERS; a value in a request MAX_VALUE_BYTES, and is compressed if it is larger;
a value before compression MAX_INFLATED_BYTES; a lease MAX_LEASE_MS. A session id has 32 hexadecimal digits. A request
outside of these limits is invalid.
"""

import zlib
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from pulsar_barycenter.config.broker_conf import MAX_LEASED_SESSION_MS
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

MAX_PATH_CHARACTERS: Final = 4_000
MAX_VALUE_BYTES: Final = 600_000
"""The maximum size in bytes of a value in a request to the leader, after compression."""
MAX_INFLATED_BYTES: Final = 8 << 20
"""The maximum size in bytes of a value before compression. It suffices for a load report of 30,000 bundles."""
MAX_FORMER_SESSIONS: Final = 8
MAX_LEASE_MS: Final = MAX_LEASED_SESSION_MS // 2

SessionId: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
Path: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_PATH_CHARACTERS)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH)]
LeaseMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_LEASE_MS)]
Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=MAX_EPOCH)]


class GuardedBy(msgspec.Struct, frozen=True):
    path: Path
    version: Number


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Request: open a session for the broker `broker_id`. `former` are ended sessions of this broker, which it does not
    use any more.

    `lease_ms` is the lease time: for so many milliseconds after a read that found no mark in the session's record, the
    broker relies on the session. 0: the leader's lease time is used.
    """

    broker_id: Annotated[str, msgspec.Meta(max_length=300)]
    former: Annotated[tuple[SessionId, ...], msgspec.Meta(max_length=MAX_FORMER_SESSIONS)] = ()
    lease_ms: LeaseMs = 0


class Live(msgspec.Struct, frozen=True, tag="live"):
    """Request: a heartbeat. It shows that the session's broker is alive."""


class Close(msgspec.Struct, frozen=True, tag="close"):
    """Request: end the session, because its broker does not use it any more."""


class Put(msgspec.Struct, frozen=True, tag="put", omit_defaults=True):
    """Request: write a key. The fields have the same meaning as the arguments of `MetadataStore.put`."""

    path: Path
    value: bytes
    expected_version: Version | None = None
    ephemeral: bool = False
    sequential: bool = False
    if_own: bool = False
    guard: GuardedBy | None = None


class DeflatedPut(Put, frozen=True, tag="put deflated", omit_defaults=True):
    """Request: write a key. As `Put`, but `value` is compressed by zlib, and the leader stores the original value."""


class Delete(msgspec.Struct, frozen=True, tag="delete", omit_defaults=True):
    """Request: delete a key. The fields have the same meaning as the arguments of `MetadataStore.delete`."""

    path: Path
    expected_version: Version | None = None
    if_own: bool = False
    guard: GuardedBy | None = None


Change: TypeAlias = Open | Live | Close | Put | DeflatedPut | Delete


class Request(msgspec.Struct, frozen=True):
    """A request from a broker to the leader. It is executed only if the leader has the epoch `epoch`.

    The broker numbers the requests of a session from 1. It does not wait any more for the answer to a request with a
    number below `over_below`; if such a request arrives late, it is not executed.
    """

    secret: Annotated[str, msgspec.Meta(max_length=100)]
    epoch: Number
    session: SessionId
    number: Number
    over_below: Number
    change: Change


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Answer: the request was executed. `stat` is the stat of the key after a put; None for other requests."""

    stat: Stat | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Answer: the request failed. `kind` is the kind of the error. "not done" means that nothing was written, and that
    the broker may send the request again, to this or another leader.
    """

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
    """Convert `error` to the answer that the leader sends to the broker. There, `error_of` converts the answer to an
    error of the same type.
    """
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
    """Convert the leader's answer to the error that the broker raises."""
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
    """Return `put`, or, if its value is too large for a request, the same put with a compressed value.

    Raises:
        ValueTooLargeError: the value is too large even if it is compressed.
    """
    size = len(put.value)
    if size <= MAX_VALUE_BYTES:
        return put
    deflated = zlib.compress(put.value, 1) if size <= MAX_INFLATED_BYTES else b""
    if not 0 < len(deflated) <= MAX_VALUE_BYTES:
        limit = (
            f"in a request to the leader a value has up to {MAX_VALUE_BYTES:,} bytes after compression,"
            f" and up to {MAX_INFLATED_BYTES:,} bytes before"
        )
        raise ValueTooLargeError(put.path, size, limit)
    return DeflatedPut(put.path, deflated, put.expected_version, put.ephemeral, put.sequential, put.if_own, put.guard)


def inflated(put: DeflatedPut) -> Put:
    """Return the put with its original value, which `put` has in compressed form.

    Raises:
        InvalidValueError: the value is not compressed by zlib, or is larger than MAX_INFLATED_BYTES after
            decompression.
    """
    inflating = zlib.decompressobj()
    try:
        value = inflating.decompress(put.value, MAX_INFLATED_BYTES)
    except zlib.error:
        raise InvalidValueError(put.path, "the value is not valid zlib data") from None
    if not inflating.eof:
        raise InvalidValueError(
            put.path, f"the compressed value is truncated, or has more than {MAX_INFLATED_BYTES:,} bytes uncompressed"
        )
    return Put(put.path, value, put.expected_version, put.ephemeral, put.sequential, put.if_own, put.guard)
