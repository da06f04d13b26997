"""Errors of the metadata store, one shallow tree.

MetadataError
├── NotFoundError          the key does not exist
├── BadVersionError        the key has not the expected version
│   ├── OtherSessionError  the key belongs to another session, not to this one
│   └── GuardError         the key that the write depended on has another version
├── AlreadyExistsError     a typed create found the key
├── InvalidPathError       the store cannot have such a path
├── InvalidValueError      a stored value cannot be decoded
├── LockBusyError          another session holds the lock
├── LockLostError          the lock was released or lost before the operation
├── NotLeadingError        only the leader may write this key, and this broker does not lead
├── FormerEpochError       a command of a former leader
├── HasChildrenError       a key with children cannot be deleted
├── SessionLostError       the session has ended; its ephemeral keys are deleted
├── StoreUnavailableError  the store did not answer; it is unknown whether a write took effect
├── StoreFileError         the store's file cannot be used: of another program, damaged, or of a newer version
├── StoreSettingsError     the store's URL or its settings file is invalid
├── StoreRefusedError      the store refuses the operation, now or always; nothing was written
│   └── ValueTooLargeError the value is larger than the store allows
└── StoreClosedError       the store was closed
"""


class MetadataError(Exception):
    """Base class of every error of a metadata store operation."""

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
    """The key was created by another session. This is a BadVersionError, because a caller that expects a version of its
    own key handles both errors in the same way.
    """

    def __init__(self, path: str, expected: int | None, actual: int) -> None:
        MetadataError.__init__(self, path, "the key belongs to another session")
        self.expected = expected
        self.actual = actual


class GuardError(BadVersionError):
    """The guard of a write was not met: the other key that the guard names, at `path`, does not have the expected
    version. Nothing was written.
    """


class AlreadyExistsError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the key already exists")


class InvalidPathError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(
            repr(path),
            "not a valid path: it must start with '/', not end with '/', and be Unicode text without NUL characters;"
            " ZooKeeper also refuses the names '', '.' and '..'",
        )


class InvalidValueError(MetadataError):
    pass


class LockBusyError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "another session holds the lock")


class LockLostError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the lock is no longer held")


class NotLeadingError(MetadataError):
    def __init__(
        self, path: str, detail: str = "only the leader writes this key, and this broker is not the leader"
    ) -> None:
        super().__init__(path, detail)


class FormerEpochError(MetadataError):
    def __init__(self, path: str, epoch: int, current: int) -> None:
        super().__init__(path, f"the command is of leader epoch {epoch}, which is over: the current epoch is {current}")
        self.epoch = epoch
        self.current = current


class HasChildrenError(MetadataError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the key has children: delete them first")


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
