"""Finds moves of bundles by comparing their owners in consecutive views, and says whose they are."""

import enum
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from pulsar_barycenter.balancer.options import MINUTE_MS
from pulsar_barycenter.operations.journal import Entry, MoveState

LANDS_MS: Final = 3 * MINUTE_MS
"""How long after a failed move another owner of the bundle counts as its result."""
_ROUNDS_WITHOUT_OWNER: Final = 10
"""A bundle that no view lists for this many rounds is forgotten: it was deleted or split."""


class Whose(enum.StrEnum):
    OURS = "ours"
    """This program asked for it, or asked the owner to unload the bundle and the cluster chose another destination."""
    FAILOVER = "failover"
    """Its former owner has left the cluster."""
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
        self._arrived_ms: dict[str, int] = {}
        """For each bundle that was seen at the destination of a move of this program: when that move began."""

    @property
    def known(self) -> Mapping[str, str]:
        """The last known owner of each bundle."""
        return self._owner

    def was_split(self, bundle: str, parts: Collection[str]) -> None:
        """Record that a bundle was split: forget the bundle, and record its owner as the owner of each part that has no
        known owner.
        """
        broker = self._owner.pop(bundle)
        self._missing.pop(bundle, None)
        for part in parts:
            self._owner.setdefault(part, broker)

    def see(
        self,
        owners: Mapping[str, str],
        *,
        live: Collection[str],
        ours: Mapping[str, Mapping[str, int]],
        unloaded: Mapping[str, str],
        at_ms: int,
    ) -> list[SeenMove]:
        """Compare the owners with those in the last view, and return the moves since then, sorted by bundle.

        `owners` maps bundles to their owners in the present view (reading of the cluster). Each move is marked with who
        made it:

        - ours: the new owner is among `ours[bundle]`, the destinations of the moves that this program asked for (see
          `destinations_of`), and no earlier view has shown that this move, or a later one of the bundle, arrived; or
          the old owner is `unloaded[bundle]`, the source of a move of this program that just failed (see
          `unloaded_from`).
        - foreign: any other move whose old owner is in `live`, the brokers that are registered.
        - failover: any other move; its old owner is not registered any more.
        """
        found = []
        self._arrived_ms = {bundle: began_ms for bundle, began_ms in self._arrived_ms.items() if bundle in ours}
        for bundle in sorted(owners):
            source, destination = self._owner.get(bundle, owners[bundle]), owners[bundle]
            began_ms = ours.get(bundle, {}).get(destination, -1)
            arrives = began_ms > self._arrived_ms.get(bundle, -1)
            if arrives:
                self._arrived_ms[bundle] = began_ms
            if source != destination:
                is_ours = arrives or unloaded.get(bundle) == source
                whose = Whose.OURS if is_ours else Whose.FOREIGN if source in live else Whose.FAILOVER
                found.append(SeenMove(at=at_ms, bundle=bundle, source=source, destination=destination, whose=whose))
        self._remember(owners)
        return found

    def _remember(self, owners: Mapping[str, str]) -> None:
        self._owner |= owners
        self._missing = {bundle: self._missing.get(bundle, 0) + 1 for bundle in self._owner.keys() - owners.keys()}
        for bundle in [bundle for bundle, rounds in self._missing.items() if rounds >= _ROUNDS_WITHOUT_OWNER]:
            del self._owner[bundle], self._missing[bundle]


def destinations_of(entries: Collection[Entry], *, since_ms: int) -> dict[str, dict[str, int]]:
    """Return a mapping from bundle to the destinations of those moves that began since `since_ms` (epoch ms), according
    to the journal; each destination with the time (epoch ms) at which the last move to it began.
    """
    found: dict[str, dict[str, int]] = {}
    for entry in entries:
        if entry.state is MoveState.BEGUN and entry.at >= since_ms:
            found.setdefault(entry.bundle, {})[entry.destination] = entry.at
    return found


def unloaded_from(entries: Collection[Entry], *, now_ms: int) -> dict[str, str]:
    """Return a mapping from bundle to the source of its last move, for moves that failed at most LANDS_MS before
    `now_ms` (epoch ms) and did not begin again, according to the journal.

    The owner of such a bundle was asked to unload it. Afterwards, a broker other than the destination may get the
    bundle: Apache Pulsar sends only the first look-up to the destination, and another look-up may come before the
    bundle has an owner.
    """
    begun: set[str] = set()
    found: dict[str, str] = {}
    for entry in entries:
        if entry.state is MoveState.BEGUN:
            begun.add(entry.bundle)
            found.pop(entry.bundle, None)
        elif entry.state is MoveState.FAILED and entry.bundle in begun and entry.at >= now_ms - LANDS_MS:
            found[entry.bundle] = entry.source
    return found
