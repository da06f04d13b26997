"""Defines the intervals in which brokers owned bundles, derived only from load reports.

An interval begins with the first report of a broker that lists the bundle, and ends with the same broker's first report
without it: *moved*, to any broker. It is *split* instead if no broker owned the bundle afterwards, and a part of its
range was reported within an hour (`HISTORY_GAP_MS`). If the broker restarted (another incarnation), or was silent for
more than an hour, the interval ends at the broker's last report: *broker gone*.

Times are by the owner's clock and compared with that broker's times alone, in the order of its sequences, so brokers'
clocks may differ; the intervals of two owners may then overlap, or leave a gap, by as much as the clocks differ and
reports lie apart. A clock that was set back stands still until it has caught up.

In the table an interval is written when it begins, again with its end when it ends, again if it turns out to have been
split, and again for each new date on which it goes on. So a date's folder is complete by itself, whole dates may be
deleted, and no file is ever changed; `spark.table_reader.read_table` makes one row of it. `owners` folds the reports.
"""

import msgspec

from pulsar_barycenter.pipeline.tables.files import utc_date
from pulsar_barycenter.pipeline.tables.schemas import ENDED_MOVED


class Holding(msgspec.Struct, rename="camel"):
    """What one broker owns: bundle to the time (epoch ms) it began; `reported_at` is of its newest report."""

    incarnation: str
    sequence: int
    reported_at: int
    bundles: dict[str, int]


class Interval(msgspec.Struct, frozen=True, rename="camel"):
    """One owner of a bundle, epoch ms. `lost_at` is when the end became known: later than `owned_to` if it is gone."""

    bundle: str
    broker: str
    incarnation: str
    owned_from: int
    owned_to: int | None = None
    ended: str | None = None
    lost_at: int = 0


class Ownership(msgspec.Struct, rename="camel"):
    """What is remembered: what each broker owns, and what ended lately. `date` is the last one written in full.

    This is the form of a file; `owners.Owners` is the one that batches change.
    """

    holdings: dict[str, Holding] = {}
    ended: list[Interval] = []
    date: str = ""


class HoldingStep(msgspec.Struct, frozen=True, rename="camel"):
    """What one report changed of what its broker owns. Of a broker that is new, or began anew, nothing stays.

    What it gained began at `reported_at`; `lost` and `gained` are in the order of names.
    """

    broker: str
    incarnation: str
    sequence: int
    reported_at: int
    is_new: bool
    lost: list[str] = []
    gained: list[str] = []

    def apply(self, holdings: dict[str, Holding]) -> None:
        """Change `holdings`, in place."""
        if self.is_new:
            holdings[self.broker] = Holding(self.incarnation, self.sequence, self.reported_at, {})
        holding = holdings[self.broker]
        holding.sequence, holding.reported_at = self.sequence, self.reported_at
        for bundle in self.lost:
            del holding.bundles[bundle]
        holding.bundles |= dict.fromkeys(self.gained, self.reported_at)


class OwnershipSteps(msgspec.Struct, frozen=True, rename="camel"):
    """What a batch changed of `Ownership`, so that the same is made of the same again.

    `gone` are brokers, after the steps. `split` are intervals of before that turned out to have been split. Of those
    that ended, none is remembered that was lost before `ended_since`.
    """

    steps: list[HoldingStep] = []
    gone: list[str] = []
    ended: list[Interval] = []
    split: list[Interval] = []
    ended_since: int = 0
    date: str = ""

    def apply(self, ownership: Ownership) -> None:
        """Change `ownership`, in place."""
        for step in self.steps:
            step.apply(ownership.holdings)
        for broker in self.gone:
            del ownership.holdings[broker]
        split = {msgspec.structs.replace(interval, ended=ENDED_MOVED): interval for interval in self.split}
        before = (split.get(interval, interval) for interval in ownership.ended) if split else ownership.ended
        ownership.ended = [i for i in (*before, *self.ended) if i.lost_at >= self.ended_since]
        ownership.date = self.date


def parts_of(bundle: str) -> tuple[str, str, str]:
    """Namespace, lower and upper end; ends are compared as text, which for 0x and eight digits is their order."""
    namespace, _, range_text = bundle.rpartition("/")
    lower, _, upper = range_text.partition("_")
    return namespace, lower, upper


def date_of(interval: Interval) -> str:
    """The date (yyyy-mm-dd) of the folder that an interval is written to."""
    return utc_date(interval.owned_from if interval.owned_to is None else interval.owned_to)
