"""The keys of Oxia that a store uses.

| key                                    | content                                                              |
|----------------------------------------|----------------------------------------------------------------------|
| CHROOT PATH, with | for each /         | a key of the store with its value; a session, if it is ephemeral      |
| barycenter CHROOT :sessions:SESSION    | exists while that session (16 hexadecimal digits) is alive            |
| barycenter CHROOT :sequences PATH      | its modification count is the last number given to sequential keys    |

A namespace of Oxia sorts its keys by the number of their slashes first, or not; that is fixed when it is created. A key
without slashes has the same position in both orders, and everything below a key is one range. In a name, `~` is encoded
as `~0` and `|` as `~1`.

All keys have one partition key, so one shard of the namespace contains them: one session, one order of changes.
"""

from dataclasses import dataclass
from typing import Final

PARTITION: Final = "barycenter"
"""The partition key of all keys, of all clusters in a namespace."""
PARTITION_HASH: Final = 0x47791134
"""The hash of that key among the shards: the lower half of its 64-bit XXH3, as in Oxia's clients."""

_SEPARATOR: Final = "|"
_AFTER_SEPARATOR: Final = "}"
"""The character after the separator."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Maps paths to keys below a chroot."""

    chroot: str = ""

    @property
    def root(self) -> str:
        """The prefix of all keys of the store."""
        return _encoded(self.chroot)

    def key(self, path: str) -> str:
        return f"{self.root}{_encoded(path)}"

    def path(self, key: str) -> str | None:
        """Return the path of a key, None if the key is not the store's."""
        if not key.startswith(f"{self.root}{_SEPARATOR}"):
            return None
        names = key[len(self.root) :].split(_SEPARATOR)
        return "/".join(name.replace("~1", _SEPARATOR).replace("~0", "~") for name in names)

    def below(self, path: str) -> tuple[str, str]:
        """The range of the keys below `path`: the first key, and the end (exclusive)."""
        above = self.root if path == "/" else self.key(path)
        return f"{above}{_SEPARATOR}", f"{above}{_AFTER_SEPARATOR}"

    def session(self, session: int) -> str:
        return f"barycenter{self.root}:sessions:{identity(session)}"

    def sequence(self, path: str) -> str:
        return f"barycenter{self.root}:sequences{_encoded(path)}"


def identity(session: int) -> str:
    """Return the text that identifies a session in the records that it created."""
    return f"{session:016x}"


def child_names(path: str, paths: list[str]) -> set[str]:
    """Return the names of the children of `path` that `paths`, which are below it, belong to."""
    begin = len(path) if path == "/" else len(path) + 1
    return {below[begin:].partition("/")[0] for below in paths}


def _encoded(path: str) -> str:
    return path.replace("~", "~0").replace(_SEPARATOR, "~1").replace("/", _SEPARATOR)
