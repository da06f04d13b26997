"""What a node of ZooKeeper says of a key: paths, kinds of nodes, limits, and the words for refusals.

A key is a node of the same path below the chroot, with the value as its data. A lasting key is a persistent node, an
ephemeral one an ephemeral node. What lies above a key and is no key itself is a persistent node without data that was
never written to since. ZooKeeper does not tell such a node from a lasting key with an empty value, so that one
is a key only as long as nothing lies, or lay, below it.

Source: Pulsar's `ZKMetadataStore`.
"""

from typing import Any, Final

from kazoo.exceptions import (
    BadArgumentsError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NotEmptyError,
    QuotaExceededError,
    SessionExpiredError,
    UnimplementedError,
)

from pulsar_barycenter.metadata.errors import (
    HasChildrenError,
    InvalidPathError,
    MetadataError,
    SessionLostError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.store import Stat, check_path

MAX_REQUEST_BYTES: Final = 0xFFFFF
"""What a server reads of one request (its jute.maxbuffer, if nobody changed that)."""

_ROOM_FOR_REST: Final = 256
_NUMBER_DIGITS: Final = 10
_OWN: Final = "/zookeeper"
"""What ZooKeeper keeps for itself where there is no chroot."""


def check_node_path(path: str) -> None:
    """Raise InvalidPathError unless ZooKeeper can have a node of this path."""
    check_path(path)
    if path != "/" and any(name in ("", ".", "..") for name in path[1:].split("/")):
        raise InvalidPathError(path)


def check_size(path: str, value: bytes) -> None:
    """Raise ValueTooLargeError if path and value are more than a server reads of one request."""
    limit = MAX_REQUEST_BYTES - _ROOM_FOR_REST - len(path.encode())
    if len(value) > limit:
        raise ValueTooLargeError(path, len(value), f"ZooKeeper takes {limit} here")


def node_of(root: str, path: str) -> str:
    """Return the node of a key, `root` being the chroot without a slash at its end."""
    return f"{root}{path}" if path != "/" else root or "/"


def key_of(root: str, node: str) -> str | None:
    """Return the key of a node, or None for what is not a key: the root, and ZooKeeper's own."""
    path = node.removeprefix(root)
    if not path or path == "/" or path == _OWN or path.startswith(f"{_OWN}/"):
        return None
    return path


def is_mere_parent(stat: Any) -> bool:
    """Whether a node is there only for what lies, or lay, below it."""
    return bool(stat.version == 0 and stat.cversion > 0 and not stat.dataLength and not stat.ephemeralOwner)


def is_numbered(path: str) -> bool:
    """Whether a path ends as ZooKeeper has sequential keys end; the node above counts them, and must stay."""
    return path[-_NUMBER_DIGITS:].isdecimal() and len(path) > _NUMBER_DIGITS


def stat_of(path: str, stat: Any, session: int | None, *, created_now: bool = False) -> Stat:
    """Return the Stat of a node. ZooKeeper knows the makers of ephemeral keys only; of a lasting one only `created_now`
    tells that it is this session's."""
    ephemeral = bool(stat.ephemeralOwner)
    by_self = stat.ephemeralOwner == session if ephemeral else created_now
    return Stat(path, stat.version, stat.ctime, stat.mtime, ephemeral, by_self)


def refusal_of(path: str, error: Exception) -> MetadataError:
    """Return what a request failed with in the store's own words, for what no version rule explains."""
    if isinstance(error, SessionExpiredError):
        return SessionLostError(path, "the session has ended; ZooKeeper did nothing")
    if isinstance(error, NotEmptyError):
        return HasChildrenError(path)
    if isinstance(error, BadArgumentsError):
        return InvalidPathError(path)
    if isinstance(error, NoChildrenForEphemeralsError):
        return MetadataError(path, "a key above it is ephemeral, and ZooKeeper lets nothing lie below such a one")
    if isinstance(error, NoAuthError):
        return MetadataError(
            path, "ZooKeeper's access lists do not allow it; see user and password in metadataStoreConfigPath"
        )
    if isinstance(error, QuotaExceededError):
        return MetadataError(path, "a quota of ZooKeeper does not allow it")
    if isinstance(error, UnimplementedError):
        return MetadataError(path, "the server knows no recursive watches: ZooKeeper 3.6 or newer is needed")
    return StoreUnavailableError(
        path, f"ZooKeeper did not answer ({type(error).__name__}): whether it acted is unknown"
    )
