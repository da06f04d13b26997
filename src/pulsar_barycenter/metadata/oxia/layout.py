"""The keys that a metadata store uses in Oxia.

| key                                    | content                                                              |
|----------------------------------------|----------------------------------------------------------------------|
| CHROOT PATH, with | for each /         | a key of the store with its value; a session, if it is ephemeral      |
| barycenter CHROOT :sessions:SESSION    | exists while that session (16 hexadecimal digits) is alive            |
| barycenter CHROOT :sequences PATH      | its modification count is the last number given to sequential keys    |

A namespace of Oxia sorts its keys either by the number of their slashes first, or as plain text; that is fixed when the
namespace is created. A key without slashes has the same position in both orders, and everything below a key is one
range. In a name, `~` is encoded as `~0` and `|` as `~1`.

All keys have the same partition key. So they are in one shard of the namespace, which has one session for each client
and one order of changes.
"""

from dataclasses import dataclass
from typing import Final

PARTITION: Final = "barycenter"
"""The partition key of all keys that metadata stores have in a namespace of Oxia."""
PARTITION_HASH: Final = 0x47791134
"""The hash of PARTITION, which selects the shard: the lower half of its 64-bit XXH3, as in Oxia's clients."""

_SEPARATOR: Final = "|"
_AFTER_SEPARATOR: Final = "}"
"""The character that sorts directly after the separator, `|`."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Converts the paths of keys of the metadata store to the keys in Oxia, which begin with the chroot, and back."""

    chroot: str = ""

    @property
    def root(self) -> str:
        """The text with which the keys in Oxia begin that represent paths of this metadata store: the
        encoded chroot.
        """
        return _encoded(self.chroot)

    def key(self, path: str) -> str:
        return f"{self.root}{_encoded(path)}"

    def path(self, key: str) -> str | None:
        """Return the path that `key`, a key in Oxia, represents; None if `key` is not a key of this metadata store."""
        if not key.startswith(f"{self.root}{_SEPARATOR}"):
            return None
        names = key[len(self.root) :].split(_SEPARATOR)
        return "/".join(name.replace("~1", _SEPARATOR).replace("~0", "~") for name in names)

    def below(self, path: str) -> tuple[str, str]:
        """Return the range in Oxia of the keys below `path`: the first key (inclusive), and the end (exclusive)."""
        above = self.root if path == "/" else self.key(path)
        return f"{above}{_SEPARATOR}", f"{above}{_AFTER_SEPARATOR}"

    def session(self, session: int) -> str:
        return f"barycenter{self.root}:sessions:{identity(session)}"

    def sequence(self, path: str) -> str:
        return f"barycenter{self.root}:sequences{_encoded(path)}"


def identity(session: int) -> str:
    """Return the text with which a record in Oxia names the session `session` as its creator."""
    return f"{session:016x}"


def child_names(path: str, paths: list[str]) -> set[str]:
    """Return the names that follow `path` in `paths`: for the path `/a`, both `/a/b` and `/a/b/c` give `b`. All `paths`
    must be below `path`.
    """
    begin = len(path) if path == "/" else len(path) + 1
    return {below[begin:].partition("/")[0] for below in paths}


def _encoded(path: str) -> str:
    return path.replace("~", "~0").replace(_SEPARATOR, "~1").replace("/", _SEPARATOR)
