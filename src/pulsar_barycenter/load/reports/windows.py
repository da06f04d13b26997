"""The short-term and long-term windows of bundles: one definition for the live fold, the batch and the stream.

A window of at most `max` samples is a pair (average, n). A sample x updates it by

    n       <- min(n + 1, max)
    average <- ((n - 1) * average + x) / n

so the first `max` samples give the arithmetic mean, and later ones an exponential average in which the newest sample
has the weight 1/max. The first sample replaces whatever the average was before (n = 1).

**One sample per bundle per load report.** A report is identified by (broker, incarnation, sequence) and counts once,
however often it is seen. (Pulsar's code samples every bundle again at each notification of any broker, so its windows
cover less time in larger clusters; its documents describe what is done here.)

A bundle that no broker reported for longer than HISTORY_GAP_MS starts again with its next sample. A bundle that moves
from one broker to another keeps its history. (Pulsar forgets a bundle as soon as no broker reports it.)

Needs no numpy; `fold` accepts numbers and numpy arrays.

Source: Pulsar's `TimeAverageMessageData.update`, `BundleData.update`, `ModularLoadManagerImpl.updateBundleData`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pulsar_barycenter.load.reports.load_report import (
    DEFAULT_STATS,
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    TimeAverageBrokerData,
    TimeAverageMessageData,
    default_bundle_data,
)

__all__ = [
    "HISTORY_GAP_MS",
    "LARGEST_RATE",
    "LONG_SAMPLES",
    "SHORT_SAMPLES",
    "LiveFold",
    "bounded_rate",
    "broker_averages",
    "fold",
    "fold_bundle",
    "fold_window",
]

LARGEST_RATE: Final = 1e300
"""Rates and throughputs are bounded to this value where their sums could become infinite."""

HISTORY_GAP_MS: Final = 3_600_000
"""A bundle is forgotten after this time without a report: well above 15 minutes, the longest time between reports."""
INCARNATIONS: Final = 8
"""The number of starts of a broker that are remembered; the newest ones."""

Average = TypeVar("Average", bound="_Arithmetic")
Count = TypeVar("Count", bound="_Arithmetic")


class _Arithmetic(Protocol):
    """The type of values with which `fold` computes: a number, or an array of numbers, which is computed
    elementwise.
    """

    def __add__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...


def fold(average: Average, n: Count, sample: Average, max_samples: int) -> tuple[Average, Count]:
    """Return the average and the number of samples of a window after one more `sample`. `n` is the number of samples so
    far, from 0 to `max_samples`; the new number is from 1 to `max_samples`, at which it stays.

    The arguments are numbers, or arrays of one shape that are processed elementwise (columns of many bundles).
    """
    count = n + (n < max_samples)
    return ((count - 1) * average + sample) / count, count


def bounded_rate(rate: float) -> float:
    """Return `rate` bounded to ±LARGEST_RATE; 0 for NaN and infinite values."""
    return max(-LARGEST_RATE, min(LARGEST_RATE, rate)) if math.isfinite(rate) else 0.0


def fold_window(window: TimeAverageMessageData, sample: NamespaceBundleStats) -> TimeAverageMessageData:
    """Return `window` after one more sample. If its count of samples is out of range, which is possible in a record
    that another program wrote, the count is bounded first.

    An average that would not be finite is computed from bounded values (`bounded_rate`) instead.
    """
    limit = max(1, window.max_samples)
    before = min(max(0, window.num_samples), limit)
    rate_in, count = fold(window.msg_rate_in, before, sample.msg_rate_in, limit)
    found = TimeAverageMessageData(
        max_samples=limit,
        num_samples=count,
        msg_throughput_in=fold(window.msg_throughput_in, before, sample.msg_throughput_in, limit)[0],
        msg_throughput_out=fold(window.msg_throughput_out, before, sample.msg_throughput_out, limit)[0],
        msg_rate_in=rate_in,
        msg_rate_out=fold(window.msg_rate_out, before, sample.msg_rate_out, limit)[0],
    )
    if math.isfinite(found.msg_throughput_in + found.msg_throughput_out + found.msg_rate_in + found.msg_rate_out):
        return found

    def bounded(average: float, sampled: float, folded: float) -> float:
        if math.isfinite(folded):
            return folded
        return fold(bounded_rate(average), before, bounded_rate(sampled), limit)[0]

    return TimeAverageMessageData(
        max_samples=limit,
        num_samples=count,
        msg_throughput_in=bounded(window.msg_throughput_in, sample.msg_throughput_in, found.msg_throughput_in),
        msg_throughput_out=bounded(window.msg_throughput_out, sample.msg_throughput_out, found.msg_throughput_out),
        msg_rate_in=bounded(window.msg_rate_in, sample.msg_rate_in, found.msg_rate_in),
        msg_rate_out=bounded(window.msg_rate_out, sample.msg_rate_out, found.msg_rate_out),
    )


def fold_bundle(data: BundleData, sample: NamespaceBundleStats) -> BundleData:
    """Return `data` after one more sample of the bundle: the sample is added to both windows, and its number of topics
    replaces that in `data`.
    """
    return BundleData(
        short_term_data=fold_window(data.short_term_data, sample),
        long_term_data=fold_window(data.long_term_data, sample),
        topics=sample.topics,
    )


def broker_averages(
    bundles: Iterable[str], data: Mapping[str, BundleData], default: NamespaceBundleStats = DEFAULT_STATS
) -> TimeAverageBrokerData:
    """Return the sums of the windows of `bundles`; a bundle without data adds `default` to the short and long sums.

    The windows are added in the order of the names, so that the order of reports does not matter. Source: Pulsar's
    `TimeAverageBrokerData.reset`.
    """
    short = [0.0, 0.0, 0.0, 0.0]
    long = [0.0, 0.0, 0.0, 0.0]
    for name in sorted(bundles):
        found = data.get(name)
        _add(short, default if found is None else found.short_term_data)
        _add(long, default if found is None else found.long_term_data)
    return TimeAverageBrokerData(
        short_term_msg_throughput_in=short[0],
        short_term_msg_throughput_out=short[1],
        short_term_msg_rate_in=short[2],
        short_term_msg_rate_out=short[3],
        long_term_msg_throughput_in=long[0],
        long_term_msg_throughput_out=long[1],
        long_term_msg_rate_in=long[2],
        long_term_msg_rate_out=long[3],
    )


def _add(sums: list[float], traffic: NamespaceBundleStats | TimeAverageMessageData) -> None:
    sums[0] += traffic.msg_throughput_in
    sums[1] += traffic.msg_throughput_out
    sums[2] += traffic.msg_rate_in
    sums[3] += traffic.msg_rate_out


class _Identity(NamedTuple):
    sequence: int
    start_timestamp: int
    last_update: int


class LiveFold:
    """The windows (averages over time) of all bundles, updated by each load report that arrives.

    `bundles` has the data of every bundle that was reported within HISTORY_GAP_MS, and of every bundle that `remember`
    set. `reports` has the newest report of every known broker. A bundle that moves to another broker keeps its windows.
    """

    __slots__ = ("_as_of", "_none_before_ms", "_seen", "bundles", "reports")

    def __init__(self) -> None:
        self.bundles: dict[str, BundleData] = {}
        self.reports: dict[str, LocalBrokerData] = {}
        self._as_of: dict[str, int] = {}
        self._none_before_ms = 0
        """A lower bound of the times of bundles that no broker reports. It saves searching for bundles to drop before
        one can be old enough."""
        self._seen: dict[str, dict[str, _Identity]] = {}
        """Broker to incarnation to its newest report, for at most INCARNATIONS incarnations."""

    def is_new(self, broker: str, report: LocalBrokerData) -> bool:
        """Return whether `report` must be included in the windows: it was not included before, and it is not older than
        a report of the same broker that was.

        Each report is included once, even if reports of several incarnations of a broker alternate.
        """
        known = self._seen.get(broker)
        if known is None:
            return True
        if report.start_timestamp < max(identity.start_timestamp for identity in known.values()):
            return False
        seen = known.get(report.incarnation)
        if seen is None:
            return True
        if report.sequence or seen.sequence:
            return report.sequence > seen.sequence
        # brokers of Apache Pulsar do not number their reports, which differ in their time only
        return report.last_update > seen.last_update

    def unknown(self, report: LocalBrokerData) -> list[str]:
        """Return the bundles of `report` of which this object has no data. The caller reads their stored data, if any,
        and passes it to `remember` before it calls `accept`.
        """
        return [name for name in report.last_stats if name not in self.bundles]

    def remember(self, name: str, data: BundleData, as_of_ms: int) -> None:
        """Set the data of a bundle, which was valid at `as_of_ms` (epoch ms), unless the bundle already has data."""
        if name not in self.bundles:
            self.bundles[name] = data
            self._as_of[name] = as_of_ms
            self._none_before_ms = min(self._none_before_ms, as_of_ms)

    def accept(self, broker: str, report: LocalBrokerData) -> bool:
        """Include `report` in the windows if it is new (`is_new`), and return whether it was new.

        If a report that is not new is from a broker without an entry in `reports`, it becomes this entry: the broker
        had left, and came back with the same report. The windows of a bundle start with this report if the bundle has
        no data, or if its last report is more than HISTORY_GAP_MS older.
        """
        if not self.is_new(broker, report):
            self.reports.setdefault(broker, report)
            return False
        before = self.reports.get(broker)
        if before is not None:
            self._leave(before.last_stats.keys() - report.last_stats.keys())
        self.reports[broker] = report
        self._see(broker, report)
        for name, sample in report.last_stats.items():
            prior = self.bundles.get(name)
            if prior is None or report.last_update - self._as_of[name] > HISTORY_GAP_MS:
                prior = default_bundle_data()
            self.bundles[name] = fold_bundle(prior, sample)
            self._as_of[name] = max(report.last_update, self._as_of.get(name, 0))
        return True

    def _see(self, broker: str, report: LocalBrokerData) -> None:
        known = self._seen.setdefault(broker, {})
        known.pop(report.incarnation, None)  # the newest comes last
        known[report.incarnation] = _Identity(report.sequence, report.start_timestamp, report.last_update)
        for incarnation in list(islice(known, max(0, len(known) - INCARNATIONS))):
            del known[incarnation]

    def _leave(self, names: Iterable[str]) -> None:
        """Record that possibly no broker reports these bundles any more: lower `_none_before_ms` to the time of their
        oldest report. `retain` has nothing to drop as long as this time is not too long ago.
        """
        times = (self._as_of[name] for name in names if name in self._as_of)
        self._none_before_ms = min(self._none_before_ms, min(times, default=self._none_before_ms))

    def forget(self, name: str) -> None:
        """Drop the data of a bundle that no longer exists."""
        self.bundles.pop(name, None)
        self._as_of.pop(name, None)

    def retain(self, live: Collection[str], now_ms: int) -> list[str]:
        """Forget brokers that are not in `live`, and bundles that no broker has reported for longer than
        HISTORY_GAP_MS.

        Returns the dropped bundles, sorted. A bundle in the newest report of a live broker is kept, however old this
        report is. Which reports were included is remembered even for brokers that left, so that a late copy of a report
        is not included again.
        """
        for broker in [name for name in self.reports if name not in live]:
            self._leave(self.reports.pop(broker).last_stats)
        if now_ms - self._none_before_ms <= HISTORY_GAP_MS:
            return []
        unreported = set(self._as_of).difference(*(report.last_stats for report in self.reports.values()))
        dropped = sorted(name for name in unreported if now_ms - self._as_of[name] > HISTORY_GAP_MS)
        self._none_before_ms = min((self._as_of[name] for name in unreported.difference(dropped)), default=now_ms)
        for name in dropped:
            self.forget(name)
        return dropped

    def averages(self) -> dict[str, TimeAverageBrokerData]:
        """Return the time averages of every known broker."""
        return {broker: broker_averages(report.last_stats, self.bundles) for broker, report in self.reports.items()}
