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
    """The newest report of a broker. `at_ms` is the time in it, by the broker's clock, 0 if there is none; `bundles`
    are those with load that it lists, if `lists_bundles`."""

    where: Where
    at_ms: int = 0
    bundles: frozenset[str] = frozenset()
    lists_bundles: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """Whether a report has arrived, and how that is known, or what is missing."""

    is_arrived: bool
    sentence: str


def arrival(
    seen: SeenReport,
    before: SeenReport,
    expected: frozenset[str],
    waited_s: float,
    settle_s: float,
    *,
    must_be_new: bool,
) -> Arrival:
    """Return whether the report that was expected has arrived.

    `before` is the report that was there when the moves had ended or the restart began, `expected` the received bundles
    with load, `settle_s` the result of `settle_s`. `must_be_new`: the broker has restarted, and an old report may be
    that of its old process.
    """
    has_settled = waited_s >= settle_s
    if seen.where is Where.UNSEEN:
        return Arrival(
            has_settled, f"not visible; after {settle_s:g} s each change above the thresholds has been published"
        )
    missing = expected - seen.bundles if seen.lists_bundles else frozenset()
    if missing:
        return Arrival(False, f"its report does not have {min(missing)} yet")
    if not seen.at_ms:
        return Arrival(False, "it has no report yet")
    if seen.at_ms != before.at_ms:
        return Arrival(True, f"its new report is {seen.where}")
    if has_settled and not must_be_new:
        return Arrival(True, f"no new report within {settle_s:g} s, so the change is below the thresholds")
    return Arrival(False, "it has no new report yet")


def settle_s(settings: Mapping[str, str]) -> float:
    """Return the time in seconds, at most 900, in which a broker publishes each change above its thresholds."""
    interval_s = _INTERVALS * _figure(settings, _INTERVAL_KEY, _USUAL_INTERVAL_MS) / 1000
    return min(interval_s + _figure(settings, _STATS_KEY, _USUAL_STATS_S), _MAX_SETTLE_S)


def _figure(settings: Mapping[str, str], key: str, usual: float) -> float:
    try:
        return max(0.0, float(settings.get(key, usual)))
    except ValueError:
        return usual
