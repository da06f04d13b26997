"""The version rules of a write, for the stores in which this code checks them and not the server.

| expected version | key absent      | key present at version v        |
|------------------|-----------------|---------------------------------|
| None             | create          | overwrite                       |
| MUST_NOT_EXIST   | create          | BadVersionError                 |
| n ≥ 0            | BadVersionError | overwrite if v = n, else BadVersionError |

Source: Pulsar's `MetadataStore.put` and `MetadataStore.delete`.
"""

from dataclasses import dataclass

from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    GuardError,
    HasChildrenError,
    NotFoundError,
    OtherSessionError,
)
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard


@dataclass(frozen=True, slots=True)
class PutOptions:
    """The arguments of `MetadataStore.put` that are conditions of the write, or that say which kind of key
    it creates.
    """

    expected_version: int | None = None
    ephemeral: bool = False
    sequential: bool = False
    if_own: bool = False
    guard: Guard | None = None


def check_guard(guard: Guard | None, actual: int | None) -> None:
    """Check the guard of a write: a condition that another key has a certain version. `guard` None: there is no
    condition.

    `actual` is the version that the other key has; None if it does not exist.

    Raises:
        GuardError: the other key has another version, or does not exist.
    """
    if guard is not None and guard.version != actual:
        raise GuardError(guard.path, guard.version, actual)


def check_put(path: str, actual: int | None, options: PutOptions, *, own: bool) -> None:
    """Check that a write of the key `path` fulfils the conditions in `options`. `actual` is the version that the key
    has; None if it does not exist. `own` is True if this session created the key.

    Raises:
        BadVersionError: the key does not have the expected version.
        OtherSessionError: the key has to be one that this session created, and is not.
    """
    expected = options.expected_version
    if actual is None:
        if expected is not None and expected != MUST_NOT_EXIST:
            raise BadVersionError(path, expected, None)
        return
    if expected is not None and expected != actual:
        raise BadVersionError(path, expected, actual)
    if options.if_own and not own:
        raise OtherSessionError(path, expected, actual)


def check_delete(
    path: str, actual: int | None, *, expected: int | None, if_own: bool, own: bool, has_children: bool
) -> None:
    """Check that the deletion of the key `path` fulfils its conditions. `actual` is the version that the key has; None
    if it does not exist. `expected` is the version that it has to have; None for any. `own` is True if this session
    created the key. `has_children` is True if there are keys below it.

    Raises:
        NotFoundError: the key does not exist.
        BadVersionError: the key has another version.
        OtherSessionError: `if_own` is True, and another session created the key.
        HasChildrenError: there are keys below `path`.
    """
    if actual is None:
        raise NotFoundError(path)
    if expected is not None and expected != actual:
        raise BadVersionError(path, expected, actual)
    if if_own and not own:
        raise OtherSessionError(path, expected, actual)
    if has_children:
        raise HasChildrenError(path)


def sequential_path(path: str, number: int) -> str:
    """Return the path of the key that a sequential put creates: `path` followed by `number` with ten digits (more if it
    is larger). So these keys, sorted as text, are in the order of their numbers.
    """
    return f"{path}{number:010d}"
