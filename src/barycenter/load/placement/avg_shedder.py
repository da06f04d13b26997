"""AvgShedder as placement: the broker that was chosen for the bundle when it was shed, else one drawn at random.

What is remembered are pins, bundle to broker. A pin holds while its broker is a candidate, even if loads have changed;
a bundle without one is pinned to the broker it draws.

When to use it: with the AvgShedder, which does not work without it. When not: with any other shedder, which is refused,
since what has no pin is drawn blindly, a full broker as soon as an empty one.

Source: Pulsar's `AvgShedder` (newest 4.x: pins by the bundle's name, those of planned bundles dropped once their unload
was tried). Where we differ: pins to brokers that left are dropped with the next plan.
"""

import random
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from barycenter.load.placement.choice import PlacementChoice, no_choice
from barycenter.load.placement.drawing import draws
from barycenter.load.reasons import Code
from barycenter.load.shedding.avg_shedder import NAME
from barycenter.load.snapshot.load_snapshot import Flags, Indices, LoadSnapshot

_MERGE: Final = 512
"""Pins since the last merge; few, so that one more costs little however many there are."""


@dataclass(frozen=True, slots=True)
class Pins(Mapping[str, str]):
    """Bundle to broker; a value: adding makes another one."""

    settled: Mapping[str, str] = field(default_factory=dict)
    recent: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, bundle: str) -> str:
        found = self.recent.get(bundle)
        return self.settled[bundle] if found is None else found

    def __iter__(self) -> Iterator[str]:
        yield from self.settled
        yield from (bundle for bundle in self.recent if bundle not in self.settled)

    def __len__(self) -> int:
        return len(self.settled.keys() | self.recent.keys())

    def adding(self, bundle: str, broker: str) -> "Pins":
        recent = {**self.recent, bundle: broker}
        return Pins(self.settled, recent) if len(recent) < _MERGE else Pins({**self.settled, **recent})

    def planned(self, destinations: Mapping[str, str], brokers: Collection[str]) -> "Pins":
        """Return these with `destinations` on top, and without those to other than `brokers`."""
        live = set(brokers)
        return Pins({bundle: broker for bundle, broker in {**self, **destinations}.items() if broker in live})

    def without(self, bundles: Collection[str]) -> "Pins":
        gone = set(bundles)
        return Pins({bundle: broker for bundle, broker in self.items() if bundle not in gone}) if gone else self


def avg_shedder_placement(
    snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, pins: Pins
) -> tuple[PlacementChoice, Pins]:
    """Choose the bundle's pin if that is a candidate, else draw one (the CRC-32 of a random number) and pin it."""
    rows = np.flatnonzero(candidates)
    if not len(rows):
        return no_choice(NAME), pins
    pinned = snapshot.brokers.index.get(pins.get(bundle, ""))
    if pinned is not None and candidates[pinned]:
        return PlacementChoice(pinned, NAME, Code.PINNED, rejected_count=len(rows) - 1), pins
    number = rng.randrange(-(2**31), 2**31)
    chosen = int(rows[zlib.crc32(str(number).encode()) % len(rows)])
    choice = PlacementChoice(chosen, NAME, Code.DRAWN, rejected_count=len(rows) - 1)
    return choice, pins.adding(bundle, snapshot.brokers.names[chosen])


def place_all(
    snapshot: LoadSnapshot, candidates: Flags, bundles: Sequence[str], rng: random.Random, pins: Pins
) -> tuple[Indices, Pins]:
    """Place `bundles` and return their brokers' rows: the same as so many single choices; all -1 without candidates.

    Draws included. Each bundle stands in `bundles` once.
    """
    rows = np.flatnonzero(candidates)
    if not len(rows) or not bundles:
        return np.full(len(bundles), -1, np.int32), pins
    names, index, known = snapshot.brokers.names, snapshot.brokers.index, {**pins.settled, **pins.recent}
    placed = np.full(len(bundles), -1, np.int32)
    if known:
        placed[:] = [index.get(known.get(bundle, ""), -1) for bundle in bundles]
    free = np.flatnonzero((placed < 0) | ~candidates[placed])
    numbers = (draws(rng, 2**32, len(free)) - 2**31).tolist()
    hashes = np.array([zlib.crc32(b"%d" % number) for number in numbers], np.int64)
    placed[free] = chosen = rows[hashes % len(rows)]
    unpinned = bundles if len(free) == len(bundles) else [bundles[position] for position in free.tolist()]
    drawn = dict(zip(unpinned, map(names.__getitem__, chosen.tolist()), strict=True))
    return placed, Pins({**known, **drawn}) if drawn else pins
