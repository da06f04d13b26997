"""The split check of the extensible load manager: split bundles that are too large in several runs in a row.

Each broker examines its own bundles every `loadBalancerSplitIntervalMinutes`. The limits are those of the modular load
manager's BundleSplitterTask. But rates are those of the newest report, so a bundle has to exceed a limit in several
runs in a row; and the boundary is part of the decision.

Worked example (3 runs, at most 10 splits): a bundle of 5 topics carries 40 000 msg/s, 10 000 more than the limit, from
the first minute on. Runs one to three count 1, 2, 3. Run four counts 4, which is more than 3, and splits the bundle at
the hash that the algorithm returns. If it had been quiet in the third minute, the count would have started again at 0.
An eleventh bundle that is due in the same run keeps its count of 3 and is split a minute later.

When to use it: with the extensible load manager, which has no other split check. When not: with an algorithm that
returns several boundaries (flow_or_qps_equally_divide for a very hot bundle), since a bundle is split into two here,
and such a bundle is not split at all.

Source: Pulsar's `DefaultNamespaceBundleSplitStrategyImpl` (4.x). Where we differ: bundles are examined in the order of
their names; only a bundle of exactly the same namespace counts as a parent that is still being split (Pulsar compares
the beginnings of names); a boundary outside the bundle is refused here, not when it is carried out.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from pulsar_barycenter.load.reasons import Code, Compared
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.request import SplitRefusedError, can_divide
from pulsar_barycenter.load.splitting.split_plan import (
    BundleLimits,
    NamespaceCounts,
    SplitPlan,
    SplitRefusal,
    large_bundles,
    namespace_full,
    too_few_topics,
)
from pulsar_barycenter.load.splitting.splitter import Boundaries, Splitter
from pulsar_barycenter.naming.bundle import BundleRange
from pulsar_barycenter.naming.errors import InvalidNameError

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "DefaultNamespaceBundleSplitStrategyImpl"
_HITS_KEY: Final = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"
_MOST_KEY: Final = "loadBalancerMaxNumberOfBundlesToSplitPerCycle"
_ALGORITHM_KEY: Final = "defaultNamespaceBundleSplitAlgorithm"


@dataclass(frozen=True, slots=True)
class DefaultSplitStrategy(Splitter[Mapping[str, int]]):
    """The split strategy of the extensible load manager: a bundle is split when it has exceeded any of `limits` in more
    than `hits` runs in a row.

    In one run, at most `most` bundles of each broker are split; 0: no limit.
    """

    name: ClassVar[str] = NAME
    limits: BundleLimits = field(default_factory=BundleLimits)
    hits: int = 3
    most: int = 10

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            limits=BundleLimits.of(config),
            hits=config.load_balancer_namespace_bundle_split_condition_hit_count_threshold,
            most=config.load_balancer_max_number_of_bundles_to_split_per_cycle,
        )

    def start(self) -> Mapping[str, int]:
        return {}

    def decide(
        self,
        snapshot: LoadSnapshot,
        bundle_counts: Mapping[str, int],
        boundaries: Boundaries,
        memory: Mapping[str, int],
        splitting: Collection[str] = (),
    ) -> tuple[SplitPlan, Mapping[str, int]]:
        """Return the bundles to split, each at one hash; and the memory for the next run: for each bundle the number of
        runs in a row in which it was too large.

        `memory` has these numbers after the previous run. `bundle_counts` is the present number of bundles of each
        namespace, `splitting` are the bundles whose split is under way. `boundaries` is a function that returns the
        hashes at which to split a bundle; it is called only for bundles that pass all other checks.

        The snapshot has the bundles of one broker, or of several brokers that decide together; up to `most` bundles of
        each broker are split in a run. Bundles are examined in the order of their names. When `most` bundles of a
        broker have been chosen, its later bundles are not examined, and their numbers do not change. The numbers also
        do not change for bundles with fewer than two topics, and for bundles that have another owner by their ownership
        record.
        """
        bundles = snapshot.bundles
        large = large_bundles(snapshot, bundles.latest, self.limits, window="current")
        owned = np.ones(len(bundles), bool) if snapshot.extensible is None else snapshot.extensible.owned
        hot = large.any & bundles.sampled
        judged = bundles.sampled & owned & (bundles.topics >= 2)
        run = _Run(snapshot, self, NamespaceCounts(snapshot, bundle_counts), boundaries, _edges(splitting))
        after: dict[str, int] = {}
        for row in np.flatnonzero(hot).tolist():
            name = bundles.names[row]
            if bundles.topics[row] < 2:
                run.refused.append(too_few_topics(row, int(bundles.topics[row])))
            elif not owned[row]:
                run.refused.append(SplitRefusal(row, Code.NOT_OWNED))
            elif name not in run.chosen and (count := run.judge(row, name, memory.get(name, 0) + 1)):
                after[name] = count
        for name, count in memory.items():
            untouched = (
                not judged[row] or run.is_behind(row) for row in _rows_of(bundles.names, name) if bundles.sampled[row]
            )
            if name not in run.chosen and any(untouched):
                after.setdefault(name, count)
        chosen = np.array([row for row, _ in run.chosen.values()], np.int64)
        cuts = tuple(boundary for _, boundary in run.chosen.values())
        return SplitPlan(NAME, snapshot, large, chosen, tuple(run.refused), cuts, run.causes), after


class _Run:
    """One run of the strategy, which examines all bundles that are too large, in the order of their names."""

    def __init__(
        self,
        snapshot: LoadSnapshot,
        settings: DefaultSplitStrategy,
        counts: NamespaceCounts,
        boundaries: Boundaries,
        edges: frozenset[tuple[str, int]],
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._counts = counts
        self._boundaries = boundaries
        self._edges = edges
        self._splits: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self.chosen: dict[str, tuple[int, int]] = {}
        self.causes: dict[int, tuple[Compared, str]] = {}
        self.refused: list[SplitRefusal] = []

    def judge(self, row: int, name: str, count: int) -> int:
        """Decide about one bundle that is too large: choose it to be split, or record why it is not split. `count` is
        for how many runs in a row it has been too large, this run included. Return the number to remember for the next
        run; 0: remember nothing.
        """
        if self.is_behind(row):
            most = float(self._settings.most)
            compared = Compared("splits in this run", most, "=", "maximum", most)
            self.refused.append(SplitRefusal(row, Code.CYCLE_FULL, (compared,), (_MOST_KEY,)))
            return count - 1
        namespace, _, text = name.rpartition("/")
        bundle_range = _divisible(text)
        if bundle_range is None:
            self.refused.append(SplitRefusal(row, Code.RANGE_NOT_DIVISIBLE))
            return count - 1
        verdict = self._verdict(row, name, namespace, bundle_range, count)
        if isinstance(verdict, SplitRefusal):
            self.refused.append(verdict)
            return count
        self.chosen[name] = row, verdict
        self.causes[row] = self._hits(count, ">"), _HITS_KEY
        self._counts.split(int(self._snapshot.bundles.namespace[row]))
        owner = int(self._snapshot.bundles.owner[row])
        self._splits[owner] = self._splits.get(owner, 0) + 1
        if self._splits[owner] == self._settings.most:
            self._last[owner] = row
        return 0

    def is_behind(self, row: int) -> bool:
        """Return whether the broker of the bundle in `row` has reached its maximum of splits in this run before this
        bundle, in the order of names.
        """
        last = self._last.get(int(self._snapshot.bundles.owner[row]))
        return last is not None and row > last

    def _verdict(
        self, row: int, name: str, namespace: str, bundle_range: BundleRange, count: int
    ) -> int | SplitRefusal:
        """Return the hash at which to split the bundle, or why it is not split. `count` is for how many runs in a row
        it has been too large, this run included.
        """
        if count <= self._settings.hits:
            return SplitRefusal(row, Code.TOO_FEW_HITS, (self._hits(count, "<="),), (_HITS_KEY,))
        most = self._settings.limits.max_bundles
        bundles = self._counts.of(int(self._snapshot.bundles.namespace[row]))
        if bundles >= most:
            return namespace_full(row, bundles, most)
        if not self._edges.isdisjoint(((namespace, bundle_range.lower), (namespace, ~bundle_range.upper))):
            return SplitRefusal(row, Code.PARENT_SPLITTING)
        try:
            found = self._boundaries(name)
        except SplitRefusedError as error:
            return _without_boundary(row, str(error))
        if len(found) != 1:
            return _without_boundary(row, f"it returned {len(found)} boundaries")
        if not bundle_range.lower < found[0] < bundle_range.upper:
            return _without_boundary(row, f"0x{found[0]:08x} is not inside the bundle")
        return found[0]

    def _hits(self, count: int, relation: str) -> Compared:
        return Compared("runs in a row", float(count), relation, "threshold", float(self._settings.hits))


def _without_boundary(row: int, detail: str) -> SplitRefusal:
    return SplitRefusal(row, Code.NOT_ONE_BOUNDARY, (), (_ALGORITHM_KEY,), detail)


def _divisible(text: str) -> BundleRange | None:
    try:
        found = BundleRange.parse(text)
    except InvalidNameError:
        return None
    return found if can_divide(found) else None


def _edges(splitting: Iterable[str]) -> frozenset[tuple[str, int]]:
    """Return both ends of the hash range of each bundle that is being split, as pairs (namespace, end). A bundle that
    begins or ends there may be a part (child) of that bundle.

    The bits of upper ends are inverted, to distinguish them from lower ends.
    """
    found: set[tuple[str, int]] = set()
    for name in splitting:
        namespace, _, text = name.rpartition("/")
        try:
            parent = BundleRange.parse(text)
        except InvalidNameError:
            continue
        found |= {(namespace, parent.lower), (namespace, ~parent.upper)}
    return frozenset(found)


def _rows_of(names: Sequence[str], name: str) -> range:
    """Return the rows of a bundle in the sorted `names`; several if several brokers report the bundle."""
    first = last = bisect_left(names, name)
    while last < len(names) and names[last] == name:
        last += 1
    return range(first, last)
