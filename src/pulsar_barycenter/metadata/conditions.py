"""The version rules of a write, for the stores that check them in this code.

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
    """The conditions and the kind of one `MetadataStore.put`."""

    expected_version: int | None = None
    ephemeral: bool = False
    sequential: bool = False
    if_own: bool = False
    guard: Guard | None = None


def check_guard(guard: Guard | None, actual: int | None) -> None:
    """Check the guard of a write. `actual` is the version of the guard's key, None: the key is absent. Raises
    GuardError: the key has another version.
    """
    if guard is not None and guard.version != actual:
        raise GuardError(guard.path, guard.version, actual)


def check_put(path: str, actual: int | None, options: PutOptions, *, own: bool) -> None:
    """Check that a key at version `actual` (None: absent) may be written under `options`. `own`: this session created
    the key. Raises BadVersionError or OtherSessionError.
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
    """Check that a key at version `actual` (None: absent) may be deleted. `own`: this session created the key. Raises
    as `MetadataStore.delete`.
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
    """Return the full path of a sequential put. Numbers of up to ten digits sort as text too."""
    return f"{path}{number:010d}"
