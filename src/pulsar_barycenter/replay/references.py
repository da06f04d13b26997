"""Reference balancers that know the true load: strategies are measured against them. No leader could be one of them.

A reference knows the true load of each bundle, at once and without noise; a leader knows only what brokers reported. It
acts every few minutes instead of the leader's round. Everything else is as with any strategy: gaps, assignment of
bundles without an owner, splits. `REFERENCES` are those of balance-bench. `OF_DAYS` are those of
`benchmarks.balance_days`: an oracle, and two greedy ones that a leader could be, because they know only the past.

All of them are greedy: they repeatedly take the move that balances the brokers most, as long as it gains at least
`LEAST_GAIN`. So a strategy may do better. The balance is the mean, over the steps that they see, of (sum of
u^16)^(1/16) over the brokers' usages u. That is almost the greatest usage; but it also improves when a bundle leaves
one of four brokers that are equally full.

Source: our own.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers

_MINUTE_MS: Final = 60_000
EVERY_MS: Final = 10 * _MINUTE_MS
LEAST_GAIN: Final = 0.005
"""The least gain, as a fraction of a broker, for which a move is made."""
_POWER: Final = 16
_LOOKED_AT: Final = 256
_TAKERS: Final = 4
_MOST_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference balancer, which knows the true load. Its result shows about how well a strategy could do at best.

    It decides by the load of the next `horizon` steps, including the present one; only every `stride`-th of them is
    used. Or it decides by the mean load of the last `mean_of` steps, including the present one. At most one of
    `horizon` and `mean_of` is more than 1. It moves bundles every `every_ms`, at most `moves_an_hour` (None: no such
    limit), and does not move a bundle again for `rest_ms`.
    """

    name: str
    about: str
    horizon: int
    stride: int
    moves_an_hour: int | None = None
    every_ms: int = EVERY_MS
    mean_of: int = 1
    rest_ms: int = 0

    @property
    def at_once(self) -> int:
        """The maximum number of moves each time that the reference moves bundles, which is every `every_ms`."""
        return _MOST_AT_ONCE if self.moves_an_hour is None else max(1, self.moves_an_hour * self.every_ms // 3_600_000)

    def steps(self, present: int, end: int) -> list[int]:
        """Return the steps whose load the reference knows at the step `present`. `end` is the number of steps of the
        run.
        """
        if self.mean_of > 1:
            return list(range(max(0, present + 1 - self.mean_of), present + 1))
        return list(range(present, min(present + self.horizon, end), self.stride))


REFERENCES: Final = {
    each.name: each
    for each in (
        Reference("foresight", "knows the load of every bundle in the next hour", 60, 3),
        Reference("greedy-12", "knows the present load of every bundle, and makes at most 12 moves an hour", 1, 1, 12),
    )
}

OF_DAYS: Final = {
    each.name: each
    for each in (
        Reference(
            "oracle", "knows the next hour, and makes at most 20 moves an hour", 60, 5, 20, every_ms=6 * _MINUTE_MS
        ),
        Reference(
            "greedy-mean",
            "at most five moves every 15 minutes, by the mean of the last 10 minutes",
            1,
            1,
            20,
            every_ms=15 * _MINUTE_MS,
            mean_of=10,
        ),
        Reference(
            "greedy-newest",
            "at most one move every 3 minutes, by the newest minute; a bundle rests for an hour",
            1,
            1,
            20,
            every_ms=3 * _MINUTE_MS,
            rest_ms=60 * _MINUTE_MS,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class ActualLoad:
    """The true load of the brokers, which a reference balancer knows instead of load reports.

    `wanted` is how much of each resource each bundle takes; its dimensions are steps × resources × bundles. `limit` is
    how much of a resource each broker has, and `base` how much it takes when idle, both resources × brokers, in the
    same units. `owner` is the row number of each bundle's broker; negative: it has none, and is not moved. `live` flags
    the brokers that are in the cluster.
    """

    wanted: Floats
    limit: Floats
    base: Floats
    owner: Integers
    live: Flags


def best_moves(actual: ActualLoad, most: int, resting: Collection[int] = ()) -> list[tuple[int, int]]:
    """Return at most `most` moves, the best one first: pairs of the bundle's row number and that of its new broker.
    Bundles in `resting` (row numbers) are not moved.
    """
    return _Search(actual, resting).run(most)


class _Search:
    def __init__(self, actual: ActualLoad, resting: Collection[int]) -> None:
        self._actual, self._owner = actual, actual.owner.copy()
        self._may_go: Flags = np.ones(len(self._owner), bool)
        self._may_go[list(resting)] = False
        steps, resources, _ = actual.wanted.shape
        brokers = actual.limit.shape[1]
        served = np.flatnonzero(self._owner >= 0)
        load = np.zeros((brokers, steps, resources))
        np.add.at(load, self._owner[served], actual.wanted[:, :, served].transpose(2, 0, 1))
        self._load = load + actual.base.T[:, None, :]
        self._limit: Floats = actual.limit.T[:, None, :]
        self._usage: Floats = np.where(actual.live[:, None], (self._load / self._limit).max(axis=2), 0.0)

    def run(self, most: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while len(found) < most and (move := self._best()) is not None:
            bundle, to = move
            source, wanted = int(self._owner[bundle]), self._actual.wanted[:, :, bundle]
            for broker, change in ((source, -wanted), (to, wanted)):
                self._load[broker] += change
                self._usage[broker] = (self._load[broker] / self._limit[broker]).max(axis=1)
            self._owner[bundle] = to
            found.append(move)
        return found

    def _best(self) -> tuple[int, int] | None:
        """Return the best move of a bundle away from the most loaded broker: the row numbers of the bundle and of its
        new broker. Return None if no move gains at least LEAST_GAIN.
        """
        actual, powers = self._actual, self._usage**_POWER
        live = np.flatnonzero(actual.live)
        if len(live) < 2:
            return None
        source = int(live[np.argmax(powers[live].sum(axis=1))])
        total = powers.sum(axis=0)
        takers = live[live != source]
        takers = takers[np.argsort(powers[takers].sum(axis=1), kind="stable")[:_TAKERS]]
        bundles = np.flatnonzero((self._owner == source) & self._may_go)
        weight = (actual.wanted[:, :, bundles] / actual.limit[None, :, source, None]).max(axis=1).sum(axis=0)
        bundles = bundles[np.argsort(-weight, kind="stable")[:_LOOKED_AT]]
        if not len(bundles):
            return None
        wanted = actual.wanted[:, :, bundles].transpose(2, 0, 1)
        kept = ((self._load[source] - wanted) / self._limit[source]).max(axis=2)
        before = float((total ** (1 / _POWER)).mean())
        best, least = None, before - LEAST_GAIN
        for taker in takers.tolist():
            got = ((self._load[taker] + wanted) / self._limit[taker]).max(axis=2)
            after = total - powers[source] - powers[taker] + kept.clip(0) ** _POWER + got**_POWER
            means = (after.clip(0) ** (1 / _POWER)).mean(axis=1)
            at = int(np.argmin(means))
            if means[at] < least:
                best, least = (int(bundles[at]), taker), float(means[at])
        return best
