"""The keys that a metadata store uses in etcd.

| key                               | content                                                                  |
|-----------------------------------|--------------------------------------------------------------------------|
| CHROOT PATH                       | a key of the store with its value; attached to a lease if it is ephemeral |
| barycenter CHROOT :sessions/LEASE | exists while the session of that lease (16 hexadecimal digits) is alive   |
| barycenter CHROOT :sequences PATH | its version is the last number given to sequential keys at PATH           |

Without a chroot, keys and values are those of Pulsar's store. The other keys begin with `barycenter`, so that Pulsar's
store does not read them.

Source: Pulsar's `EtcdMetadataStore`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Converts the paths of keys of the metadata store to the keys in etcd, which begin with the chroot, and back."""

    chroot: str = ""

    def key(self, path: str) -> bytes:
        return f"{self.chroot}{path}".encode()

    def path(self, key: bytes) -> str | None:
        """Return the path that `key`, a key in etcd, represents. None if `key` is not valid UTF-8: then another program
        wrote it. `key` must be in the range `all`.
        """
        try:
            return key.decode()[len(self.chroot) :]
        except UnicodeDecodeError:
            return None

    @property
    def all(self) -> tuple[bytes, bytes]:
        """The range in etcd of all keys of this metadata store: the first key (inclusive), and the end (exclusive)."""
        return self.key("/"), self.key("0")  # "0" is the character after "/"

    def below(self, path: str) -> tuple[bytes, bytes]:
        """Return the range in etcd of the keys below `path`: the first key (inclusive), and the end (exclusive)."""
        prefix = self.key("/" if path == "/" else f"{path}/")
        return prefix + b"\0", prefix[:-1] + b"0"

    def session(self, lease: int) -> bytes:
        return f"barycenter{self.chroot}:sessions/{lease & (1 << 64) - 1:016x}".encode()

    def sequence(self, path: str) -> bytes:
        return f"barycenter{self.chroot}:sequences{path}".encode()


def child_names(path: str, paths: list[str]) -> list[str]:
    """Return, for each path in `paths`, the name that follows `path` in it: for the path `/a`, both `/a/b` and `/a/b/c`
    give `b`. All `paths` must be below `path`. A name may occur several times in the result.
    """
    begin = len(path) if path == "/" else len(path) + 1
    return [below[begin:].partition("/")[0] for below in paths]


def key_after(path: str, last: str, layout: Layout) -> bytes:
    """The children of `path` are read in pages. Return the key in etcd at which the next page begins, if `last` is the
    last path of the previous page.

    Keys below the child to which `last` belongs are skipped, because this child was already found.
    """
    (name,) = child_names(path, [last])
    child = f"{path.rstrip('/')}/{name}"
    return layout.key(last) + b"\0" if last == child else layout.key(f"{child}0")
