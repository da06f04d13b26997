"""What a shedder answers: the bundles that shall leave, in order, and the verdict on each broker.

A round unloads so many bundles at most (`barycenterMaxBundlesPerRound`), since each is a request to its owner, and the
next round follows in a minute. A plan that reached the bound says so, and whose bundles wait.

Figures stay columns; `Unload` values and reasons are made when somebody asks for them, so that explaining costs a
decision nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, ROUND_KEY, Refusal, Unload
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.ordering import by_group, heaviest_figures, heaviest_first, sheddable_rows
from pulsar_barycenter.load.shedding.shedder import UsageSpread
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

THROUGHPUT_MARGIN = 0.05
"""Pulsar's addition to the excess, so that a broker ends somewhat below the line it crossed."""

_FIRST_LOOK: Final = 1024
"""So few bundles are sorted as fast as the heaviest of them are found."""

_SHEDDING: Final = frozenset(
    {
        Code.ABOVE_AVERAGE,
        Code.ABOVE_LIMIT,
        Code.OTHERS_BELOW_LOWER_BOUNDARY,
        Code.FAR_ABOVE_LEAST,
        Code.GAP_LASTED,
        Code.FAR_ABOVE_DEVIATION,
        Code.ABOVE_BAND,
        Code.GIVES_TOO,
        Code.FILLS_ANOTHER,
        Code.TAKES_IN_EXCHANGE,
        Code.TOO_MANY_IDLE,
    }
)


class Verdicts(Protocol):
    """The columns of one strategy's run, and what they say."""

    @property
    def sheds(self) -> Flags:
        """Which brokers shall lose load."""
        ...

    @property
    def need(self) -> Floats:
        """How many bytes/s each of those shall lose; one with 0 or less still gives one bundle."""
        ...

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        """Say why the run chose what it chose, or nothing."""
        ...

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        """Say why the broker in that row sheds, or does not."""
        ...


@dataclass(frozen=True, slots=True)
class ShedPlan:
    """Bundles to unload: `rows` of `snapshot.bundles`, brokers by name and each broker's in the order of selection.

    `before` is the traffic (bytes/s) already chosen from the same broker when a row was chosen. `waiting`, there if the
    round is full, flags the brokers of which more bundles would leave if it were not.
    """

    strategy: str
    snapshot: LoadSnapshot
    verdicts: Verdicts
    rows: Integers
    before: Floats
    waiting: Flags | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def decided(self) -> Self:
        return self

    @property
    def reason(self) -> Reason:
        """Why anything, or nothing, is shed."""
        asked = np.flatnonzero(self.verdicts.sheds)
        if len(self.rows) == 0 and len(asked):
            return self.broker_reason(int(asked[0]))
        overall = self.verdicts.overall(self.snapshot)
        return overall if self.waiting is None else self._round_full("", overall)

    @property
    def usage_spread(self) -> UsageSpread | None:
        """How the usages of brokers spread, if the strategy went by that."""
        return None

    def broker_reason(self, broker: int) -> Reason:
        """Why the broker in that row sheds, or does not."""
        reason = self.verdicts.broker(self.snapshot, broker)
        if reason.code not in _SHEDDING or np.any(self.snapshot.bundles.owner[self.rows] == broker):
            return reason
        if self.waiting is not None and self.waiting[broker]:
            return self._round_full(reason.subject, reason)
        return msgspec.structs.replace(reason, code=Code.NO_SHEDDABLE_BUNDLE)

    def _round_full(self, subject: str, cause: Reason) -> Reason:
        count = float(len(self))
        return Reason(
            code=Code.ROUND_FULL,
            strategy=self.strategy,
            subject=subject,
            compared=(Compared("bundles of this round", count, "=", "maximum", count, "bundles"),),
            settings=(ROUND_KEY,),
            cause=cause,
        )

    def unload(self, position: int) -> Unload:
        """Return the decision at `position` of `rows`: with its reason, and its destination if the strategy has one."""
        return self._unload(position, self.verdicts.broker(self.snapshot, self._giver(position)))

    def __iter__(self) -> Iterator[Unload]:
        why: dict[int, Reason] = {}  # made once a broker, however many bundles it gives
        for position in range(len(self)):
            giver = self._giver(position)
            if giver not in why:
                why[giver] = self.verdicts.broker(self.snapshot, giver)
            yield self._unload(position, why[giver])

    def _giver(self, position: int) -> int:
        """Return the row of the broker whose verdict is why the bundle leaves."""
        return self.snapshot.bundles.owner.item(self.rows.item(position))

    def _unload(self, position: int, cause: Reason) -> Unload:
        row, bundles = self.rows.item(position), self.snapshot.bundles
        owner, short = bundles.owner.item(row), bundles.short
        need, before = self.verdicts.need.item(owner), self.before.item(position)
        traffic = short.throughput_in.item(row) + short.throughput_out.item(row)
        chosen = Compared("throughput already selected", before, "<", "throughput to shed", need, "bytes/s")
        reason = Reason(
            code=Code.HEAVIEST_BUNDLE,
            strategy=self.strategy,
            subject=bundles.names[row],
            # a broker that sheds at all gives one bundle, however little has to leave
            compared=(chosen,) if before < need else (),
            flags=("the load values of the bundle are not numbers",) if bundles.suspect[row] else (),
            detail=f"throughput of the bundle {format_figure(traffic, 'bytes/s')}",
            cause=cause,
        )
        return Unload(bundles.names[row], self.snapshot.brokers.names[owner], reason)

    def destinations(self) -> Mapping[str, str]:
        """Return the broker that each bundle shall go to, of those of which the strategy says so."""
        return {}

    def refusals(self) -> Iterator[Refusal]:
        """Tell of each broker that sheds nothing why."""
        shedding = set(self.snapshot.bundles.owner[self.rows].tolist())
        for row, name in enumerate(self.snapshot.brokers.names):
            if row not in shedding:
                yield Refusal("unload", name, self.broker_reason(row))


def take_heaviest(
    snapshot: LoadSnapshot, sheds: Flags, need: Floats, most: int = NO_LIMIT
) -> tuple[Integers, Floats, Flags | None]:
    """Choose from each broker that `sheds` its heaviest bundles until `need` bytes/s are chosen, at least one.

    Heaviest by short-term throughput in + out; ties fall to the smaller name. Only rows of `may_shed`. The last one
    may overshoot. Returns the rows, brokers in the order of their names, and the traffic chosen before each. If they
    would be more than `most`, each broker gives its heaviest ones, in proportion to how many it would give, and the
    brokers that have more are flagged, too. Source: the loop that Pulsar's ThresholdShedder and OverloadShedder share.
    """
    short, rows = snapshot.bundles.short, sheddable_rows(snapshot, sheds)
    traffic = short.throughput_in[rows] + short.throughput_out[rows]
    order, edges = by_group(snapshot.bundles.owner[rows], len(snapshot.brokers))
    traffic = traffic[order]
    givers = np.flatnonzero(np.diff(edges))
    owned = [slice(edges[broker], edges[broker + 1]) for broker in givers.tolist()]
    sums = [_until(traffic[own], float(need[giver]), most + 1) for own, giver in zip(owned, givers, strict=True)]
    counts, waiting = np.array([len(before) for before in sums], np.int64), None
    if counts.sum() > most:
        shares = _in_proportion(counts, need[givers], most)
        waiting = np.zeros(len(snapshot.brokers), bool)
        waiting[givers] = shares < counts
        counts = shares
    kept, kept_before = [np.zeros(0, np.int64)], [np.zeros(0)]
    for own, before, count in zip(owned, sums, counts.tolist(), strict=True):
        if count:
            kept.append(rows[order[own][heaviest_first(traffic[own], count)]])
            kept_before.append(before[:count])
    return np.concatenate(kept), np.concatenate(kept_before), waiting


def _until(traffic: Floats, need: float, most: int) -> Floats:
    """Return the sum before each of the heaviest until `need` is reached, which are one at least and `most`.

    Which bundles they are is not asked: figures sort faster than positions by figures.
    """
    look = min(max(_FIRST_LOOK, len(traffic) // 16), most)
    while True:
        falling = heaviest_figures(traffic, look)
        before = np.empty(len(falling))
        before[0] = 0.0
        np.add.accumulate(falling[:-1], out=before[1:])
        is_wanting = before < need
        if not is_wanting.all():
            return before[: max(1, int(is_wanting.argmin()))]
        if len(falling) == len(traffic) or look == most:
            return before
        look = min(8 * look, most)


def _in_proportion(counts: Integers, need: Floats, most: int) -> Integers:
    """Divide `most` in proportion to `counts`, whose sum is greater; what rounding leaves goes to the nearest, of equal
    ones to the greater `need`."""
    shares, rest = np.divmod(counts * most, counts.sum())
    shares[np.lexsort((-need, -rest))[: most - int(shares.sum())]] += 1
    return shares


def sequential_mean(values: Floats) -> float:
    """Return the mean, summed one after the other as Pulsar does; 0 without values.

    Rows stand in the order of names, so the order in which brokers were told of does not matter. A sum rounded once
    would differ from Pulsar's in the last bit even for equal brokers, which counts at a threshold of 0.
    """
    return sequential_sum(values) / len(values) if len(values) else 0.0


def sequential_sum(values: Floats) -> float:
    """Return the sum, one after the other and each rounded: neither numpy's pairs nor what `sum` does since 3.12."""
    return np.add.accumulate(values).item(-1) if len(values) else 0.0
