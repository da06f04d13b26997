"""The plan of the TransferShedder: what it found and chose, turn by turn, and the reasons."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.decisions import OVERLOAD_KEY, Refusal, Unload
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.shedding.shedder import UsageSpread
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures
from pulsar_barycenter.load.snapshot.load_snapshot import ExtensibleLoad, Flags, Floats, Indices, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

STRATEGY: Final = "TransferShedder"

_SPREAD_KEY: Final = "loadBalancerBrokerLoadTargetStd"
_HITS_KEY: Final = "loadBalancerSheddingConditionHitCountThreshold"
_LIST_KEY: Final = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"
_SPLIT_KEY: Final = "loadBalancerAutoBundleSplitEnabled"
_SETTINGS: Final[Mapping[Code, tuple[str, ...]]] = {
    Code.SPREAD_TOO_WIDE: (_SPREAD_KEY,),
    Code.FAR_ABOVE_LEAST: (_SPREAD_KEY,),
    Code.ABOVE_LIMIT: (OVERLOAD_KEY, _SPREAD_KEY),
    Code.BALANCED: (_SPREAD_KEY, OVERLOAD_KEY),
    Code.CONDITION_TOO_NEW: (_HITS_KEY,),
    Code.COOLING_DOWN: ("loadBalanceSheddingDelayInSeconds",),
    Code.OUTDATED_LOAD_DATA: ("loadBalancerBrokerLoadDataTTLInSeconds",),
    Code.ENOUGH_BROKERS_SHED: ("loadBalancerMaxNumberOfBrokerSheddingPerCycle",),
    Code.NO_TOP_BUNDLES: (_LIST_KEY,),
    Code.TOO_FEW_BUNDLES: (_SPLIT_KEY, _LIST_KEY),
    Code.NOTHING_FITS: (_SPLIT_KEY, _LIST_KEY),
    Code.EXCLUDED_NAMESPACE: ("loadBalancerSheddingExcludedNamespaces",),
    Code.RECENTLY_UNLOADED: ("loadBalancerSheddingGracePeriodMinutes",),
    Code.DESTINATION_REFUSES: ("loadBalancerSheddingBundlesWithPoliciesEnabled",),
    Code.DOES_NOT_FIT: ("loadBalancerTransferEnabled", _LIST_KEY),
    Code.LAST_TOP_BUNDLE: (_LIST_KEY,),
}
"""The configuration keys that would change the decision, by its code."""

_SELECTED: Final = "selected traffic with this bundle"
_MAY_LEAVE: Final = "traffic that may leave"

UPON: Final[Mapping[TrafficFigures, str]] = {
    TrafficFigures.NEWEST: "",
    TrafficFigures.WINDOWS: "the pipeline's short-term traffic windows",
    TrafficFigures.LATE: "the newest traffic values, because the pipeline is late",
}
"""The source of the compared traffic, as a reason names it."""

UNLOAD_REASONS: Final[Mapping[Code, str]] = {
    Code.SPREAD_TOO_WIDE: "Overloaded",
    Code.ABOVE_LIMIT: "Overloaded",
    Code.FAR_ABOVE_LEAST: "Underloaded",
    Code.BALANCED: "HitCount",
    Code.CONDITION_TOO_NEW: "HitCount",
    Code.TOO_FEW_BROKERS: "HitCount",
    Code.COOLING_DOWN: "CoolDown",
    Code.OUTDATED_LOAD_DATA: "OutDatedData",
    Code.NO_BROKERS: "NoBrokers",
    Code.NO_LOAD_DATA: "NoLoadData",
    Code.NO_TOP_BUNDLES: "NoLoadData",
    Code.TOO_FEW_BUNDLES: "NoBundles",
    Code.NO_SHEDDABLE_BUNDLE: "NoBundles",
    Code.NOTHING_FITS: "NoBundles",
}
"""Pulsar's name in metrics for the cause of an unload, and for the reason of a cycle that moved nothing."""


@dataclass(frozen=True, slots=True)
class TransferShedderSettings:
    """The settings of the TransferShedder. `target_deviation` and `overload_limit` are fractions; `hit_threshold` is a
    number of cycles, `maximum` is the number of brokers that may give bundles in one cycle. A cycle is one round of
    this strategy.

    A load that was measured longer ago than `load_ttl_ms` does not count. If the load of a broker was measured less
    than `cool_down_ms` after bundles left the broker, the cycle moves nothing. Without `transfer`, bundles get no
    destination, and no bundles are exchanged. With `count_exchanged`, the traffic that comes back in exchange is
    subtracted from the traffic that has left.
    """

    target_deviation: float = 0.25
    overload_limit: float = 0.85
    hit_threshold: int = 3
    maximum: int = 3
    cool_down_ms: float = 180_000
    load_ttl_ms: float = 1_800_000
    transfer: bool = True
    excluded_namespaces: Collection[str] = ()
    count_exchanged: bool = False

    @staticmethod
    def of(config: "BrokerConfig") -> "TransferShedderSettings":
        return TransferShedderSettings(
            target_deviation=config.load_balancer_broker_load_target_std,
            overload_limit=config.load_balancer_broker_overloaded_threshold_percentage / 100.0,
            hit_threshold=config.load_balancer_shedding_condition_hit_count_threshold,
            maximum=config.load_balancer_max_number_of_broker_shedding_per_cycle,
            cool_down_ms=config.load_balance_shedding_delay_in_seconds * 1000,
            load_ttl_ms=config.load_balancer_broker_load_data_ttl_in_seconds * 1000,
            transfer=config.load_balancer_transfer_enabled,
            excluded_namespaces=frozenset(config.load_balancer_shedding_excluded_namespaces),
        )

    @property
    def underloaded_share(self) -> float:
        """A broker is underloaded if its usage is below this fraction of the mean usage, or its throughput below this
        fraction of the throughput of the most loaded broker.
        """
        return min(0.5, max(0.0, self.target_deviation / 2.0))


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the usages whose age is within `load_ttl_ms`: their number, mean and standard deviation
    (fractions), and the sum of their squares.

    `outdated` flags the brokers whose load is too old. If the load cannot be used, so that the cycle moves nothing,
    `skip` is why; `broker` is then the row of the broker that caused this (-1: no particular one), and `elapsed_ms` is
    the time that was compared with the limit.
    """

    outdated: Flags
    count: int = 0
    mean: float = 0.0
    deviation: float = 0.0
    squares: float = 0.0
    skip: Code | None = None
    broker: int = -1
    elapsed_ms: float = 0.0


class Imbalance(msgspec.Struct, frozen=True, gc=False):
    """The most loaded and the least loaded of the remaining brokers (`greatest` and `least`, rows), and why the most
    loaded one has to shed (`cause`; BALANCED: it does not have to).

    `deviation` is the standard deviation of usages, as estimated after the moves chosen so far.
    """

    cause: Code
    greatest: int
    least: int
    deviation: float


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One step of a cycle, in which the most loaded one of the remaining brokers, `imbalance.greatest`, may give
    bundles to the least loaded one. `outcome` is `imbalance.cause` if it gives bundles; otherwise it is why it gives
    none.

    `target` is the traffic (bytes/s) that may leave. `refused` has the rows of the bundles that the destination must
    not take. The bundles are examined in the order of the broker's list. If that ended before the last bundle,
    `stopped` is the row of the bundle at which it ended (otherwise -1), `stop` is why, and `before` is the traffic
    (bytes/s) selected until then.
    """

    imbalance: Imbalance
    target: float
    outcome: Code
    refused: frozenset[int] = frozenset()
    stopped: int = -1
    stop: Code | None = None
    before: float = 0.0

    @property
    def moves(self) -> bool:
        return self.outcome is self.imbalance.cause


@dataclass(frozen=True, slots=True)
class TransferVerdicts:
    """The verdicts of one cycle (a shedding round of the extensible load manager) on all brokers.

    Two columns over brokers have indexes of `turns`: `turn` is the turn in which the broker was the most loaded one,
    and `receives` the turn in which it got bundles; -1 if there was none. `hits` is the number of cycles in a row in
    which brokers were out of balance, this cycle included. `first` is the state at the start of the cycle; None: the
    loads could not be used. `ended` is why there was no further turn.
    """

    settings: TransferShedderSettings
    statistics: Statistics
    hits: int
    first: Imbalance | None
    turns: tuple[Turn, ...]
    ended: Code
    turn: Indices
    receives: Indices
    sheds: Flags
    need: Floats

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if self.statistics.skip is not None:
            return self._skipped(snapshot, self.statistics.skip)
        if self.first is None or self.first.cause is Code.BALANCED or not self.turns:
            return self._condition(snapshot)
        decisive = next((turn for turn in self.turns if turn.moves), None)
        # if no turn moved a bundle, Pulsar's counters prefer a turn without a list
        decisive = decisive or next((turn for turn in self.turns if turn.outcome is Code.NO_TOP_BUNDLES), self.turns[0])
        return self._of_turn(snapshot, decisive)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        load, found = extensible_load(snapshot), self.statistics
        turn, receives = int(self.turn[broker]), int(self.receives[broker])
        if not load.has_load[broker]:
            return self._about(snapshot, broker, Code.NO_LOAD_DATA)
        if turn >= 0:
            return self._of_turn(snapshot, self.turns[turn])
        if found.outdated[broker] and found.skip is Code.OUTDATED_LOAD_DATA:
            age = snapshot.taken_at_ms - int(load.updated_at_ms[broker])
            old = Compared("age of its load data", age / 1000, ">", "limit", self.settings.load_ttl_ms / 1000, "s")
            return self._about(snapshot, broker, Code.OUTDATED_LOAD_DATA, old)
        if not self.turns:
            overall = self.overall(snapshot)
            return msgspec.structs.replace(overall, subject=snapshot.brokers.names[broker], detail=_usage(load, broker))
        if receives >= 0:
            source = snapshot.brokers.names[self.turns[receives].imbalance.greatest]
            detail = f"{_usage(load, broker)}, it receives bundles from {source}"
            return self._about(snapshot, broker, Code.LESSER_OF_PAIR, detail=detail)
        return self._about(snapshot, broker, self.ended)

    def _about(self, snapshot: LoadSnapshot, broker: int, code: Code, *compared: Compared, detail: str = "") -> Reason:
        load = extensible_load(snapshot)
        old = ("its load data is too old, so the mean does not include it",) if self.statistics.outdated[broker] else ()
        return Reason(
            code=code,
            strategy=STRATEGY,
            subject=snapshot.brokers.names[broker],
            compared=compared,
            settings=_SETTINGS.get(code, ()),
            flags=snapshot.brokers.flags_of(broker) + (old if code is not Code.OUTDATED_LOAD_DATA else ()),
            detail=detail or (_usage(load, broker) if load.has_load[broker] else ""),
            upon=UPON[load.traffic],
        )

    def _skipped(self, snapshot: LoadSnapshot, code: Code) -> Reason:
        found = self.statistics
        if found.broker < 0:
            return Reason(code=code, strategy=STRATEGY, settings=_SETTINGS.get(code, ()), upon=_upon(snapshot))
        what, relation, against, limit = "age of its load data", ">", "limit", self.settings.load_ttl_ms
        if code is Code.COOLING_DOWN:
            what, relation, against = "time from unload to load report", "<", "minimum"
            limit = self.settings.cool_down_ms
        elapsed = Compared(what, found.elapsed_ms / 1000, relation, against, limit / 1000, "s")
        compared = () if code is Code.NO_LOAD_DATA else (elapsed,)
        return self._about(snapshot, found.broker, code, *compared)

    def _condition(self, snapshot: LoadSnapshot) -> Reason:
        """Return the reason why no broker gave bundles in this cycle: brokers are in balance, or have been out of
        balance for too few cycles.
        """
        if self.first is None:
            return Reason(code=Code.BALANCED, strategy=STRATEGY, upon=_upon(snapshot))
        compared = self._why(snapshot, self.first)
        if self.first.cause is Code.BALANCED:
            code = Code.BALANCED
        elif self.hits <= self.settings.hit_threshold:
            code = Code.CONDITION_TOO_NEW
            hits = Compared("cycles in a row", self.hits, "<=", "threshold", self.settings.hit_threshold)
            compared = (hits, *compared)
        else:
            code = Code.TOO_FEW_BROKERS
        return Reason(
            code=code,
            strategy=STRATEGY,
            compared=compared,
            settings=_SETTINGS.get(code, ()),
            upon=_upon(snapshot),
        )

    def _why(self, snapshot: LoadSnapshot, found: Imbalance) -> tuple[Compared, ...]:
        """Return the comparisons that show why brokers are out of balance or in balance, according to `found.cause`."""
        load, options, mean = extensible_load(snapshot), self.settings, self.statistics.mean
        share = options.underloaded_share
        usage = float(load.weighted_max_ema[found.greatest])
        least, traffic = float(load.weighted_max_ema[found.least]), float(load.throughput_ema[found.least])
        names = snapshot.brokers.names
        if found.cause is Code.FAR_ABOVE_LEAST:
            of_least = f"of {names[found.least]}"
            if least < mean * share:
                return (Compared(f"usage {of_least}", least, "<", "underload limit", mean * share, "%"),)
            limit = float(load.throughput_ema[found.greatest]) * share
            return (Compared(f"throughput {of_least}", traffic, "<", "underload limit", limit, "bytes/s"),)
        if found.cause is Code.ABOVE_LIMIT:
            return (
                Compared("usage", usage, ">", "overload limit", options.overload_limit, "%"),
                Compared("usage", usage, ">", "mean + target deviation", mean + options.target_deviation, "%"),
            )
        relation = ">" if found.cause is Code.SPREAD_TOO_WIDE else "<="
        return (Compared("standard deviation", found.deviation, relation, "target", options.target_deviation, "%"),)

    def _of_turn(self, snapshot: LoadSnapshot, turn: Turn) -> Reason:
        found, load = turn.imbalance, extensible_load(snapshot)
        names = snapshot.brokers.names
        compared = self._why(snapshot, found)
        if turn.outcome is Code.NOTHING_FITS and turn.stopped >= 0:
            traffic = _traffic(snapshot, turn.stopped)
            compared += (Compared("traffic of the next bundle", traffic, ">", _MAY_LEAVE, turn.target, "bytes/s"),)
        detail = f"{_usage(load, found.greatest)}, {format_figure(turn.target, 'bytes/s')} may leave"
        if self.settings.transfer:
            detail += f" to {names[found.least]} with {_usage(load, found.least)}"
        return self._about(snapshot, found.greatest, turn.outcome, *compared, detail=detail)

    def bundle(self, snapshot: LoadSnapshot, turn: Turn, row: int) -> Reason | None:
        """Return why the bundle in `row` stayed on its broker in the turn `turn`. None: the bundle moves, or it was not
        examined in that turn.
        """
        load, bundles = extensible_load(snapshot), snapshot.bundles
        compared: tuple[Compared, ...] = ()
        if not load.owned[row]:
            code = Code.NOT_OWNED
        elif snapshot.namespaces[bundles.namespace[row]] in self.settings.excluded_namespaces:
            code = Code.EXCLUDED_NAMESPACE
        elif bundles.recently_unloaded[row]:
            code = Code.RECENTLY_UNLOADED
        elif row in turn.refused:
            code = Code.DESTINATION_REFUSES
        elif _traffic(snapshot, row) == 0 and row != turn.stopped:
            code = Code.CARRIES_NOTHING
        elif row == turn.stopped and turn.stop is not None:
            code = turn.stop
            traffic = turn.before + _traffic(snapshot, row)
            if code is Code.DOES_NOT_FIT:
                compared = (Compared(_SELECTED, traffic, ">", _MAY_LEAVE, turn.target, "bytes/s"),)
        else:
            return None
        return Reason(
            code=code,
            strategy=STRATEGY,
            subject=bundles.names[row],
            compared=compared,
            settings=_SETTINGS.get(code, ()),
            flags=_flags(snapshot, row),
            upon=_upon(snapshot),
        )


MOVES: Final = (Code.FITTING_TOP_BUNDLE, Code.EXCHANGED, Code.GIVEN_IN_EXCHANGE)
"""Why a bundle moves; `TransferPlan.moves` are indexes into it."""


@dataclass(frozen=True, slots=True)
class TransferPlan(ShedPlan):
    """The bundles to move, as `rows` in the order of selection. Bundles that are given in exchange for another bundle
    come right before that bundle.

    `before` has, for each row, the traffic (bytes/s) that was selected before it in the same turn. Further columns have
    a value for each row: `destination` is the row of the broker that gets the bundle (-1: the placement strategy
    chooses it), `turn` is an index of `verdicts.turns`, and `moves` is an index of MOVES, which says why the bundle
    moves.
    """

    verdicts: TransferVerdicts
    destination: Indices
    turn: Indices
    moves: NDArray[np.int8]

    def _giver(self, position: int) -> int:
        turn: Turn = self.verdicts.turns[self.turn[position]]
        return turn.imbalance.greatest

    def _unload(self, position: int, cause: Reason) -> Unload:
        row, turn = int(self.rows[position]), self.verdicts.turns[self.turn[position]]
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers
        code, detail = MOVES[self.moves[position]], ""
        compared: tuple[Compared, ...] = ()
        before, traffic = float(self.before[position]), _traffic(self.snapshot, row)
        if code is Code.GIVEN_IN_EXCHANGE:
            back = position + int(np.argmax(self.moves[position:] == MOVES.index(Code.EXCHANGED)))
            detail = f"traffic {format_figure(traffic, 'bytes/s')}, in exchange for {bundles.names[self.rows[back]]}"
        else:
            relation = "<=" if code is Code.FITTING_TOP_BUNDLE else ">"
            chosen = Compared(_SELECTED, before + traffic, relation, _MAY_LEAVE, turn.target)
            compared = (msgspec.structs.replace(chosen, unit="bytes/s"),)
        reason = Reason(
            code=code,
            strategy=self.strategy,
            subject=bundles.names[row],
            compared=compared,
            flags=_flags(self.snapshot, row),
            detail=detail,
            cause=cause,
        )
        goal = int(self.destination[position])
        source = brokers.names[bundles.owner[row]]
        return Unload(bundles.names[row], source, reason, None if goal < 0 else brokers.names[goal])

    def destinations(self) -> Mapping[str, str]:
        """Return the destination of each bundle for which the strategy chose one. This builds no reasons, so it is
        faster than reading the unloads.
        """
        bundles, brokers = self.snapshot.bundles.names, self.snapshot.brokers.names
        pairs = zip(self.rows.tolist(), self.destination.tolist(), strict=True)
        return {bundles[row]: brokers[goal] for row, goal in pairs if goal >= 0}

    def refusals(self) -> Iterator[Refusal]:
        """Yield first why each broker that gives no bundle gives none, and then why each bundle that was examined but
        does not move stays on its broker.
        """
        yield from ShedPlan.refusals(self)
        load, names = extensible_load(self.snapshot), self.snapshot.bundles.names
        moving = set(self.rows.tolist())
        listed = np.flatnonzero(load.top >= 0)
        listed = listed[np.lexsort((load.top[listed], self.snapshot.bundles.owner[listed]))]
        edges = self.snapshot.bundles.owner[listed].searchsorted(np.arange(len(self.snapshot.brokers) + 1))
        for turn in self.verdicts.turns:
            if turn.stop is None and turn.outcome in (Code.NO_TOP_BUNDLES, Code.TOO_FEW_BUNDLES):
                continue
            giver = turn.imbalance.greatest
            for row in listed[edges[giver] : edges[giver + 1]].tolist():
                reason = None if row in moving else self.verdicts.bundle(self.snapshot, turn, row)
                if reason is not None:
                    yield Refusal("unload", names[row], reason)
                if row == turn.stopped:
                    break

    @property
    def usage_spread(self) -> UsageSpread | None:
        """Mean and standard deviation of the usages at the start of the cycle; None if the loads could not be used."""
        found = self.verdicts.statistics
        return UsageSpread(found.mean, found.deviation) if found.skip is None else None


def extensible_load(snapshot: LoadSnapshot) -> ExtensibleLoad:
    if snapshot.extensible is None:
        raise ValueError(
            f"{STRATEGY} needs the reports of the extensible load manager; "
            "make the snapshot with build_extensible_snapshot"
        )
    return snapshot.extensible


def _usage(load: ExtensibleLoad, broker: int) -> str:
    return f"usage {format_figure(float(load.weighted_max_ema[broker]), '%')}"


def _upon(snapshot: LoadSnapshot) -> str:
    return UPON[extensible_load(snapshot).traffic]


def _traffic(snapshot: LoadSnapshot, row: int) -> float:
    short = snapshot.bundles.short
    return float(short.throughput_in[row]) + float(short.throughput_out[row])


def _flags(snapshot: LoadSnapshot, row: int) -> tuple[str, ...]:
    bundles = snapshot.bundles
    found = ("the load values of the bundle are not numbers",) if bundles.suspect[row] else ()
    is_new = extensible_load(snapshot).traffic is TrafficFigures.WINDOWS and not bundles.short_samples[row]
    return (*found, "it has no short-term window, so its newest traffic values count") if is_new else found
