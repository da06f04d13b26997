"""The answer of a shedder: the bundles to unload, in order, and the verdict on each broker.

A round unloads at most `barycenterMaxBundlesPerRound` bundles: each unload is a request to the owner, and the next
round follows a minute later. A plan that reached this maximum says so, and which brokers have more bundles to shed.

Numbers stay in columns. `Unload` values and reasons are built when they are read, so that a decision does not
get slower because it can be explained.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.decisions import NO_LIMIT, ROUND_KEY, Refusal, Unload
from pulsar_barycenter.load.reasons import Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.ordering import by_group, heaviest_first, heaviest_values, sheddable_rows
from pulsar_barycenter.load.shedding.shedder import UsageSpread, refusals_to_shed
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

THROUGHPUT_MARGIN = 0.05
"""A fraction of usage that Pulsar adds to the excess, so that a broker ends a little below the limit it exceeded."""

_FIRST_LOOK: Final = 1024
"""Up to this many bundles, sorting all is as fast as finding the heaviest."""


class Verdicts(Protocol):
    """The verdicts of one run of a shedder: columns over brokers that say whether each broker sheds and how much, and
    the reasons for this.
    """

    @property
    def sheds(self) -> Flags:
        """One flag for each broker, set if the shedder decided that the broker sheds load. It may be set although no
        bundle of the broker can be unloaded.
        """
        ...

    @property
    def need(self) -> Floats:
        """The throughput (bytes/s) that each broker should shed. A broker that `sheds` flags sheds at least one bundle,
        even if its value here is 0 or less.
        """
        ...

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        """Return the reason why the run of the shedder chose bundles, or chose none."""
        ...

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        """Return why the broker in this row sheds, or does not."""
        ...


@dataclass(frozen=True, slots=True)
class RoundLimit:
    """What limits the number of bundles of a round: the code for reasons, the name of the limit in a reason, and the
    configuration key that sets the limit.
    """

    code: Code
    name: str
    key: str


ROUND_LIMIT: Final = RoundLimit(Code.ROUND_FULL, "maximum", ROUND_KEY)


@dataclass(frozen=True, slots=True)
class ShedPlan:
    """Bundles to unload: `rows` of `snapshot.bundles`, sorted by broker name; the bundles of one broker are in the
    order of selection.

    `before` has, for each row, the traffic (bytes/s) of the bundles that were selected from the same broker before it.
    `waiting` flags the brokers that have more bundles to unload, which wait for the next round; None: no bundle waits.
    `limit` says what limits the number of bundles of the round.
    """

    strategy: str
    snapshot: LoadSnapshot
    verdicts: Verdicts
    rows: Integers
    before: Floats
    waiting: Flags | None = field(default=None, kw_only=True)
    limit: RoundLimit = field(default=ROUND_LIMIT, kw_only=True)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def decided(self) -> Self:
        return self

    @property
    def reason(self) -> Reason:
        """The reason why the round sheds bundles, or sheds none."""
        asked = np.flatnonzero(self.verdicts.sheds)
        if len(self.rows) == 0 and len(asked) and self.waiting is None:
            return self.broker_reason(int(asked[0]))
        overall = self.verdicts.overall(self.snapshot)
        return overall if self.waiting is None else self._round_full("", overall)

    @property
    def usage_spread(self) -> UsageSpread | None:
        """Mean and standard deviation of the brokers' usages, if the strategy compared usages; else None."""
        return None

    def broker_reason(self, broker: int) -> Reason:
        """Return why the broker in this row sheds, or does not."""
        reason = self.verdicts.broker(self.snapshot, broker)
        if not self.verdicts.sheds[broker] or np.any(self.snapshot.bundles.owner[self.rows] == broker):
            return reason
        if self.waiting is not None and self.waiting[broker]:
            return self._round_full(reason.subject, reason)
        return msgspec.structs.replace(reason, code=Code.NO_SHEDDABLE_BUNDLE)

    def _round_full(self, subject: str, cause: Reason) -> Reason:
        count = float(len(self))
        return Reason(
            code=self.limit.code,
            strategy=self.strategy,
            subject=subject,
            compared=(Compared("bundles of this round", count, "=", self.limit.name, count, "bundles"),),
            settings=(self.limit.key,),
            cause=cause,
        )

    def unload(self, position: int) -> Unload:
        """Return the decision to unload the bundle at index `position` of `rows`, with its reason, and with the
        destination if the strategy chose one.
        """
        return self._unload(position, self.verdicts.broker(self.snapshot, self._giver(position)))

    def __iter__(self) -> Iterator[Unload]:
        why: dict[int, Reason] = {}  # made once per broker, however many of its bundles leave
        for position in range(len(self)):
            giver = self._giver(position)
            if giver not in why:
                why[giver] = self.verdicts.broker(self.snapshot, giver)
            yield self._unload(position, why[giver])

    def _giver(self, position: int) -> int:
        """Return the row of the broker whose verdict is the reason why the bundle at index `position` of `rows` leaves:
        the broker that has the bundle.
        """
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
            # a broker that sheds always gives one bundle, even if the throughput to shed is 0 or less
            compared=(chosen,) if before < need else (),
            flags=("the load values of the bundle are not numbers",) if bundles.suspect[row] else (),
            detail=f"throughput of the bundle {format_figure(traffic, 'bytes/s')}",
            cause=cause,
        )
        return Unload(bundles.names[row], self.snapshot.brokers.names[owner], reason)

    def destinations(self) -> Mapping[str, str]:
        """Return the destination of each bundle for which the strategy chose one. Other bundles are not in the
        mapping.
        """
        return {}

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each broker that sheds nothing does not shed."""
        return refusals_to_shed(self)


def take_heaviest(
    snapshot: LoadSnapshot, sheds: Flags, need: Floats, most: int = NO_LIMIT
) -> tuple[Integers, Floats, Flags | None]:
    """Select the heaviest bundles of each broker that `sheds` flags, until their traffic reaches `need` (bytes/s for
    each broker): at least one bundle of each of these brokers.

    The traffic of a bundle is its short-term throughput in + out (bytes/s). Of bundles with equal traffic, the smaller
    name is selected first. Only bundles that `may_shed` flags are selected. The traffic may exceed `need` with the last
    bundle. If more than `most` bundles would be selected from all brokers, each broker sheds fewer, in proportion to
    how many it would shed.

    Returns the rows, sorted by broker name; for each row, the traffic that was selected from its broker before it; and
    flags of the brokers that have more bundles to shed, or None if there were not more than `most`.

    Source: the loop that Pulsar's ThresholdShedder and OverloadShedder share.
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
    """Return, for the heaviest bundles first, the sum of the traffic of the bundles before each of them. The result
    ends with the bundle by which `need` is reached, and has 1 to `most` items.

    It does not say which bundles these are, because sorting values is faster than sorting positions by value.
    """
    look = min(max(_FIRST_LOOK, len(traffic) // 16), most)
    while True:
        falling = heaviest_values(traffic, look)
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
    """Divide `most` into whole numbers, in proportion to `counts`, whose sum is greater than `most`. What is left by
    rounding down goes, one by one, to the largest remainders; of equal remainders, to the greater `need`.
    """
    shares, rest = np.divmod(counts * most, counts.sum())
    shares[np.lexsort((-need, -rest))[: most - int(shares.sum())]] += 1
    return shares


def sequential_mean(values: Floats) -> float:
    """Return the mean of the values, which are added in their order with a rounding after each addition, as in Pulsar;
    0 if there are no values.

    The values of brokers are sorted by broker name, so the order in which brokers reported does not matter. A sum that
    is rounded only once would differ from Pulsar's in the last bit, even for equal brokers, and with a threshold of 0
    that bit decides.
    """
    return sequential_sum(values) / len(values) if len(values) else 0.0


def sequential_sum(values: Floats) -> float:
    """Return the sum of the values, added in their order with a rounding after each addition. numpy's sum (pairwise),
    and Python's `sum` since 3.12, round in another way.
    """
    return np.add.accumulate(values).item(-1) if len(values) else 0.0
