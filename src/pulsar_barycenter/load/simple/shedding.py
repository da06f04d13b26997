"""Shedding by the simple load manager: one bundle from each overloaded broker, if another broker has room for it.

Worked example (overload 85 %, comfort 65 %): a broker with three bundles is at 90 % CPU. It sheds the bundle with the
highest message rate, if a broker that may serve it has CPU, direct memory and both bandwidths below 65 %. The next
lookup of the bundle decides where it goes.

When to use it: a few brokers that are overloaded from time to time. When not: to keep loads even, since a cluster at
84 % and 10 % stays so, and a large overload is reduced by only one bundle per run; or with few bundles per namespace,
since even distribution is applied before load, so a bundle comes back if the broker that shed it then has the fewest of
its namespace.

Source: Pulsar's `SimpleLoadManagerImpl.doLoadShedding` (4.2). Where we differ: bundles that are bound to their broker
(heartbeat, SLA monitor) are neither shed nor counted, so that a broker's only other bundle does not move from broker to
broker; bundles that are equal by the bottleneck are ordered by `reports.stats_rank` without its last criterion (the
cache), and then by name, not by a hash map.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from pulsar_barycenter.load.decisions import OVERLOAD_KEY, Refusal, Unload
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.reports.load_report import (
    COUNT_RESOLUTION,
    RATE_RESOLUTION,
    RESOURCES,
    THROUGHPUT_RESOLUTION,
)
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.simple.placement import Policies
from pulsar_barycenter.load.simple.ranking import truncated
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "SimpleLoadManagerImpl"
_COMFORT_KEY: Final = "loadBalancerBrokerComfortLoadLevelPercentage"
_GRACE_KEY: Final = "loadBalancerSheddingGracePeriodMinutes"
_CPU, _MEMORY, _DIRECT_MEMORY, _BANDWIDTH_IN, _BANDWIDTH_OUT = range(5)
_JUDGED: Final = (_BANDWIDTH_OUT, _BANDWIDTH_IN, _CPU, _DIRECT_MEMORY)


class ResourceType(StrEnum):
    """A resource that may be the bottleneck of a broker; the values are Pulsar's."""

    CPU = "CPU"
    MEMORY = "Memory"
    BANDWIDTH_IN = "BandwidthIn"
    BANDWIDTH_OUT = "BandwidthOut"


_BOTTLENECKS: Final = (
    (ResourceType.CPU, _CPU),
    (ResourceType.MEMORY, _MEMORY),
    (ResourceType.BANDWIDTH_IN, _BANDWIDTH_IN),
    (ResourceType.BANDWIDTH_OUT, _BANDWIDTH_OUT),
)
_CRITERIA: Final = (
    ("message rate", "msg/s"),
    ("topics and sessions", ""),
    ("incoming throughput", "bytes/s"),
    ("outgoing throughput", "bytes/s"),
)
"""The criterion by which a bundle is chosen, and its unit, for each of _BOTTLENECKS."""


def above_load_level(percent: Floats, level: float) -> Flags:
    """Flag the brokers that use more than `level` percent of any resource other than memory. `percent` is
    `BrokerTable.percent`.
    """
    return np.asarray((percent[list(_JUDGED)] > level).any(axis=0))


def below_load_level(percent: Floats, level: float) -> Flags:
    """Flag the brokers that use less than `level` percent of every resource other than memory. `percent` is
    `BrokerTable.percent`.
    """
    return np.asarray((percent[list(_JUDGED)] < level).all(axis=0))


def bottlenecks(percent: Floats) -> Integers:
    """Return for each broker the index in ResourceType of its bottleneck, the most used resource; of equals the first.

    Source: `LoadReport.getBottleneckResourceType`.
    """
    found: Integers = np.argmax(percent[[row for _, row in _BOTTLENECKS]], axis=0).astype(np.int64)
    return found


@dataclass(frozen=True)
class SimpleShedPlan:
    """The shedding plan of the simple load manager: `rows` of `snapshot.bundles`, at most one per broker, sorted by
    broker name.

    `above` flags the overloaded brokers. `refused` has the overloaded brokers that shed nothing: the broker's row, the
    reason, and the row of the bundle that was considered (-1: none). `comfortable` has, for each of `rows`, the row of
    a broker below the comfort level, which could take the bundle.
    """

    snapshot: LoadSnapshot
    settings: SimpleSettings
    rows: Integers
    comfortable: Integers
    above: Flags
    bottleneck: Integers
    refused: tuple[tuple[int, Code, int], ...]

    @property
    def decided(self) -> Self:
        return self

    @property
    def strategy(self) -> str:
        return NAME

    def __len__(self) -> int:
        return len(self.rows)

    def destinations(self) -> Mapping[str, str]:
        """Return an empty mapping: the plan has no destinations, because the next lookup of each bundle chooses its
        broker.
        """
        return {}

    @property
    def reason(self) -> Reason:
        """The reason why the round sheds bundles, or sheds none."""
        if len(self.rows):
            return self.broker_reason(int(self.snapshot.bundles.owner[self.rows[0]]))
        if self.refused:
            return self._refusal(*self.refused[0])
        cause = None
        if len(self.above):
            highest = self.snapshot.brokers.percent[list(_JUDGED)].max(axis=0)
            cause = self.broker_reason(int(np.argmax(highest)))
        return Reason(code=Code.BALANCED, strategy=NAME, settings=(OVERLOAD_KEY,), cause=cause)

    @property
    def usage_spread(self) -> None:
        """Always None: the strategy judges each broker by itself and compares no usages of brokers."""
        return None

    def broker_reason(self, broker: int) -> Reason:
        """Return why the broker in row `broker` counts as overloaded or not: the comparison of its most used
        resource.
        """
        percent = self.snapshot.brokers.percent
        resource = max(_JUDGED, key=lambda row: (percent[row, broker], -row))
        above = bool(self.above[broker])
        usage = Compared(
            f"{RESOURCES[resource].replace('_', ' ')} usage",
            float(percent[resource, broker]) / 100,
            ">" if above else "<=",
            "overload threshold",
            self.settings.overload / 100,
            "%",
        )
        return Reason(
            code=Code.ABOVE_LIMIT if above else Code.BELOW_LIMIT,
            strategy=NAME,
            subject=self.snapshot.brokers.names[broker],
            compared=(usage,),
            settings=(OVERLOAD_KEY,),
            flags=self.snapshot.brokers.flags_of(broker),
        )

    def __iter__(self) -> Iterator[Unload]:
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        for row, other in zip(self.rows.tolist(), self.comfortable.tolist(), strict=True):
            owner = int(bundles.owner[row])
            highest = float(brokers.percent[list(_JUDGED), other].max()) / 100
            comfort = Compared(
                f"highest usage of {brokers.names[other]}",
                highest,
                "<",
                "comfort level",
                self.settings.comfort / 100,
                "%",
            )
            reason = Reason(
                code=Code.HEAVIEST_BUNDLE,
                strategy=NAME,
                subject=bundles.names[row],
                compared=(comfort,),
                settings=(_COMFORT_KEY,),
                flags=("the load values of the bundle are not numbers",) if bundles.suspect[row] else (),
                detail=self._weight(row),
                cause=self.broker_reason(owner),
            )
            yield Unload(bundles.names[row], brokers.names[owner], reason)

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each broker that sheds nothing does not shed."""
        giving = set(self.snapshot.bundles.owner[self.rows].tolist())
        refused = {broker: (code, row) for broker, code, row in self.refused}
        for broker, name in enumerate(self.snapshot.brokers.names):
            if broker in refused:
                yield Refusal("unload", name, self._refusal(broker, *refused[broker]))
            elif broker not in giving:
                yield Refusal("unload", name, self.broker_reason(broker))

    def _refusal(self, broker: int, code: Code, row: int) -> Reason:
        keys = {Code.NONE_COMFORTABLE: (_COMFORT_KEY,), Code.RECENTLY_UNLOADED: (_GRACE_KEY,)}.get(code, ())
        cause = self.broker_reason(broker)
        if row < 0:
            return Reason(code=code, strategy=NAME, subject=self.snapshot.brokers.names[broker], cause=cause)
        bundle = self.snapshot.bundles.names[row]
        return Reason(code=code, strategy=NAME, subject=bundle, detail=self._weight(row), settings=keys, cause=cause)

    def _weight(self, row: int) -> str:
        """Return as text the criterion by which the bundle was chosen, its value, and the resource that is the
        bottleneck.
        """
        kind = int(self.bottleneck[self.snapshot.bundles.owner[row]])
        what, unit = _CRITERIA[kind]
        figure = format_figure(float(_criteria(self.snapshot)[kind][row]), unit)
        return f"compared by {what}, {figure}, because the bottleneck is {_BOTTLENECKS[kind][0]}"


@dataclass(frozen=True, slots=True)
class SimpleShedder(Shedder[None]):
    """The shedder of the simple load manager. `policies` is a function that returns the brokers that may serve a
    bundle.
    """

    name: ClassVar[str] = NAME
    settings: SimpleSettings
    policies: Policies = policy_candidates

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(SimpleSettings.of(config))

    def start(self) -> None:
        return None

    def decide(self, snapshot: LoadSnapshot, memory: None) -> tuple[SimpleShedPlan, None]:
        """Return the plan: from each broker whose usage is above the overload threshold, at most one bundle is
        unloaded.

        Only one bundle is considered: the heaviest by the broker's most used resource. It stays on its broker if it was
        unloaded recently, or if no broker that `policies` allow is below the comfort level. Nothing is unloaded from a
        broker with fewer than two bundles. If the comfort level is above the overload threshold, the broker that has
        the bundle may itself be the one below the comfort level.
        """
        brokers, bundles = snapshot.brokers, snapshot.bundles
        above = above_load_level(brokers.percent, self.settings.overload)
        comfortable = below_load_level(brokers.percent, self.settings.comfort)
        kinds = bottlenecks(brokers.percent) if len(brokers) else np.zeros(0, np.int64)
        movable = bundles.sampled & ~bundles.broker_bound
        counts = np.bincount(bundles.owner[movable], minlength=len(brokers))
        heaviest = _heaviest(snapshot, above, kinds, movable)
        rows: list[int] = []
        destinations: list[int] = []
        refused: list[tuple[int, Code, int]] = []
        for broker in np.flatnonzero(above).tolist():
            if counts[broker] < 2:
                refused.append((broker, Code.TOO_FEW_BUNDLES, -1))
                continue
            row = heaviest[broker]
            # Pulsar passes the namespace here, not the bundle: so topics count as persistent, and only the policies
            # remove candidates
            allowed = self.policies(snapshot, PlacementRequest(bundles.names[row])).kept
            found = np.flatnonzero(allowed & comfortable)
            if not len(found):
                refused.append((broker, Code.NONE_COMFORTABLE, row))
            elif bundles.recently_unloaded[row]:
                refused.append((broker, Code.RECENTLY_UNLOADED, row))
            else:
                rows.append(row)
                destinations.append(int(found[0]))
        plan = SimpleShedPlan(
            snapshot,
            self.settings,
            np.array(rows, np.int64),
            np.array(destinations, np.int64),
            above,
            kinds,
            tuple(refused),
        )
        return plan, memory


def _criteria(snapshot: LoadSnapshot) -> tuple[Floats, Floats, Floats, Floats]:
    """Return four columns over bundles, one for each of _BOTTLENECKS: the values by which bundles are compared if that
    resource is the bottleneck.
    """
    bundles = snapshot.bundles
    counts: Floats = (bundles.topics + bundles.sessions).astype(np.float64)
    return bundles.latest.rate, counts, bundles.latest.throughput_in, bundles.latest.throughput_out


def _heaviest(snapshot: LoadSnapshot, above: Flags, kinds: Integers, movable: Flags) -> dict[int, int]:
    """Return the heaviest of the `movable` bundles of each broker that `above` flags, by the row of the broker; a
    broker without such bundles is omitted. `kinds` are the bottlenecks of the brokers (see `bottlenecks`).
    """
    bundles = snapshot.bundles
    rows = np.flatnonzero(movable & above[bundles.owner]) if len(bundles) else np.zeros(0, np.int64)
    rate, counts, incoming, outgoing = (figures[rows] for figures in _criteria(snapshot))
    steps = [
        truncated(rate / RATE_RESOLUTION),
        truncated(counts / COUNT_RESOLUTION),
        truncated(incoming / THROUGHPUT_RESOLUTION),
        truncated(outgoing / THROUGHPUT_RESOLUTION),
    ]
    owners = bundles.owner[rows]
    by_bottleneck = np.choose(kinds[owners], steps) if len(rows) else np.zeros(0, np.int64)
    rate_steps, count_steps, in_steps, out_steps = steps
    # the last key is the primary one; rows are sorted by name, and the sort is stable
    order = np.lexsort((-count_steps, -rate_steps, -out_steps, -in_steps, -by_bottleneck, owners))
    with_bundles, first = np.unique(owners[order], return_index=True)
    return dict(zip(with_bundles.tolist(), rows[order][first].tolist(), strict=True))
