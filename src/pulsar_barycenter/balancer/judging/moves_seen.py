"""Finds moves of bundles by comparing their owners in consecutive views, and says whose they are."""

import enum
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from pulsar_barycenter.operations.journal import Entry, MoveState

_ROUNDS_WITHOUT_OWNER: Final = 10
"""A bundle that no view lists for this many rounds is forgotten: it was deleted or split."""


class Whose(enum.StrEnum):
    OURS = "ours"
    """This program asked for it."""
    FAILOVER = "failover"
    """Its broker is gone."""
    FOREIGN = "foreign"
    """Something else moved it: the cluster's own balancer, or a person."""


class SeenMove(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A move that was seen: the bundle has another owner than in the last view (reading of the cluster) that listed it.
    `at` is the time of the present view, epoch ms.
    """

    at: int
    bundle: str
    source: str
    destination: str
    whose: Whose


class OwnersSeen:
    """Finds moves: it keeps the last known owner of each bundle, and compares it with the owner in the next view."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._missing: dict[str, int] = {}

    def see(
        self, owners: Mapping[str, str], *, live: Collection[str], ours: Mapping[str, Collection[str]], at_ms: int
    ) -> list[SeenMove]:
        """Return the moves since the last view, sorted by bundle.

        `owners` maps bundles to their owners in the present view (reading of the cluster), `live` are the registered
        brokers. `ours` maps a bundle to the destinations of the moves that this program asked for.
        """
        found = []
        for bundle in sorted(owners):
            source, destination = self._owner.get(bundle, owners[bundle]), owners[bundle]
            if source != destination:
                whose = _whose(bundle, source, destination, live, ours)
                found.append(SeenMove(at=at_ms, bundle=bundle, source=source, destination=destination, whose=whose))
        self._remember(owners)
        return found

    def _remember(self, owners: Mapping[str, str]) -> None:
        self._owner |= owners
        self._missing = {bundle: self._missing.get(bundle, 0) + 1 for bundle in self._owner.keys() - owners.keys()}
        for bundle in [bundle for bundle, rounds in self._missing.items() if rounds >= _ROUNDS_WITHOUT_OWNER]:
            del self._owner[bundle], self._missing[bundle]


def _whose(
    bundle: str, source: str, destination: str, live: Collection[str], ours: Mapping[str, Collection[str]]
) -> Whose:
    if destination in ours.get(bundle, ()):
        return Whose.OURS
    return Whose.FOREIGN if source in live else Whose.FAILOVER


def destinations_of(entries: Collection[Entry], *, since_ms: int) -> dict[str, set[str]]:
    """Return a mapping from bundle to the destinations of those moves that began since `since_ms` (epoch ms), according
    to the journal.
    """
    found: dict[str, set[str]] = {}
    for entry in entries:
        if entry.state is MoveState.BEGUN and entry.at >= since_ms:
            found.setdefault(entry.bundle, set()).add(entry.destination)
    return found
