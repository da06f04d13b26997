"""Decides whether the load report of a broker has arrived, after its restart or after it received bundles.

The next broker may leave only when the leader knows the higher load of the receivers. Where the leader shows its
reports, these are read. Where only the broker's last publication is known, a new one counts. Where neither is visible,
time decides: a broker measures its bundles every `statsUpdateFrequencyInSecs`, and compares them with its last report
every `loadBalancerReportUpdateMinIntervalMillis`; after both, what it has not published is below the thresholds
`loadBalancerReportUpdateThresholdPercentage`.

Times of reports are only compared with other times of the same broker: its clock may be wrong.

Source: Pulsar's `ModularLoadManagerImpl.needBrokerDataUpdate`, `BrokerLoadDataReporter`, `LoadReportUpdaterTask`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_INTERVALS: Final = 3
_USUAL_INTERVAL_MS: Final = 5_000.0
_USUAL_STATS_S: Final = 60.0
_MAX_SETTLE_S: Final = 900.0
_INTERVAL_KEY: Final = "loadBalancerReportUpdateMinIntervalMillis"
_STATS_KEY: Final = "statsUpdateFrequencyInSecs"


class Where(enum.StrEnum):
    LEADER = "at the leader"
    PUBLISHED = "published"
    UNSEEN = "not visible"


@dataclass(frozen=True, slots=True)
class SeenReport:
    """The newest report of a broker. `at_ms` is the time in the report, by the broker's clock; 0 if there is no report.
    `life` identifies the broker process that wrote it; blank if the report does not say. If `lists_bundles` is True,
    the source names the bundles with load, and `bundles` are these; otherwise it does not name them, and `bundles` is
    empty.
    """

    where: Where
    at_ms: int = 0
    life: str = ""
    bundles: frozenset[str] = frozenset()
    lists_bundles: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """Whether the expected load report of a broker has arrived, and a sentence that says how this is known, or what is
    missing.
    """

    is_arrived: bool
    sentence: str


_NO_REPORT: Final = Arrival(False, "it has no report yet")
_NO_NEW: Final = Arrival(False, "it has no new report yet")


def receivers_arrival(
    seen: SeenReport, before: SeenReport, expected: frozenset[str], waited_s: float, settle_s: float
) -> Arrival:
    """Return whether the report of a broker that received bundles has arrived. `seen` is the newest report.

    `before` is the report that was there when the moves had ended, `expected` are the received bundles that have load,
    `waited_s` is the time since the wait began. A broker whose load has changed little may publish no new report: after
    `settle_s` seconds (see the function `settle_s`) the present report counts.
    """
    if seen.where is Where.UNSEEN:
        return _by_time(waited_s, settle_s)
    missing = expected - seen.bundles if seen.lists_bundles else frozenset()
    if missing:
        return Arrival(False, f"its report does not have {min(missing)} yet")
    if not seen.at_ms:
        return _NO_REPORT
    if seen.at_ms != before.at_ms:
        return Arrival(True, f"its new report is {seen.where}")
    if waited_s >= settle_s:
        return Arrival(True, f"no new report within {settle_s:g} s, so the change is below the thresholds")
    return _NO_NEW


def restarted_arrival(
    seen: SeenReport, life: str, before_ms: int, when_back: SeenReport, waited_s: float, settle_s: float
) -> Arrival:
    """Return whether a report of a broker that has restarted has arrived. `seen` is the newest report.

    `life` is the identity of the new process, `before_ms` the time in its report before the restart, `when_back` the
    report at the moment when the broker was back, `waited_s` the time since then. A report that does not say which
    process wrote it may be the last one of the old process. It counts if it is newer than `when_back`, or if `settle_s`
    seconds have passed, because the new process has then replaced the old report.
    """
    if seen.where is Where.UNSEEN:
        return _by_time(waited_s, settle_s)
    if not seen.at_ms:
        return _NO_REPORT
    if seen.life and life:
        return Arrival(True, f"its new report is {seen.where}") if seen.life == life else _NO_NEW
    if seen.at_ms != before_ms and (seen.at_ms != when_back.at_ms or waited_s >= settle_s):
        return Arrival(True, f"its new report is {seen.where}")
    return _NO_NEW


def _by_time(waited_s: float, settle_s: float) -> Arrival:
    return Arrival(
        waited_s >= settle_s,
        f"not visible; after {settle_s:g} s each change above the thresholds has been published",
    )


def settle_s(settings: Mapping[str, str]) -> float:
    """Return the time in seconds, at most 900, within which a broker with these settings publishes a report after a
    change of its load above its thresholds.
    """
    interval_s = _INTERVALS * _figure(settings, _INTERVAL_KEY, _USUAL_INTERVAL_MS) / 1000
    return min(interval_s + _figure(settings, _STATS_KEY, _USUAL_STATS_S), _MAX_SETTLE_S)


def _figure(settings: Mapping[str, str], key: str, usual: float) -> float:
    try:
        return max(0.0, float(settings.get(key, usual)))
    except ValueError:
        return usual
