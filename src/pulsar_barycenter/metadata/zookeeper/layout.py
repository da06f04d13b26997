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
    """Check that ZooKeeper allows a node with the path `path`.

    Raises:
        InvalidPathError: ZooKeeper does not allow it.
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
        raise ValueTooLargeError(
            path, len(value), f"for a key with this path, the maximum in ZooKeeper is {limit} bytes"
        )


def node_of(root: str, path: str) -> str:
    """Return the path of the node in ZooKeeper that stores the key `path`. `root` is the chroot, without a slash at its
    end; "" for none.
    """
    return f"{root}{path}" if path != "/" else root or "/"


def key_of(root: str, node: str) -> str | None:
    """Return the path of the key that the ZooKeeper node `node` stores. `root` is the chroot. None if it stores no key,
    because it is the root or one of ZooKeeper's own nodes.
    """
    path = node.removeprefix(root)
    if not path or path == "/" or path == _OWN or path.startswith(f"{_OWN}/"):
        return None
    return path


def is_parent_only(stat: Any) -> bool:
    """Return True if a node is not a key of the metadata store: it was created only as the parent of other nodes, and
    has no value. `stat` is ZooKeeper's stat of the node.
    """
    return bool(stat.version == 0 and stat.cversion > 0 and not stat.dataLength and not stat.ephemeralOwner)


def is_numbered(path: str) -> bool:
    """Return True if `path` ends with ten digits, as a sequential key does. ZooKeeper counts the numbers of sequential
    nodes in their parent node, so that node must not be deleted.
    """
    return path[-_NUMBER_DIGITS:].isdecimal() and len(path) > _NUMBER_DIGITS


def stat_of(path: str, stat: Any, session: int | None, *, created_now: bool = False) -> Stat:
    """Convert ZooKeeper's stat of a node to the Stat of the key that it stores, for the session `session`. ZooKeeper
    stores the creator of ephemeral nodes only; so for a persistent node, `created_now` says whether this session has
    just created it.
    """
    ephemeral = bool(stat.ephemeralOwner)
    by_self = stat.ephemeralOwner == session if ephemeral else created_now
    return Stat(path, stat.version, stat.ctime, stat.mtime, ephemeral, by_self)


def refusal_of(path: str, error: Exception) -> MetadataError:
    """Convert an error of ZooKeeper to the error of the metadata store. Errors about the version or the existence of a
    node are not converted here; their callers handle them.
    """
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
