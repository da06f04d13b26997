"""LeastDisturbance as placement: the planned destination, else the broker with the least predicted usage.

The load of a bundle is the one that the last round knew, or the mean of its namespace. The load of a broker is its
reported usage and all that is on its way to it. The line of each broker (`shedding.least_disturbance.usage_lines`)
translates both, so that a broker of twice the strength gets twice as much. A bundle without load goes to the broker
with the fewest bundles, of those whose usage is within the band above the least.

Worked example: two brokers are at 50 % and 60 %, and a bundle would take 20 points of the first and 8 of the second,
which is stronger. It goes to the second broker, because 68 % is less than 70 %.

When to use it: with LeastDisturbance as the shedder. When not: with any other shedder; as for AvgShedder in Pulsar,
both keys have to name a strategy that sheds and places.

Source: our own.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.placement.placer import Figures, PlacementChoice, Placer, least_rows, no_choice
from pulsar_barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, of_figures
from pulsar_barycenter.load.shedding.least_disturbance.assignment import IDLE
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY, BundleLoads, first_loads
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import NAME, Settings
from pulsar_barycenter.load.shedding.least_disturbance.prediction import typical_work
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import (
    UsageLines,
    next_lines,
    reported_at_ms,
    reported_usage,
)
from pulsar_barycenter.load.shedding.least_disturbance.verdicts import DisturbancePlan
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, Flags, Floats, LoadSnapshot, namespace_of

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


_PARTS: Final = 2**30
_LARGEST: Final = 2.0**20


class Planned(NamedTuple):
    """A planned move of a bundle: source and destination (broker ids), the bundle's work (its load as one number), and
    the bundle's row in the snapshot from which the plan was made.
    """

    source: str
    destination: str
    work: float
    row: int


@dataclass(frozen=True)
class RoundKnowledge:
    """The data about bundles and brokers that LeastDisturbance computed at its last shedding round: `loads`, the
    estimated loads of bundles, and `lines`, which estimate the usage of each broker from the load of its bundles. The
    round was at `at_ms` (epoch ms) and used `snapshot`.
    """

    at_ms: int
    loads: BundleLoads
    lines: UsageLines
    snapshot: LoadSnapshot

    @cached_property
    def typical(self) -> Mapping[str, tuple[float, float]]:
        """The mean work of a bundle in each namespace, as a pair: by the recent and by the settled estimate (a fast and
        a slow moving average). Work is load as one number. The key "" has the mean over all bundles.
        """
        return typical_work(self.snapshot, self.loads)

    def work(self, bundle: str) -> float:
        """Return the work of a bundle (its load as one number): the higher one of its two estimates, the recent and the
        settled one. An unknown bundle has the mean work of the bundles of its namespace; if the namespace is unknown
        too, that of all bundles.
        """
        found = self.loads.of(bundle)
        if found is None:
            found = self.typical.get(namespace_of(bundle), self.typical[""])
        return _in_parts(found)

    def home(self, snapshot: LoadSnapshot, bundle: str, move: Planned | None = None) -> int:
        """Return the row of the broker whose reported usage contains the load of the bundle; the load of a new part of
        a split bundle is contained where the split bundle was. NOBODY if no live broker's report contains it.

        `move` is the planned move of the bundle, None if there is none: its source is that broker if the snapshot has
        the bundles of the last round.
        """
        if move is not None and snapshot.bundles is self.snapshot.bundles:
            return snapshot.brokers.index[move.source]
        row = snapshot.bundles.row_with_windows(bundle)
        if row is not None:
            return snapshot.bundles.owner.item(row)
        before = self.loads.owner_of(bundle)
        broker = NOBODY if before is None else snapshot.brokers.index.get(before, NOBODY)
        has_reported = broker != NOBODY and int(reported_at_ms(snapshot)[broker]) > self.at_ms
        return NOBODY if has_reported else broker


@dataclass(frozen=True, slots=True)
class Expected:
    """The load that is expected of each broker in `snapshot`, as columns over brokers. `reported` is the reported usage
    (fraction). `more` is the work (load as one number) of the bundles that came after the reports, less that of those
    that left. `slope` is usage per work, `counts` are numbers of bundles. `fresh` flags the brokers whose report is not
    outdated.

    Work is in whole multiples of 2**-30, so that sums do not depend on their order.
    """

    snapshot: LoadSnapshot
    reported: Floats
    more: Floats
    slope: Floats
    counts: Floats
    fresh: Flags

    @property
    def usage(self) -> Floats:
        found: Floats = (self.reported + self.slope * self.more).clip(0.0)
        return found


class Pending(NamedTuple):
    """A bundle that was placed. `broker` is the row of its new broker, `home` the row of the broker whose report
    includes the bundle. `row` is the row of the bundle table in which the bundle is looked for first: its row in the
    snapshot of the plan, or 0 if it was placed without a plan. `before` is the bundle that was placed just before this
    one; None: no other bundle has to be counted.
    """

    broker: int
    bundle: str
    work: float
    home: int
    row: int
    before: "Pending | None"


class PlacementMemory(msgspec.Struct, frozen=True):
    """What the strategy remembers between two placements. `known` is the knowledge of the last shedding round. `plan`
    has the planned moves from the moment when they are planned until they are made or have failed. `expected` is the
    load that was last computed. `pending` has the bundles that were placed after that, the latest first; a bundle
    counts only if the snapshot lists it as on its way.
    """

    known: RoundKnowledge | None = None
    plan: Mapping[str, Planned] = {}
    expected: Expected | None = None
    pending: Pending | None = None


@dataclass(frozen=True, slots=True)
class LeastDisturbancePlacement(Placer[PlacementMemory]):
    name: ClassVar[str] = NAME
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(Settings.of(config))

    def start(self) -> PlacementMemory:
        return PlacementMemory()

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: PlacementMemory
    ) -> tuple[PlacementChoice, PlacementMemory]:
        """Choose the planned destination of the bundle. If the bundle has no plan, or its destination is not a
        candidate any more, choose the candidate whose predicted usage, with the bundle added, is the least; if the
        bundle had a plan, it may also be the source (see `_chosen`).

        Of candidates with equal usage, the one with the fewest bundles is chosen. A broker with an outdated report is
        chosen only if the reports of all candidates are outdated.
        """
        count = int(np.count_nonzero(candidates))
        if not count:
            return no_choice(NAME), memory
        move = memory.plan.get(bundle)
        planned = None if move is None else snapshot.brokers.index.get(move.destination)
        if move is not None and planned is not None and candidates[planned]:
            choice = PlacementChoice(planned, NAME, Code.PLANNED, count - 1)
            if memory.expected is None or memory.known is None:
                return choice, memory
            home = memory.known.home(snapshot, bundle, move)
            latest = Pending(planned, bundle, move.work, home, move.row, memory.pending)
            return choice, PlacementMemory(memory.known, memory.plan, memory.expected, latest)
        with np.errstate(over="ignore", invalid="ignore"):
            known = memory.known or self._first(snapshot)
            expected = self._expected(snapshot, known, memory)
            work, home = known.work(bundle), known.home(snapshot, bundle)
            usage = expected.usage
            after = np.where(candidates, usage + expected.slope * work, np.inf)
            if home != NOBODY and candidates[home]:
                after[home] = usage[home]
            if not expected.fresh.all() and (candidates & expected.fresh).any():
                after = np.where(expected.fresh, after, np.inf)
            chosen, code = self._chosen(snapshot, move, candidates, expected.counts, usage, after)
        choice = PlacementChoice(chosen, NAME, code, count - 1, figures=_Figures(snapshot.brokers, chosen, after))
        latest = Pending(chosen, bundle, work, home, 0, None)
        return choice, PlacementMemory(known, memory.plan, expected, latest)

    def _chosen(
        self,
        snapshot: LoadSnapshot,
        move: Planned | None,
        candidates: Flags,
        counts: Floats,
        usage: Floats,
        after: Floats,
    ) -> tuple[int, Code]:
        """Return the row of the chosen broker, and the code of the rule that chose it: the candidate whose usage would
        be the lowest with the bundle added. For a planned move, return the source instead if even that candidate would
        then have at least the present usage of the source.
        """
        least = _least(after, usage, counts, self.settings.band)
        source = None if move is None else snapshot.brokers.index.get(move.source)
        if source is not None and candidates[source] and after[least] >= usage[source]:
            return source, Code.PLANNED_IS_GONE
        return least, Code.LEAST_PREDICTED

    def _first(self, snapshot: LoadSnapshot) -> RoundKnowledge:
        """Return what is known of brokers and bundles before the first shedding round, computed from the reports of
        this snapshot alone.
        """
        loads = first_loads(snapshot)
        lines = next_lines(None, snapshot, loads.units, 0.0, self.settings)
        return RoundKnowledge(snapshot.taken_at_ms, loads, lines, snapshot)

    def _expected(self, snapshot: LoadSnapshot, known: RoundKnowledge, memory: PlacementMemory) -> Expected:
        """Return the expected load for this snapshot. A bundle that was placed counts only if the snapshot lists it as
        on its way to its broker; if it does not, the bundle was not moved.
        """
        before, pairs = memory.expected, snapshot.on_their_way.pairs
        if before is not None and snapshot.has_the_reports_of(before.snapshot):
            counted = before.snapshot.on_their_way.pairs
            if pairs is counted:
                return before
            arrived: dict[tuple[int, str], Pending] = {}
            for bundle in _chain(memory.pending):
                if bundle[:2] in pairs and bundle[:2] not in counted:
                    arrived.setdefault(bundle[:2], bundle)
            if pairs.is_more_by(counted, arrived):
                grown = replace(before, snapshot=snapshot, more=before.more.copy(), counts=before.counts.copy())
                for bundle in arrived.values():
                    if not snapshot.bundles.is_reported_by(bundle.broker, bundle.bundle, bundle.row):
                        _count(grown, bundle.broker, bundle.work, bundle.home)
                return grown
        lines = next_lines(known.lines, snapshot, known.loads.units, 0.0, self.settings)
        # reported usage ends at the limits of a broker, but its traffic does not
        by_traffic = lines.background + lines.slope * known.loads.units.work(snapshot.brokers.latest)
        reported = np.maximum(reported_usage(snapshot, self.settings), by_traffic)
        now_ms = snapshot.taken_at_ms or int(reported_at_ms(snapshot).max(initial=0))
        fresh = now_ms - reported_at_ms(snapshot) <= self.settings.stale_ms
        counts = snapshot.brokers.bundle_count.astype(float)
        expected = Expected(snapshot, reported, np.zeros(len(counts)), lines.slope, counts, fresh)
        for broker, name in sorted(pairs):
            if not snapshot.bundles.is_reported_by(broker, name):
                _count(expected, broker, known.work(name), known.home(snapshot, name))
        return expected

    def planned(self, plan: SheddingPlan, memory: PlacementMemory) -> PlacementMemory:
        """Return the memory for the placements that follow `plan`: the moves of `plan`, and what its round computed
        about bundles and brokers. If another shedder made the plan, return `memory` unchanged.
        """
        if not isinstance(plan, DisturbancePlan):
            return memory
        bundles, brokers = plan.snapshot.bundles, plan.snapshot.brokers.names
        moves = {
            bundles.names[move.row]: Planned(
                brokers[move.source],
                brokers[move.destination],
                _in_parts((plan.loads.recent.item(move.row), plan.loads.settled.item(move.row))),
                move.row,
            )
            for move in plan.moves
        }
        known = RoundKnowledge(plan.verdicts.now_ms, plan.loads, plan.lines, plan.snapshot)
        return PlacementMemory(known, moves)

    def tried(self, plan: SheddingPlan, memory: PlacementMemory) -> PlacementMemory:
        """Return `memory` without planned moves. The caller calls this when the unloads of `plan` have been made or
        have failed.
        """
        return PlacementMemory(memory.known, {}, memory.expected, memory.pending)


def _in_parts(estimates: tuple[float, float]) -> float:
    return round(min(max(estimates), _LARGEST) * _PARTS) / _PARTS


def _chain(latest: Pending | None) -> Iterator[Pending]:
    while latest is not None:
        yield latest
        latest = latest.before


def _count(expected: Expected, broker: int, work: float, home: int) -> None:
    """Count the load of a bundle that moves: add its work (load as one number) to the row `broker`, which gets the
    bundle, and subtract it from the row `home`, the broker whose report includes the bundle.
    """
    if home == broker:
        return
    expected.more[broker] += work
    expected.counts[broker] += 1
    if home != NOBODY:
        expected.more[home] -= work
        expected.counts[home] -= 1


def _least(after: Floats, usage: Floats, counts: Floats, band: float) -> int:
    """Return the row of the broker with the least usage after placement (`after`); of brokers with equal usage, the one
    with the fewest bundles.

    For a bundle without load, all usages count as equal that are at most `band` above the least.
    """
    least = int(after.argmin())
    tolerance = band if after.item(least) - usage.item(least) < IDLE else 1e-9
    equal = (after <= after.item(least) + tolerance).nonzero()[0]
    return int(equal[counts[equal].argmin()]) if len(equal) else least


class _Figures(msgspec.Struct, frozen=True, gc=False):
    """Builds the numbers that explain a choice from `after`, the usage that each broker would have with the bundle
    added: the usage of the chosen broker, and the usages of the brokers that would have been chosen next.

    The usage of a broker that could not be chosen is infinite.
    """

    brokers: BrokerTable
    chosen: int
    after: Floats

    def __call__(self) -> Figures:
        what, names, usage = "predicted usage with the bundle", self.brokers.names, self.after.item(self.chosen)
        ranked = least_rows(self.after, MAX_ALTERNATIVES + 1).tolist()
        others = [row for row in ranked if row != self.chosen and np.isfinite(self.after.item(row))][:MAX_ALTERNATIVES]
        usages = self.after[others].tolist()
        higher = of_figures(what, usages, ">=", f"usage of {names[self.chosen]}", usage, "%")
        codes = [Code.MORE_LOADED] * len(higher)
        rejected = tuple(map(Alternative, (names[row] for row in others), codes, higher))
        if not others:
            return Figures((), rejected)
        best = of_figures(what, [usage], "<=", f"usage of {names[others[0]]}", usages[0], "%")
        return Figures(tuple(best), rejected)
