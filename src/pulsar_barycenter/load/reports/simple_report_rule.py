"""When a broker of the simple load manager writes its report, and how it smooths its memory usage.

Source: Pulsar's `SimpleLoadManagerImpl.writeLoadReportOnZookeeper` (4.2).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pulsar_barycenter.load.reports.load_report import SystemResourceUsage, resources_of
from pulsar_barycenter.load.reports.simple_load_report import LoadReport

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

MEMORY_AVERAGED_OVER_MS: Final = 120_000


def smoothed_memory(average_mib: int, now_mib: int, min_interval_ms: int) -> int:
    """Return the average memory usage (whole MiB) after one more reading, over about the last two minutes.

    `min_interval_ms` is the time between two readings. An average that is not positive is replaced by the reading.
    Worked example: with 5 s between readings the weight is 24, so an average of 100 MiB and a reading of 340 MiB give
    110 MiB.
    """
    if average_mib <= 0:
        return now_mib
    weight = max(1, MEMORY_AVERAGED_OVER_MS // min_interval_ms)
    return ((weight - 1) * average_mib + now_mib) // weight


@dataclass(frozen=True, slots=True)
class SimpleReportRule:
    """The rule for when a broker with the simple load manager writes a report: the shortest and the longest time
    between two reports, the shortest time between two comparisons of usage (ms), and the change of usage, in percentage
    points, that must be exceeded.
    """

    min_interval_ms: float = 5_000
    max_interval_ms: float = 900_000
    usage_interval_ms: float = 60_000
    threshold_percent: float = 10

    @staticmethod
    def of(config: "BrokerConfig") -> "SimpleReportRule":
        return SimpleReportRule(
            min_interval_ms=config.load_balancer_report_update_min_interval_millis,
            max_interval_ms=config.load_balancer_report_update_max_interval_minutes * 60_000,
            usage_interval_ms=config.load_balancer_host_usage_check_interval_minutes * 60_000,
            threshold_percent=config.load_balancer_report_update_threshold_percentage,
        )


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """The result of `judge_report`: `due` is True if a report is to be written now. `usage_compared_at_ms` is when
    usages were last compared (epoch ms); pass it to the next call.
    """

    due: bool
    usage_compared_at_ms: int


def judge_report(
    written: LoadReport,
    bundle_count: int,
    usage: SystemResourceUsage,
    now_ms: int,
    usage_compared_at_ms: int,
    rule: SimpleReportRule,
) -> ReportVerdict:
    """Return whether a report with this number of bundles and this usage must be written now; `written` is the last
    report.

    It must if `written` is older than the longest interval, and it must not if `written` is not older than the
    shortest. Between them it must if the number of bundles has changed, or if usage has changed by more than the
    threshold; usage is compared at most once per usage interval.

    Source: `SimpleLoadManagerImpl.writeLoadReportOnZookeeper`.
    """
    elapsed_ms = now_ms - written.timestamp
    if elapsed_ms > rule.max_interval_ms:
        return ReportVerdict(True, usage_compared_at_ms)
    if elapsed_ms <= rule.min_interval_ms:
        return ReportVerdict(False, usage_compared_at_ms)
    if bundle_count != len(written.bundle_stats):
        return ReportVerdict(True, usage_compared_at_ms)
    if now_ms - usage_compared_at_ms <= rule.usage_interval_ms:
        return ReportVerdict(False, usage_compared_at_ms)
    change = largest_usage_change(written.system_resource_usage, usage)
    return ReportVerdict(change > rule.threshold_percent, now_ms)


def largest_usage_change(before: SystemResourceUsage, now: SystemResourceUsage) -> int:
    """Return the largest change of the usage of a resource between two measurements, in whole percentage points of its
    limit in `now`; at most 100.
    """
    pairs = zip(resources_of(before), resources_of(now), strict=True)
    changes = (abs((new.usage - old.usage) * 100 / new.limit) if new.limit > 0 else 0.0 for old, new in pairs)
    return int(min(100.0, max(changes)))
