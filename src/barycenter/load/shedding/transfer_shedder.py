"""TransferShedder: move bundles from the most loaded broker straight to the least loaded, and exchange what is too big.

Worked example (defaults, the fourth cycle in a row like this): usages 80 %, 40 % and 10 %, so the mean is 43 % and the
standard deviation 29 %, above the target of 25 %. Half the gap between the first and the last, 35 points of 80, may
leave: with 800 MB/s that is 350 MB/s. Three bundles of 90 MB/s fit and go to the last broker, which carries 100. A
fourth would make 360, too much unless the last gives something back: a bundle of 20 MB/s, which leaves the first with
460, less than three quarters of its 800, and the last with 440, no more than that. So both move. Usages are estimated
at 44 %, 40 % and 46 % now, their deviation at 2.5 %, and the cycle ends.

When to use it: with the extensible load manager, whose brokers report what it needs; it says where bundles go, so that
clients are handed over without a lookup. When not: brokers that have a few big bundles, since the walk over a broker's
bundles, lightest first, ends at the first one that does not fit; split those, or lengthen the lists of top bundles.

Source: Pulsar's `extensions.scheduler.TransferShedder` (4.2; older ones move bundles without traffic, too). Where we
differ: brokers of equal load stand in the order of their names; from a broker without usage nothing leaves (Pulsar
divides by it, and lets all but one bundle go); the debug mode decides nothing (only then does Pulsar subtract what
comes back in exchange from what left, see `count_exchanged`); brokers that are neither registered nor have a load are
forgotten.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from barycenter.load.reasons import Code
from barycenter.load.shedding.ordering import by_group
from barycenter.load.shedding.plan import sequential_sum
from barycenter.load.shedding.transfer_plan import (
    MOVES,
    STRATEGY,
    Imbalance,
    Statistics,
    TransferPlan,
    TransferVerdicts,
    Turn,
    extensible_load,
)
from barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = STRATEGY

MayTransfer: TypeAlias = Callable[[LoadSnapshot, int, int, int | None], bool]
"""Tells whether the bundle in that row may leave that broker for that other one (rows)."""

_ENOUGH_LEFT: Final = 0.75
"""An exchange pays once the giver keeps less than this part of its traffic."""
_AT_ONCE: Final = 64


def always(_snapshot: LoadSnapshot, _bundle: int, _source: int, _destination: int | None) -> bool:
    """Allow every transfer."""
    return True


@dataclass(frozen=True, slots=True)
class TransferShedderSettings:
    """`target_deviation` and `overload_limit` are fractions, `hit_threshold` cycles, `maximum` brokers a cycle.

    A broker's load counts unless it was measured longer ago than `load_ttl_ms`, and stops the cycle if it was measured
    less than `cool_down_ms` after bundles left the broker. Without `transfer` nobody is told where bundles go, and
    none are exchanged. With `count_exchanged` what comes back in exchange is subtracted from what left.
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
        """The part of the mean, and of the greatest throughput, below which the least loaded broker is underloaded."""
        return min(0.5, max(0.0, self.target_deviation / 2.0))


@dataclass(frozen=True, slots=True)
class TransferMemory:
    """For how many cycles running brokers were out of balance, and when bundles left which broker (epoch ms).

    A broker is remembered until a load is seen that was measured long enough after.
    """

    hits: int = 0
    unloaded_at_ms: Mapping[str, int] = field(default_factory=dict)

    def after_unload(self, broker: str, at_ms: int) -> "TransferMemory":
        """Return the memory after a bundle has left `broker`; to be called for each unload that succeeded."""
        return TransferMemory(self.hits, {**self.unloaded_at_ms, broker: at_ms})


def transfer_shedder(
    snapshot: LoadSnapshot,
    settings: TransferShedderSettings,
    memory: TransferMemory,
    may_transfer: MayTransfer = always,
) -> tuple[TransferPlan, TransferMemory]:
    """Return what to unload, each with its destination, and the next memory.

    Brokers are out of balance if the standard deviation of usages is above the target, the least loaded one is
    underloaded or the most loaded one overloaded. Once they were for more than `hit_threshold` cycles running, the
    most loaded broker left gives its top bundles to the least loaded one left, turn by turn, until they are in balance
    by estimate, `maximum` brokers gave something or nobody is left. Giving something starts the count anew. Without
    `transfer`, too, `may_transfer` is asked about the least loaded broker.

    Raises:
        ValueError: the snapshot holds nothing of the extensible load manager.
    """
    first, hits, ended = None, memory.hits, Code.BALANCED
    with np.errstate(over="ignore", invalid="ignore"):
        found, unloaded_at_ms = _statistics(snapshot, settings, memory.unloaded_at_ms)
        cycle = _Cycle(snapshot, settings, found, may_transfer)
        if found.skip is None:
            first = cycle.imbalance()
            hits = 0 if first.cause is Code.BALANCED else hits + 1
        if first is not None and hits > settings.hit_threshold:
            ended = cycle.run()
    plan = cycle.plan(hits, first, ended)
    return plan, TransferMemory(0 if len(plan) else hits, unloaded_at_ms)


def _statistics(
    snapshot: LoadSnapshot, settings: TransferShedderSettings, unloaded_at_ms: Mapping[str, int]
) -> tuple[Statistics, Mapping[str, int]]:
    """Return what the loads amount to, or why they cannot be used, and the brokers that are still remembered."""
    load = extensible_load(snapshot)
    ages = snapshot.taken_at_ms - load.updated_at_ms
    outdated = load.has_load & (ages > settings.load_ttl_ms)
    counted = load.has_load & ~outdated
    remembered = {name: at_ms for name, at_ms in sorted(unloaded_at_ms.items()) if name in snapshot.brokers.index}
    for name, at_ms in list(remembered.items()):
        row = snapshot.brokers.index[name]
        elapsed_ms = int(load.updated_at_ms[row]) - at_ms
        if counted[row] and elapsed_ms < settings.cool_down_ms:
            return Statistics(outdated, skip=Code.COOLING_DOWN, broker=row, elapsed_ms=elapsed_ms), remembered
        if counted[row]:
            del remembered[name]
    if not counted.any():
        if not outdated.any():
            return Statistics(outdated, skip=Code.NO_BROKERS), remembered
        row = int(np.argmax(outdated))
        skipped = Statistics(outdated, skip=Code.OUTDATED_LOAD_DATA, broker=row, elapsed_ms=float(ages[row]))
        return skipped, remembered
    silent = load.live & ~load.has_load
    if silent.any():
        return Statistics(outdated, skip=Code.NO_LOAD_DATA, broker=int(np.argmax(silent))), remembered
    usages = load.weighted_max_ema[counted]
    count, total, squares = len(usages), sequential_sum(usages), sequential_sum(usages * usages)
    mean = total / count
    # of equal usages the difference may be a little below 0
    deviation = math.sqrt(max(0.0, squares / count - mean * mean))
    return Statistics(outdated, count, mean, deviation, squares), remembered


class _Cycle:
    """The turns of one cycle: what was chosen so far, who is left, how usages spread by now."""

    def __init__(
        self, snapshot: LoadSnapshot, settings: TransferShedderSettings, found: Statistics, may_transfer: MayTransfer
    ) -> None:
        self._snapshot, self._settings, self._found, self._may_transfer = snapshot, settings, found, may_transfer
        load = extensible_load(snapshot)
        known = np.flatnonzero(load.has_load)
        usages = load.weighted_max_ema[known]
        # stable; -0 comes before 0, as Java compares
        self._order = known[np.lexsort((~np.signbit(usages), usages))].tolist()
        self._low, self._high = 0, len(self._order) - 1
        self._usage, self._throughput_ema = load.weighted_max_ema.tolist(), load.throughput_ema.tolist()
        self._throughput = snapshot.brokers.latest.throughput.tolist()
        self._squares, self._deviation, self._givers = found.squares, found.deviation, 0
        self._turns: list[Turn] = []
        self._chosen: list[tuple[int, int, int, Code, float]] = []
        """Row, destination, turn, why, and the traffic chosen before it."""

    def imbalance(self) -> Imbalance:
        """Return the most and the least loaded of the brokers left, and why the first is to shed."""
        settings, mean = self._settings, self._found.mean
        greatest, least = self._order[self._high], self._order[self._low]
        share, usage = settings.underloaded_share, self._usage[greatest]
        cause = Code.BALANCED
        if self._deviation > settings.target_deviation:
            cause = Code.SPREAD_TOO_WIDE
        elif self._usage[least] < mean * share or self._throughput_ema[least] < self._throughput_ema[greatest] * share:
            cause = Code.FAR_ABOVE_LEAST
        elif usage > settings.overload_limit and usage > mean + settings.target_deviation:
            cause = Code.ABOVE_LIMIT
        return Imbalance(cause, greatest, least, self._deviation)

    def run(self) -> Code:
        """Let brokers take their turns; return why there is not one more."""
        top = _TopBundles(self._snapshot, self._settings.excluded_namespaces)
        while True:
            if self._givers >= self._settings.maximum:
                return Code.ENOUGH_BROKERS_SHED
            if self._low >= self._high:
                return Code.NOT_THE_GREATEST
            found = self.imbalance()
            if found.cause is Code.BALANCED:
                return Code.BALANCED
            self._high -= 1
            self._turns.append(self._turn(found, top))

    def _turn(self, found: Imbalance, top: "_TopBundles") -> Turn:
        greatest, least = found.greatest, found.least
        usage, throughput = self._usage[greatest], self._throughput[greatest]
        target = throughput * ((usage - self._usage[least]) / 2) / usage if usage else 0.0
        remaining = top.count(greatest)
        if remaining < 2:
            return Turn(found, target, Code.TOO_FEW_BUNDLES if remaining else Code.NO_TOP_BUNDLES)
        offers = top.offers(least) if self._settings.transfer else _Offers(np.zeros(0, np.int64), np.zeros(0))
        number, first = len(self._turns), len(self._chosen)
        out, gain = 0.0, 0.0
        refused: set[int] = set()
        stopped, stop = -1, None
        for row, traffic in top.movable(greatest):
            if not self._may_transfer(self._snapshot, row, greatest, least):
                refused.add(row)
                continue
            if remaining <= 1:
                stopped, stop = row, Code.LAST_TOP_BUNDLE
                break
            if traffic == 0:
                continue
            returned, code = 0.0, Code.FITTING_TOP_BUNDLE
            if out - gain + traffic > target:
                keeps, gets = throughput - out + gain - traffic, self._throughput[least] + out - gain + traffic
                given = self._exchange(offers, found, keeps, gets)
                if not given:
                    stopped, stop = row, Code.DOES_NOT_FIT
                    break
                code = Code.EXCHANGED
                for back, amount in given:
                    self._chosen.append((back, greatest, number, Code.GIVEN_IN_EXCHANGE, out - gain))
                    returned += amount
            self._chosen.append((row, least if self._settings.transfer else -1, number, code, out - gain))
            gain += returned if self._settings.count_exchanged else 0.0
            out += traffic
            remaining -= 1
        before = out - gain
        if out > 0:
            self._gave(found, before * usage / throughput if throughput else 0.0)
        outcome = found.cause if len(self._chosen) > first else Code.NO_SHEDDABLE_BUNDLE
        if outcome is not found.cause and stop is not None:
            outcome = Code.NOTHING_FITS
        return Turn(found, target, outcome, frozenset(refused), stopped, stop, before)

    def _exchange(self, offers: "_Offers", found: Imbalance, keeps: float, gets: float) -> list[tuple[int, float]]:
        """Return what the least loaded broker gives back so that both end below what the giver carries; none: nothing.

        `keeps` and `gets` are the throughputs of giver and taker if nothing comes back. Offers that are passed over or
        taken are not made again.
        """
        limit = self._throughput[found.greatest]
        given: list[tuple[int, float]] = []
        while offers.remain():
            rows, traffic = offers.pass_over(keeps, gets, limit)
            # as long as each of the next ones fits in turn
            kept = np.add.accumulate(np.concatenate(([keeps], traffic)))[1:]
            got = np.subtract.accumulate(np.concatenate(([gets], traffic)))[1:]
            pays = (got <= kept) & (kept < limit * _ENOUGH_LEFT)
            fits = (kept < limit) & (got < limit)
            run = len(fits) if fits.all() else int(np.argmin(fits))
            for at in range(run):
                offers.position += 1
                if not self._may_transfer(self._snapshot, int(rows[at]), found.least, found.greatest):
                    break
                given.append((int(rows[at]), float(traffic[at])))
                keeps, gets = float(kept[at]), float(got[at])
                if pays[at]:
                    return given
        return []

    def _gave(self, found: Imbalance, usage: float) -> None:
        """Estimate how usages spread after the greatest gave that much of its usage to the least."""
        greatest, least = self._usage[found.greatest], self._usage[found.least]
        left, more = max(0.0, greatest - usage), least + usage
        self._squares -= greatest * greatest + least * least
        self._squares += left * left + more * more
        mean = self._found.mean
        self._deviation = math.sqrt(abs(self._squares / self._found.count - mean * mean))
        self._givers += 1
        self._low += 1

    def plan(self, hits: int, first: Imbalance | None, ended: Code) -> TransferPlan:
        """Return what was chosen, with all that is to be said of it."""
        snapshot, brokers = self._snapshot, len(self._snapshot.brokers)
        turn, receives = np.full(brokers, -1, np.int32), np.full(brokers, -1, np.int32)
        need, sheds = np.zeros(brokers), np.zeros(brokers, bool)
        for number, one in enumerate(self._turns):
            turn[one.imbalance.greatest] = number
            need[one.imbalance.greatest] = one.target
            if one.moves:
                receives[one.imbalance.least] = number
        rows = np.array([chosen[0] for chosen in self._chosen], np.int64)
        sheds[snapshot.bundles.owner[rows]] = True
        verdicts = TransferVerdicts(
            self._settings, self._found, hits, first, tuple(self._turns), ended, turn, receives, sheds, need
        )
        return TransferPlan(
            NAME,
            snapshot,
            verdicts,
            rows,
            before=np.array([chosen[4] for chosen in self._chosen], float),
            destination=np.array([chosen[1] for chosen in self._chosen], np.int32),
            turn=np.array([chosen[2] for chosen in self._chosen], np.int32),
            moves=np.array([MOVES.index(chosen[3]) for chosen in self._chosen], np.int8),
        )


class _TopBundles:
    """The brokers' lists of top bundles, in their order."""

    def __init__(self, snapshot: LoadSnapshot, excluded_namespaces: Collection[str]) -> None:
        load, bundles = extensible_load(snapshot), snapshot.bundles
        self._latest, self._place = bundles.latest, load.top
        self._offered: dict[int, tuple[Integers, Floats]] = {}
        listed = np.flatnonzero(load.top >= 0)
        order, self._edges = by_group(bundles.owner[listed], len(snapshot.brokers))
        self._rows = listed[order]
        excluded = np.array([name in excluded_namespaces for name in snapshot.namespaces], bool)
        self._movable: Flags = load.owned & ~bundles.recently_unloaded
        if excluded.any():
            self._movable &= ~excluded[bundles.namespace]

    def count(self, broker: int) -> int:
        return int(self._edges[broker + 1] - self._edges[broker])

    def offers(self, broker: int) -> "_Offers":
        """Return those of the list that carry something, to be offered in exchange."""
        if broker not in self._offered:
            rows = self._of(broker)
            traffic = self._traffic(rows)
            self._offered[broker] = rows[traffic != 0], traffic[traffic != 0]
        return _Offers(*self._offered[broker])

    def movable(self, broker: int) -> Iterator[tuple[int, float]]:
        """Yield row and traffic of those that the broker owns, not excluded and not unloaded recently."""
        rows = self._of(broker)
        rows = rows[self._movable[rows]]
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            yield from zip(some.tolist(), self._traffic(some).tolist(), strict=True)

    def _of(self, broker: int) -> Integers:
        rows = self._rows[self._edges[broker] : self._edges[broker + 1]]
        return rows[np.argsort(self._place[rows])]

    def _traffic(self, rows: Integers) -> Floats:
        return self._latest.throughput_in[rows] + self._latest.throughput_out[rows]


@dataclass(slots=True)
class _Offers:
    """What a broker might give in exchange during one turn; the ones before `position` have been offered."""

    rows: Integers
    traffic: Floats
    position: int = 0

    def remain(self) -> bool:
        return self.position < len(self.rows)

    def pass_over(self, keeps: float, gets: float, limit: float) -> tuple[Integers, Floats]:
        """Go on to the first offer that leaves both brokers below `limit`; return it and all after it."""
        ahead = self.traffic[self.position :]
        fits = (keeps + ahead < limit) & (gets - ahead < limit)
        self.position += int(np.argmax(fits)) if fits.any() else len(ahead)
        return self.rows[self.position :], self.traffic[self.position :]
