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
    """The conditions of a write (`MetadataStore.put`), and the kind of key that it creates."""

    expected_version: int | None = None
    ephemeral: bool = False
    sequential: bool = False
    if_own: bool = False
    guard: Guard | None = None


def check_guard(guard: Guard | None, actual: int | None) -> None:
    """Check the guard of a write: another key that must have a certain version.

    `actual` is the version of that key, None if it is absent.

    Raises:
        GuardError: the key has another version.
    """
    if guard is not None and guard.version != actual:
        raise GuardError(guard.path, guard.version, actual)


def check_put(path: str, actual: int | None, options: PutOptions, *, own: bool) -> None:
    """Check that a key may be written under `options`. `actual` is the key's version, None if the key is absent; `own`:
    this session created the key.

    Raises:
        BadVersionError, OtherSessionError: a condition in `options` is not met.
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
    """Check that a key may be deleted. `actual` is the key's version, None if the key is absent; `own`: this session
    created it.

    Raises:
        NotFoundError, BadVersionError, OtherSessionError, HasChildrenError: for the same reasons as in
            `MetadataStore.delete`.
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
    """Return the path of the key that a sequential put creates: `path` and `number`, padded so that texts sort as
    numbers do (up to ten digits).
    """
    return f"{path}{number:010d}"
