"""Broker version: keep the brokers of the latest version (`preferLaterVersions`).

When to use it: while brokers are upgraded one by one, so that a bundle that left an old broker does not go to another
old one. When not: versions that stay mixed, since all new bundles go to the newest version.

Versions are semantic versions; build metadata (`+…`) is ignored. Source: Pulsar's `BrokerVersionFilter`. Where we
differ: numbers may be of any size, and in a pre-release every number precedes every word, as the standard requires
(Pulsar's library compares `2` and `1a` as texts, and takes `-1` for a number).
"""

import re
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from pulsar_barycenter.load.filters.outcome import FilterFailedError, FilterOutcome, narrowed
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

_NUMBER: Final = r"(0|[1-9]\d*)"
_WORD: Final = r"\d*[A-Za-z-][0-9A-Za-z-]*"
_PRE_RELEASE: Final = rf"(?:0|[1-9]\d*|{_WORD})"
_BUILD: Final = r"[0-9A-Za-z-]+"
_SEMANTIC: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-({_PRE_RELEASE}(?:\.{_PRE_RELEASE})*))?(?:\+{_BUILD}(?:\.{_BUILD})*)?",
    re.ASCII,
)

VersionKey: TypeAlias = tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]


@lru_cache(maxsize=256)
def version_key(text: str) -> VersionKey:
    """Return a sort key for semantic versions: a pre-release precedes its release.

    Raises:
        FilterFailedError: `text` is not a semantic version.
    """
    match = _SEMANTIC.fullmatch(text)
    if match is None:
        raise FilterFailedError(f"{text!r} is not a semantic version")
    major, minor, patch, pre = match.groups()
    if pre is None:
        return int(major), int(minor), int(patch), 1, ()
    # numbers precede words, and are ordered by value
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split("."))
    return int(major), int(minor), int(patch), 0, parts


def broker_version(snapshot: LoadSnapshot, candidates: Flags) -> FilterOutcome:
    """Remove the candidates whose version is older than the latest version among the candidates.

    Raises:
        FilterFailedError: there is no candidate, or a candidate reports no version, or not a semantic one.
    """
    rows = np.flatnonzero(candidates).tolist()
    if not rows:
        raise FilterFailedError("no broker is a candidate, so there are no versions to compare")
    keys: dict[int, VersionKey] = {}
    for row in rows:
        version = snapshot.brokers.versions[row]
        if version is None:
            raise FilterFailedError(
                f"{snapshot.brokers.names[row]} reports no version, so the candidates cannot be compared by version"
            )
        keys[row] = version_key(version)
    latest = max(keys.values())
    kept = np.zeros(len(candidates), bool)
    kept[[row for row, key in keys.items() if key == latest]] = True
    return narrowed(candidates, kept, Code.OLDER_VERSION, ("preferLaterVersions",))
