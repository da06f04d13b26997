"""TransferShedder: move bundles from the most loaded broker directly to the least loaded, and exchange large ones.

Worked example (defaults, the fourth cycle in a row like this): usages are 80 %, 40 % and 10 %, so the mean is 43 % and
the standard deviation 29 %, above the target of 25 %. Half the gap between the first and the last broker, 35 points of
80, may leave: of 800 MB/s these are 350 MB/s. Three bundles of 90 MB/s fit and go to the last broker, which carries
100. A fourth would make 360, too much, unless the last broker gives something back: with a bundle of 20 MB/s the first
broker keeps 460, less than three quarters of its 800, and the last has 440, no more than the first. So both bundles
move. The usages are then estimated at 44 %, 40 % and 46 %, their deviation at 2.5 %, and the cycle ends.

Traffic is by the newest reports of brokers, as in Pulsar. With `barycenterExtensiblePipelineEnabled` it is by the
pipeline's short-term windows while the pipeline keeps up. Reasons say which.

When to use it: with the extensible load manager, whose brokers report what it needs. It chooses the destinations, so
that clients are redirected without a lookup. When not: brokers that have a few large bundles, since the walk over a
broker's bundles, lightest first, ends at the first one that does not fit; split these bundles, or lengthen the lists of
top bundles.

Source: Pulsar's `extensions.scheduler.TransferShedder` (4.2; older ones move bundles without traffic, too). Where we
differ: brokers of equal load are ordered by name; nothing leaves a broker without usage (Pulsar divides by the usage,
and lets all but one bundle go); the debug mode decides nothing (only in it does Pulsar subtract what comes back in
exchange from what left, see `count_exchanged`); brokers that are neither registered nor have a load are forgotten.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pulsar_barycenter.load.decisions import Unload
from pulsar_barycenter.load.filters.extensible_filters import AllowedTransfers, ExtensibleFilterSettings
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.shedding.plan import sequential_sum
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.shedding.top_bundles import TopBundles
from pulsar_barycenter.load.shedding.transfer_plan import (
    MOVES,
    STRATEGY,
    Imbalance,
    Statistics,
    TransferPlan,
    TransferShedderSettings,
    TransferVerdicts,
    Turn,
    extensible_load,
)
from pulsar_barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot
from pulsar_barycenter.load.strategy import MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = STRATEGY

MayTransfer: TypeAlias = Callable[[Integers, int, int], Sequence[bool]]
"""Returns for each bundle, by row, whether it may move from one broker to another (rows)."""

_ENOUGH_LEFT: Final = 0.75
"""An exchange needs the giver to keep less than this part of its traffic."""


def always(bundles: Integers, _source: int, _destination: int) -> Sequence[bool]:
    """Return True for each bundle: allow every transfer, without a check of policies."""
    return [True] * len(bundles)


@dataclass(frozen=True, slots=True)
class TransferMemory:
    """What the TransferShedder remembers between cycles: `hits` is the number of cycles in a row in which brokers were
    out of balance; `unloaded_at_ms` is the time (epoch ms) of the last unload of each broker.

    The time of an unload is removed at the first cycle for which the broker's load was measured at least `cool_down_ms`
    after it.
    """

    hits: int = 0
    unloaded_at_ms: Mapping[str, int] = field(default_factory=dict)

    def after_unload(self, broker: str, at_ms: int) -> "TransferMemory":
        """Return the memory after a bundle has left `broker`."""
        return TransferMemory(self.hits, {**self.unloaded_at_ms, broker: at_ms})


@dataclass(frozen=True, slots=True)
class TransferShedder(Shedder[TransferMemory]):
    """The strategy TransferShedder. `allowed` is a function that gets a snapshot and returns another function, which
    says of bundles whether policies and filters allow their transfer.
    """

    name: ClassVar[str] = NAME
    settings: TransferShedderSettings = field(default_factory=TransferShedderSettings)
    allowed: Callable[[LoadSnapshot], MayTransfer] = lambda _snapshot: always

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        filters = ExtensibleFilterSettings.of(config)
        return cls(TransferShedderSettings.of(config), lambda snapshot: AllowedTransfers(snapshot, filters))

    def start(self) -> TransferMemory:
        return TransferMemory()

    def decide(self, snapshot: LoadSnapshot, memory: TransferMemory) -> tuple[TransferPlan, TransferMemory]:
        """Return the plan of bundles to unload, each with its destination, and the memory for the next cycle.

        Brokers are out of balance if the standard deviation of usages is above the target, if the least loaded one is
        underloaded, or if the most loaded one is overloaded. After more than `hit_threshold` cycles in a row in which
        this was so, brokers take turns: the most loaded one of the remaining brokers gives top bundles to the least
        loaded one. This ends when the estimated usages are in balance, when `maximum` brokers gave bundles, or when no
        pair of brokers remains. If any bundle is selected, the count of cycles restarts at 0. Even without `transfer`,
        a bundle is selected only if `allowed` permits its transfer to the least loaded broker.

        Raises:
            ValueError: the snapshot has no reports of the extensible load manager.
        """
        first, hits, ended = None, memory.hits, Code.BALANCED
        with np.errstate(over="ignore", invalid="ignore"):
            found, unloaded_at_ms = _statistics(snapshot, self.settings, memory.unloaded_at_ms)
            cycle = _Cycle(snapshot, self.settings, found, self.allowed(snapshot))
            if found.skip is None:
                first = cycle.imbalance()
                hits = 0 if first.cause is Code.BALANCED else hits + 1
            if first is not None and hits > self.settings.hit_threshold:
                ended = cycle.run()
        plan = cycle.plan(hits, first, ended)
        return plan, TransferMemory(0 if len(plan) else hits, unloaded_at_ms)

    def unloaded(self, unload: Unload, at_ms: int, memory: TransferMemory) -> TransferMemory:
        """Return the memory with the time of this unload. Until the load of the broker has been measured long enough
        after this time, no cycle moves bundles.
        """
        return memory.after_unload(unload.source, at_ms)

    def document(self, memory: TransferMemory) -> MemoryDocument:
        return MemoryDocument(rounds=memory.hits, unloaded_at=dict(memory.unloaded_at_ms))

    def remembered(self, document: MemoryDocument) -> TransferMemory:
        return TransferMemory(document.rounds, document.unloaded_at)


def _statistics(
    snapshot: LoadSnapshot, settings: TransferShedderSettings, unloaded_at_ms: Mapping[str, int]
) -> tuple[Statistics, Mapping[str, int]]:
    """Return the statistics of the loads, or why the loads cannot be used; and the times of last unloads, without those
    that are no longer needed.
    """
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
    # rounding can make the variance of equal usages negative
    deviation = math.sqrt(max(0.0, squares / count - mean * mean))
    return Statistics(outdated, count, mean, deviation, squares), remembered


class _Cycle:
    """The turns of one cycle: the bundles chosen so far, the brokers that remain for further turns, and the estimated
    standard deviation of usages.

    One turn examines few bundles, so it works on lists of Python numbers; numpy columns are used only for the bundles
    of all brokers.
    """

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
        self._throughput = snapshot.brokers.short.throughput.tolist()
        self._squares, self._deviation, self._givers = found.squares, found.deviation, 0
        self._share = settings.underloaded_share
        self._turns: list[Turn] = []
        self._chosen = _Chosen()
        self._offers: Iterator[tuple[int, float]] | None = None

    def imbalance(self) -> Imbalance:
        """Return the most loaded and the least loaded of the remaining brokers, and why the most loaded one has to
        shed, or that it does not have to.
        """
        settings, mean = self._settings, self._found.mean
        greatest, least = self._order[self._high], self._order[self._low]
        share, usage = self._share, self._usage[greatest]
        cause = Code.BALANCED
        if self._deviation > settings.target_deviation:
            cause = Code.SPREAD_TOO_WIDE
        elif self._usage[least] < mean * share or self._throughput_ema[least] < self._throughput_ema[greatest] * share:
            cause = Code.FAR_ABOVE_LEAST
        elif usage > settings.overload_limit and usage > mean + settings.target_deviation:
            cause = Code.ABOVE_LIMIT
        return Imbalance(cause, greatest, least, self._deviation)

    def run(self) -> Code:
        """Let brokers give bundles, one turn after the other; return why no further turn was taken."""
        top = TopBundles(self._snapshot, self._settings.excluded_namespaces)
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
            self._chosen.counts.append(len(self._chosen.rows))

    def _turn(self, found: Imbalance, top: TopBundles) -> Turn:
        usage, throughput = self._usage[found.greatest], self._throughput[found.greatest]
        target = throughput * ((usage - self._usage[found.least]) / 2) / usage if usage else 0.0
        listed, first = top.listed.count(found.greatest), len(self._chosen.rows)
        if listed < 2:
            return Turn(found, target, Code.TOO_FEW_BUNDLES if listed else Code.NO_TOP_BUNDLES)
        end = self._walk(found, target, listed, top)
        if end.out > 0:
            self._gave(found, end.before * usage / throughput if throughput else 0.0)
        outcome = found.cause
        if len(self._chosen.rows) == first:
            outcome = Code.NO_SHEDDABLE_BUNDLE if end.stop is None else Code.NOTHING_FITS
        return Turn(found, target, outcome, frozenset(end.refused), end.stopped, end.stop, end.before)

    def _walk(self, found: Imbalance, target: float, remaining: int, top: TopBundles) -> "_Walk":
        """Choose bundles that leave the most loaded broker: examine its movable top bundles, the lightest first, and
        choose those whose traffic fits into `target` (bytes/s). `remaining` is the number of its top bundles, of which
        one always stays. A bundle that does not fit is chosen only in exchange for bundles of the destination; if this
        is not possible, the walk ends.
        """
        greatest, least, chosen, walk = found.greatest, found.least, self._chosen, _Walk()
        rows, traffic = top.movable.of(greatest)
        allowed = self._may_transfer(rows, greatest, least)
        throughput, out, gain = self._throughput[greatest], 0.0, 0.0
        self._offers = None
        sums = _sums_that_fit(traffic, allowed, target, remaining - 1)
        if sums:
            chosen.rows += rows[: len(sums)].tolist()
            chosen.before.append(0.0)
            chosen.before += sums[:-1]
            out, remaining = sums[-1], remaining - len(sums)
        for at in range(len(sums), len(rows)):
            row, amount, before = int(rows[at]), traffic[at], out - gain
            if not allowed[at]:
                walk.refused.append(row)
                continue
            if remaining <= 1:
                walk.stopped, walk.stop = row, Code.LAST_TOP_BUNDLE
                break
            if amount == 0:
                continue
            if before + amount > target:
                keeps, gets = throughput - out + gain - amount, self._throughput[least] + out - gain + amount
                given, returned = self._exchange(found, top, keeps, gets)
                if not given:
                    walk.stopped, walk.stop = row, Code.DOES_NOT_FIT
                    break
                chosen.exchange(row, given, before)
                gain += returned if self._settings.count_exchanged else 0.0
            else:
                chosen.rows.append(row)
                chosen.before.append(before)
            out += amount
            remaining -= 1
        walk.out, walk.before = out, out - gain
        return walk

    def _exchange(self, found: Imbalance, top: TopBundles, keeps: float, gets: float) -> tuple[list[int], float]:
        """Return the rows of the bundles that the least loaded broker gives back, and their throughput (bytes/s). With
        them, both brokers must end below the present throughput of the giver (the most loaded broker). No rows: this is
        not possible.

        `keeps` and `gets` are the throughputs of giver and taker if nothing is given back. Each bundle of the taker is
        considered only once in a turn, whether it was chosen or not.
        """
        limit = self._throughput[found.greatest]
        enough, returned = limit * _ENOUGH_LEFT, 0.0
        # bundles that come back never lower the giver's throughput
        if not self._settings.transfer or (keeps >= enough and not top.is_any_negative):
            return [], 0.0
        if self._offers is None:
            rows, amounts = top.offered.of(found.least)
            allowed = self._may_transfer(rows, found.least, found.greatest)
            self._offers = compress(zip(rows.tolist(), amounts, strict=True), allowed)
        given = []
        for row, amount in self._offers:
            if keeps + amount < limit and gets - amount < limit:
                keeps, gets, returned = keeps + amount, gets - amount, returned + amount
                given.append(row)
                if gets <= keeps and keeps < enough:
                    return given, returned
        return [], 0.0

    def _gave(self, found: Imbalance, usage: float) -> None:
        """Update the estimated standard deviation of usages after the most loaded broker has given bundles to the least
        loaded one, which lowers its usage by `usage` (a fraction).
        """
        greatest, least = self._usage[found.greatest], self._usage[found.least]
        left, more = max(0.0, greatest - usage), least + usage
        self._squares -= greatest * greatest + least * least
        self._squares += left * left + more * more
        mean = self._found.mean
        self._deviation = math.sqrt(abs(self._squares / self._found.count - mean * mean))
        self._givers += 1
        self._low += 1

    def plan(self, hits: int, first: Imbalance | None, ended: Code) -> TransferPlan:
        """Return the plan: the chosen bundles, with all values that the reasons need. The arguments are the fields of
        `TransferVerdicts` with the same names.
        """
        snapshot, turns, chosen = self._snapshot, self._turns, self._chosen
        brokers, numbers = len(snapshot.brokers), np.arange(len(turns), dtype=np.int32)
        greatest = np.array([turn.imbalance.greatest for turn in turns], np.int32)
        least = np.array([turn.imbalance.least for turn in turns], np.int32)
        moves = np.array([turn.moves for turn in turns], bool)
        turn_of, receives = np.full(brokers, -1, np.int32), np.full(brokers, -1, np.int32)
        need, sheds = np.zeros(brokers), np.zeros(brokers, bool)
        turn_of[greatest] = numbers
        receives[least[moves]] = numbers[moves]
        need[greatest] = [turn.target for turn in turns]
        rows = np.array(chosen.rows, np.int64)
        sheds[snapshot.bundles.owner[rows]] = True
        turn = np.repeat(numbers, np.diff(chosen.counts))
        moved = chosen.moves()
        destination = np.where(moved == MOVES.index(Code.GIVEN_IN_EXCHANGE), greatest[turn], least[turn])
        verdicts = TransferVerdicts(
            self._settings, self._found, hits, first, tuple(turns), ended, turn_of, receives, sheds, need
        )
        return TransferPlan(
            NAME,
            snapshot,
            verdicts,
            rows,
            before=np.array(chosen.before, float),
            destination=destination if self._settings.transfer else np.full_like(destination, -1),
            turn=turn,
            moves=moved,
        )


def _sums_that_fit(traffic: Sequence[float], allowed: Sequence[bool], target: float, most: int) -> Sequence[float]:
    """Return the running sums of the traffic of the first bundles, as long as the sum is at most `target`; at most
    `most` sums.

    The result is empty if any bundle may not leave, or has no traffic: only if the sums rise with each bundle can they
    say how many bundles move.
    """
    if not traffic or not all(allowed) or not min(traffic) > 0:
        return ()
    sums = list(accumulate(traffic[:most]))
    return sums[: bisect_right(sums, target)]


@dataclass(slots=True)
class _Walk:
    """What was found when the top bundles of the broker that gives bundles were examined. The fields are those of
    `Turn` with the same names; `out` is the traffic (bytes/s) that leaves the broker.
    """

    refused: list[int] = field(default_factory=list)
    stopped: int = -1
    stop: Code | None = None
    out: float = 0.0
    before: float = 0.0


class _Chosen:
    """The bundles that leave, in the order of selection, and for each of them the traffic that was selected before it
    in the same turn.

    `counts` has the number of bundles before the first turn, which is 0, and after each turn.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.before: list[float] = []
        self.counts: list[int] = [0]
        self._given: list[int] = []
        self._exchanged: list[int] = []

    def exchange(self, row: int, given: Sequence[int], before: float) -> None:
        """Choose the bundles in the rows `given`, which the destination gives in exchange, and then the bundle in
        `row`. `before` is the traffic (bytes/s) that was selected in this turn so far.
        """
        self._given += range(len(self.rows), len(self.rows) + len(given))
        self._exchanged.append(len(self.rows) + len(given))
        self.rows += [*given, row]
        self.before += [before] * (len(given) + 1)

    def moves(self) -> NDArray[np.int8]:
        moves = np.full(len(self.rows), MOVES.index(Code.FITTING_TOP_BUNDLE), np.int8)
        moves[self._exchanged] = MOVES.index(Code.EXCHANGED)
        moves[self._given] = MOVES.index(Code.GIVEN_IN_EXCHANGE)
        return moves
