"""Defines the intervals in which brokers owned bundles. They are derived from load reports only.

An interval begins with a broker's first report that lists the bundle. It ends with the same broker's first report
without it: *moved*, to any broker. It is *split* instead if no broker owned the bundle afterwards, and a part of its
range was reported within an hour (`HISTORY_GAP_MS`). If the broker restarted (another incarnation), or was silent for
more than an hour, the interval ends at the broker's last report: *broker gone*.

Times are those of the owner's clock. They are only compared with times of the same broker, in the order of its
sequences, so the clocks of brokers may differ. The intervals of two owners may then overlap or leave a gap, by the
difference of the clocks plus the time between two reports. If a clock is set back, the last time is used until the
clock reaches it again.

The table has a row of an interval when it begins, another when it ends, another if it turns out to be a split, and
another for each new date on which it continues. So the folder of a date is complete by itself: whole dates can be
deleted, and no file is ever changed. `spark.table_reader.read_table` merges these rows into one. `owners` folds the
reports.
"""

import msgspec

from pulsar_barycenter.pipeline.tables.files import utc_date
from pulsar_barycenter.pipeline.tables.schemas import ENDED_MOVED


class Holding(msgspec.Struct, rename="camel"):
    """The bundles that one broker owns according to its newest report. `bundles` maps each bundle to the time (epoch
    ms) of the first report that listed it; `reported_at` is the time of the newest report.
    """

    incarnation: str
    sequence: int
    reported_at: int
    bundles: dict[str, int]


class Interval(msgspec.Struct, frozen=True, rename="camel"):
    """An interval in which one broker owned a bundle: from `owned_from`, inclusive, to `owned_to`, exclusive, in epoch
    ms. `owned_to` and `ended` are None while the broker owns the bundle. `ended` is ENDED_MOVED, ENDED_SPLIT or
    ENDED_GONE.

    `lost_at` is the time at which reports showed the end. It is later than `owned_to` if the broker stopped reporting:
    by an hour (the history gap) or less.
    """

    bundle: str
    broker: str
    incarnation: str
    owned_from: int
    owned_to: int | None = None
    ended: str | None = None
    lost_at: int = 0


class Ownership(msgspec.Struct, rename="camel"):
    """The stored form of ownership: which bundles each broker owns, and the intervals of ownership that ended recently.
    `owners.Owners` is the form in memory.

    `date` is the UTC date (yyyy-mm-dd) of the newest report. When it changes, all open intervals are written once more,
    to the folder of the new date. "": no report was read yet.
    """

    holdings: dict[str, Holding] = {}
    ended: list[Interval] = []
    date: str = ""


class HoldingStep(msgspec.Struct, frozen=True, rename="camel"):
    """How one report changes the bundles that a broker owns.

    `is_new`: the broker is new, has restarted, or sent no report for more than an hour (the history gap); in all cases
    it has no bundles before this report. The ownership of the `gained` bundles begins at `reported_at` (epoch ms), that
    of the `lost` ones ends then. Both are sorted by name.
    """

    broker: str
    incarnation: str
    sequence: int
    reported_at: int
    is_new: bool
    lost: list[str] = []
    gained: list[str] = []

    def apply(self, holdings: dict[str, Holding]) -> None:
        """Change the broker's entry in `holdings` by this step, in place."""
        if self.is_new:
            holdings[self.broker] = Holding(self.incarnation, self.sequence, self.reported_at, {})
        holding = holdings[self.broker]
        holding.sequence, holding.reported_at = self.sequence, self.reported_at
        for bundle in self.lost:
            del holding.bundles[bundle]
        holding.bundles |= dict.fromkeys(self.gained, self.reported_at)


class OwnershipSteps(msgspec.Struct, frozen=True, rename="camel"):
    """How a batch changed `Ownership`. Applied to the ownership before the batch, it gives the ownership after the
    batch.

    `gone` are brokers that are removed after all `steps`. `ended` are intervals that ended in this batch. `split` are
    intervals that ended in earlier batches, and that this batch showed to be splits. `ended_since` is a time in epoch
    ms: ended intervals whose `lost_at` is earlier are removed. `date` is the new date of `Ownership`.
    """

    steps: list[HoldingStep] = []
    gone: list[str] = []
    ended: list[Interval] = []
    split: list[Interval] = []
    ended_since: int = 0
    date: str = ""

    def apply(self, ownership: Ownership) -> None:
        """Apply the changes to `ownership`, in place."""
        for step in self.steps:
            step.apply(ownership.holdings)
        for broker in self.gone:
            del ownership.holdings[broker]
        split = {msgspec.structs.replace(interval, ended=ENDED_MOVED): interval for interval in self.split}
        before = (split.get(interval, interval) for interval in ownership.ended) if split else ownership.ended
        ownership.ended = [i for i in (*before, *self.ended) if i.lost_at >= self.ended_since]
        ownership.date = self.date


def parts_of(bundle: str) -> tuple[str, str, str]:
    """Return the namespace of a bundle, and the lower and the upper end of its hash range, from the bundle's name.

    The ends are texts: 0x and eight hexadecimal digits. So comparing them as texts is the same as comparing the
    numbers.
    """
    namespace, _, range_text = bundle.rpartition("/")
    lower, _, upper = range_text.partition("_")
    return namespace, lower, upper


def date_of(interval: Interval) -> str:
    """Return the UTC date (yyyy-mm-dd) under which an interval is written: of its begin while the broker owns the
    bundle, otherwise of its end.
    """
    return utc_date(interval.owned_from if interval.owned_to is None else interval.owned_to)
