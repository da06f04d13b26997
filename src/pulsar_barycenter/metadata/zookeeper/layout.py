"""How the keys of a metadata store are stored as nodes of ZooKeeper: paths, kinds of nodes, limits, and errors.

A key is a node of the same path below the chroot, with the value as its data. A persistent key is a persistent node, an
ephemeral key an ephemeral node. A path above a key that is not a key itself is a persistent node without data that was
never written. ZooKeeper cannot distinguish such a node from a persistent key with an empty value. So a persistent key
with an empty value counts as a key only as long as no key was ever below it.

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
"""The maximum size in bytes of a request that a ZooKeeper server reads (the default of jute.maxbuffer)."""

_REQUEST_OVERHEAD_BYTES: Final = 256
_NUMBER_DIGITS: Final = 10
_OWN: Final = "/zookeeper"
"""ZooKeeper's own nodes. They are among the store's nodes if there is no chroot."""


def check_node_path(path: str) -> None:
    """Check that ZooKeeper can have a node of this path.

    Raises:
        InvalidPathError: ZooKeeper allows no such path.
    """
    check_path(path)
    if path != "/" and any(name in ("", ".", "..") for name in path[1:].split("/")):
        raise InvalidPathError(path)


def check_size(path: str, value: bytes) -> None:
    """Check that the path and the value of a key fit into one request to ZooKeeper.

    Raises:
        ValueTooLargeError: path and value do not fit into one request.
    """
    limit = MAX_REQUEST_BYTES - _REQUEST_OVERHEAD_BYTES - len(path.encode())
    if len(value) > limit:
        raise ValueTooLargeError(path, len(value), f"ZooKeeper accepts at most {limit} bytes at this path")


def node_of(root: str, path: str) -> str:
    """Return the path of the node that stores the key at `path`. `root` is the chroot without a slash at its end."""
    return f"{root}{path}" if path != "/" else root or "/"


def key_of(root: str, node: str) -> str | None:
    """Return the path of the key that a node stores; None for the root and for ZooKeeper's own nodes."""
    path = node.removeprefix(root)
    if not path or path == "/" or path == _OWN or path.startswith(f"{_OWN}/"):
        return None
    return path


def is_parent_only(stat: Any) -> bool:
    """Return whether a node exists only because there are, or were, keys below it."""
    return bool(stat.version == 0 and stat.cversion > 0 and not stat.dataLength and not stat.ephemeralOwner)


def is_numbered(path: str) -> bool:
    """Return whether a path ends like a sequential key of ZooKeeper. The parent node of such keys counts them, so it
    must not be deleted.
    """
    return path[-_NUMBER_DIGITS:].isdecimal() and len(path) > _NUMBER_DIGITS


def stat_of(path: str, stat: Any, session: int | None, *, created_now: bool = False) -> Stat:
    """Return the Stat of the key that a node stores. ZooKeeper knows the creator of ephemeral nodes only.
    `created_now`: this session has just created a persistent node.
    """
    ephemeral = bool(stat.ephemeralOwner)
    by_self = stat.ephemeralOwner == session if ephemeral else created_now
    return Stat(path, stat.version, stat.ctime, stat.mtime, ephemeral, by_self)


def refusal_of(path: str, error: Exception) -> MetadataError:
    """Return the store's error for an error of ZooKeeper that does not concern the version of a key."""
    if isinstance(error, SessionExpiredError):
        return SessionLostError(path, "the session has ended; ZooKeeper did not execute the request")
    if isinstance(error, NotEmptyError):
        return HasChildrenError(path)
    if isinstance(error, BadArgumentsError):
        return InvalidPathError(path)
    if isinstance(error, NoChildrenForEphemeralsError):
        return MetadataError(
            path, "a key above this path is ephemeral, and ZooKeeper does not allow keys below an ephemeral key"
        )
    if isinstance(error, NoAuthError):
        return MetadataError(
            path,
            "ZooKeeper's ACLs do not allow the operation; check user and password in the file of "
            "metadataStoreConfigPath",
        )
    if isinstance(error, QuotaExceededError):
        return MetadataError(path, "a quota of ZooKeeper does not allow the operation; raise or remove the quota")
    if isinstance(error, UnimplementedError):
        return MetadataError(path, "the server does not support recursive watches: ZooKeeper 3.6 or newer is needed")
    return StoreUnavailableError(
        path, f"ZooKeeper did not answer ({type(error).__name__}): it is unknown whether it executed the request"
    )
