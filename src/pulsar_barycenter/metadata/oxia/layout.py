"""Which keys of Oxia a store uses.

| key                                    | what                                                                 |
|----------------------------------------|----------------------------------------------------------------------|
| CHROOT PATH, with | for each /         | a key of the store, its value as it is; a session, if it is ephemeral |
| barycenter CHROOT :sessions:SESSION    | there while that session (16 hexadecimal digits) lasts                |
| barycenter CHROOT :sequences PATH      | its count of changes is the last number given to sequential keys there |

What sorts keys, a namespace of Oxia is told when it is made: by the number of their slashes first, or not. A key
without slashes lies at the same place in both, and all that lies below another is one range. In a name, `~` is `~0` and
`|` is `~1`.

All keys have one partition key, so one shard of the namespace holds them: one session, one order of changes.
"""

from dataclasses import dataclass
from typing import Final

PARTITION: Final = "barycenter"
"""The partition key of all keys, of all clusters in a namespace."""
PARTITION_HASH: Final = 0x47791134
"""Where that lies among the shards: the lower half of its 64-bit XXH3, as Oxia's clients have it."""

_SEPARATOR: Final = "|"
_BEHIND: Final = "}"
"""The character behind the separator."""


@dataclass(frozen=True, slots=True)
class Layout:
    chroot: str = ""

    @property
    def root(self) -> str:
        """What all keys of the store begin with."""
        return _encoded(self.chroot)

    def key(self, path: str) -> str:
        return f"{self.root}{_encoded(path)}"

    def path(self, key: str) -> str | None:
        """Return the path of a key, None if it is none of the store's."""
        if not key.startswith(f"{self.root}{_SEPARATOR}"):
            return None
        names = key[len(self.root) :].split(_SEPARATOR)
        return "/".join(name.replace("~1", _SEPARATOR).replace("~0", "~") for name in names)

    def below(self, path: str) -> tuple[str, str]:
        """The first key and the end, exclusive, of what lies below `path`."""
        above = self.root if path == "/" else self.key(path)
        return f"{above}{_SEPARATOR}", f"{above}{_BEHIND}"

    def session(self, session: int) -> str:
        return f"barycenter{self.root}:sessions:{identity(session)}"

    def sequence(self, path: str) -> str:
        return f"barycenter{self.root}:sequences{_encoded(path)}"


def identity(session: int) -> str:
    """Return how records name the session that created them."""
    return f"{session:016x}"


def child_names(path: str, paths: list[str]) -> set[str]:
    """Return the first names below `path` of `paths` that lie below it."""
    begin = len(path) if path == "/" else len(path) + 1
    return {below[begin:].partition("/")[0] for below in paths}


def _encoded(path: str) -> str:
    return path.replace("~", "~0").replace(_SEPARATOR, "~1").replace("/", _SEPARATOR)
