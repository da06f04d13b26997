"""Errors of the metadata store, one shallow tree.

MetadataError
├── NotFoundError          the key is absent
├── BadVersionError        the expected version did not hold
│   ├── OtherSessionError  the key was to be this session's own and is another's
│   └── GuardError         the key that the write depended on has another version
├── AlreadyExistsError     a typed create found the key
├── InvalidPathError       the path is not of the store's form
├── InvalidValueError      a stored value could not be decoded
├── LockBusyError          another session holds the lock
├── LockLostError          the lock was released or lost before the operation
├── NotLeadingError        the write is the leader's, and this session's owner leads no more
├── FormerEpochError       a command of a leader after which another one leads
├── HasChildrenError       a key with children cannot be deleted
├── SessionLostError       the session ended; its ephemeral keys are gone
├── StoreUnavailableError  the store did not answer; whether a write took effect is unknown
├── StoreFileError         the store's file cannot be used: foreign, damaged, or of a newer version
├── StoreSettingsError     what is configured cannot be: the store's URL, the file with its settings
├── StoreRefusedError      the store will not do it, now or later; nothing was written
│   └── ValueTooLargeError it takes no value of this size
└── StoreClosedError       the store was closed
"""


class MetadataError(Exception):
    """Anything that a metadata store operation can fail with."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path
        self.detail = detail


class NotFoundError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "no such key")


def _expected(version: int | None) -> str:
    return "expected no such key" if version == -1 else f"expected version {version}"


class BadVersionError(MetadataError):
    def __init__(self, path: str, expected: int | None, actual: int | None) -> None:
        super().__init__(path, f"{_expected(expected)}, {'found none' if actual is None else f'found {actual}'}")
        self.expected = expected
        self.actual = actual


class OtherSessionError(BadVersionError):
    """A kind of BadVersionError, because whoever expects a version of its own key treats both alike."""

    def __init__(self, path: str, expected: int | None, actual: int) -> None:
        MetadataError.__init__(self, path, "belongs to another session")
        self.expected = expected
        self.actual = actual


class GuardError(BadVersionError):
    """Of `path`, the guard's key. A kind of BadVersionError, because nothing was written, as with any other."""


class AlreadyExistsError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "already exists")


class InvalidPathError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(repr(path), "a path starts with '/', does not end with '/' and is not blank")


class InvalidValueError(MetadataError):
    pass


class LockBusyError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "held by another session")


class LockLostError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the lock is no longer held")


class NotLeadingError(MetadataError):
    def __init__(self, path: str, detail: str = "only the leader writes it, and this broker does not lead") -> None:
        super().__init__(path, detail)


class FormerEpochError(MetadataError):
    def __init__(self, path: str, epoch: int, current: int) -> None:
        super().__init__(path, f"the command is of leader epoch {epoch}, which is over: it is epoch {current} now")
        self.epoch = epoch
        self.current = current


class HasChildrenError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "has children")


class SessionLostError(MetadataError):
    pass


class StoreUnavailableError(MetadataError):
    pass


class StoreFileError(MetadataError):
    pass


class StoreSettingsError(MetadataError):
    pass


class StoreRefusedError(MetadataError):
    pass


class ValueTooLargeError(StoreRefusedError):
    def __init__(self, path: str, size: int, limit: str) -> None:
        super().__init__(path, f"a value of {size} bytes is too large: {limit}")
        self.size = size


class StoreClosedError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the store is closed")
