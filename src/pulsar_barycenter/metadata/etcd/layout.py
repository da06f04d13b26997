"""The keys of etcd that a store uses.

| key                               | content                                                                  |
|-----------------------------------|--------------------------------------------------------------------------|
| CHROOT PATH                       | a key of the store with its value; attached to a lease if it is ephemeral |
| barycenter CHROOT :sessions/LEASE | exists while the session of that lease (16 hexadecimal digits) is alive   |
| barycenter CHROOT :sequences PATH | its version is the last number given to sequential keys at PATH           |

Without a chroot, keys and values are those of Pulsar's store. The other keys have another prefix, so that neither store
reads the other's.

Source: Pulsar's `EtcdMetadataStore`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Maps paths to keys below a chroot."""

    chroot: str = ""

    def key(self, path: str) -> bytes:
        return f"{self.chroot}{path}".encode()

    def path(self, key: bytes) -> str | None:
        """Return the path of a key of the range `all`; None if the key is not valid UTF-8; then another program wrote
        it.
        """
        try:
            return key.decode()[len(self.chroot) :]
        except UnicodeDecodeError:
            return None

    @property
    def all(self) -> tuple[bytes, bytes]:
        """The range of all keys of the store: the first key, and the end (exclusive)."""
        return self.key("/"), self.key("0")  # "0" is the character after "/"

    def below(self, path: str) -> tuple[bytes, bytes]:
        """The range of the keys below `path`: the first key, and the end (exclusive)."""
        prefix = self.key("/" if path == "/" else f"{path}/")
        return prefix + b"\0", prefix[:-1] + b"0"

    def session(self, lease: int) -> bytes:
        return f"barycenter{self.chroot}:sessions/{lease & (1 << 64) - 1:016x}".encode()

    def sequence(self, path: str) -> bytes:
        return f"barycenter{self.chroot}:sequences{path}".encode()


def child_names(path: str, paths: list[str]) -> list[str]:
    """Return the name of the child of `path` above or at each of `paths`, which are all below `path`. Names may
    repeat.
    """
    begin = len(path) if path == "/" else len(path) + 1
    return [below[begin:].partition("/")[0] for below in paths]


def key_after(path: str, last: str, layout: Layout) -> bytes:
    """Return the key from which to read further children of `path`, when `last`, below it, was read last.

    Other keys below the same child have the same name, so they are skipped.
    """
    (name,) = child_names(path, [last])
    child = f"{path.rstrip('/')}/{name}"
    return layout.key(last) + b"\0" if last == child else layout.key(f"{child}0")
