"""Which keys of etcd a store uses.

| key                               | what                                                                     |
|-----------------------------------|--------------------------------------------------------------------------|
| CHROOT PATH                       | a key of the store, its value as it is; a lease, if it is ephemeral        |
| barycenter CHROOT :sessions/LEASE | there while the session of that lease (16 hexadecimal digits) lasts        |
| barycenter CHROOT :sequences PATH | its version is the last number given to sequential keys at PATH            |

Without a chroot, keys and values are those that Pulsar's store has. Ours begin otherwise, so that neither sees them.

Source: Pulsar's `EtcdMetadataStore`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    chroot: str = ""

    def key(self, path: str) -> bytes:
        return f"{self.chroot}{path}".encode()

    def path(self, key: bytes) -> str | None:
        """Return the path of a key of the range `all`; None for what is none, which somebody else put there."""
        try:
            return key.decode()[len(self.chroot) :]
        except UnicodeDecodeError:
            return None

    @property
    def all(self) -> tuple[bytes, bytes]:
        """The first key and the end, exclusive, of what holds all keys of the store."""
        return self.key("/"), self.key("0")  # the character behind "/"

    def below(self, path: str) -> tuple[bytes, bytes]:
        """The first key and the end, exclusive, of what lies below `path`."""
        prefix = self.key("/" if path == "/" else f"{path}/")
        return prefix + b"\0", prefix[:-1] + b"0"

    def session(self, lease: int) -> bytes:
        return f"barycenter{self.chroot}:sessions/{lease & (1 << 64) - 1:016x}".encode()

    def sequence(self, path: str) -> bytes:
        return f"barycenter{self.chroot}:sequences{path}".encode()


def child_names(path: str, paths: list[str]) -> list[str]:
    """Return the first names below `path` of `paths` that lie below it, in their order, repeated as they come."""
    begin = len(path) if path == "/" else len(path) + 1
    return [below[begin:].partition("/")[0] for below in paths]


def behind(path: str, last: str, layout: Layout) -> bytes:
    """Return the key from which on to read further children of `path` when `last`, below it, was read last.

    What else lies below the child that `last` belongs to has the same name, so it is passed over.
    """
    (name,) = child_names(path, [last])
    child = f"{path.rstrip('/')}/{name}"
    return layout.key(last) + b"\0" if last == child else layout.key(f"{child}0")
