"""Checks of the load data: reports that are old or impossible, and settings that keep load from moving."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.load.installed import BALANCE_INSTALL
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import RESOURCES, LocalBrokerData, ResourceUsage
from pulsar_barycenter.load.reports.publication import LOOK_FILE
from pulsar_barycenter.naming.counted import count_of

_PAUSE_KEY: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_USUAL_PAUSE_MIN: Final = 15.0
_SHORTEST_SILENCE_MS: Final = 60_000
_FUTURE_MS: Final = 60_000
_MAX_OVERUSE: Final = 1.5
"""If the usage is more than this multiple of the limit, one of the two numbers is wrong."""
SWITCHES: Final[Mapping[str, str]] = {
    "loadBalancerEnabled": "no broker sheds, splits or reports automatically",
    "loadBalancerSheddingEnabled": "no bundle ever leaves a broker because of its load",
}
"""Keys that switch balancing off, with the effect."""
_FIGURES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_UNKNOWN: Final = -1.0


def preallocations(picture: Picture) -> Iterator[ClusterFinding]:
    """The leader has assigned bundles to a broker that is not registered.

    Yields a finding for each such broker.
    """
    assert picture.snapshot is not None
    for broker, bundles in sorted(picture.snapshot.preallocated.items()):
        if bundles and broker not in picture.registered:
            yield found(
                Severity.WARNING,
                broker,
                f"the leader has assigned {count_of(len(bundles), 'bundle')} to it, and it is not registered",
                "the next round removes these assignments; if they stay, restart the leader, so that "
                "another one starts "
                "without them",
            )


def old_reports(picture: Picture) -> Iterator[ClusterFinding]:
    """A broker has not reported its load for longer than it may.

    Yields a finding for each such broker that is registered, and for each whose report has a time in the future.
    """
    limit_ms = longest_silence_ms(picture)
    for broker, report, now_ms in _reports(picture):
        at_ms = report.last_update if isinstance(report, LocalBrokerData) else report.reported_at
        if at_ms and now_ms - at_ms > limit_ms and broker in picture.registered:
            yield found(
                Severity.WARNING,
                broker,
                f"its load report is {(now_ms - at_ms) / 60_000:,.0f} min old, and one is due every {_PAUSE_KEY}: the "
                "leader decides on outdated load",
                "look for write errors in its log; if its report stays old, restart the broker",
            )
        elif at_ms and at_ms - now_ms > _FUTURE_MS:
            yield found(
                Severity.WARNING,
                broker,
                f"its load report has a time {(at_ms - now_ms) / 1000:,.0f} s in the future: the clocks differ",
                "synchronize the clocks of both machines by NTP: timedatectl set-ntp true, or chronyc makestep",
            )


def longest_silence_ms(picture: Picture) -> int:
    """Return the age (ms) from which a report is old: twice the longest report interval of any broker."""
    pauses = [_USUAL_PAUSE_MIN]
    for text in [(broker.settings or {}).get(_PAUSE_KEY, "") for broker in picture.answering]:
        try:
            pauses.append(float(text))
        except ValueError:
            continue
    longest = max(pauses[1:], default=_USUAL_PAUSE_MIN)
    return max(round(longest * 2 * 60_000) if math.isfinite(longest) else 0, _SHORTEST_SILENCE_MS)


def absurd_reports(picture: Picture) -> Iterator[ClusterFinding]:
    """A report has impossible values."""
    for broker, report, _ in _reports(picture):
        faults = [fault for name in RESOURCES if (fault := _fault(name, getattr(report, name)))]
        faults += [f"{name} is {getattr(report, name)}" for name in _FIGURES if not _is_amount(getattr(report, name))]
        if faults:
            yield found(
                Severity.WARNING,
                broker,
                f"its load report has impossible values: {'; '.join(faults)}",
                "for bandwidth set loadBalancerOverrideBrokerNicSpeedGbps; for the rest check "
                "loadBalancerHostUsageScope and the limits of its container",
            )


def _fault(name: str, usage: ResourceUsage) -> str:
    if usage.usage == usage.limit == _UNKNOWN:
        return ""
    if not (_is_amount(usage.usage) and math.isfinite(usage.limit)):
        return f"{name} is {usage.usage} of {usage.limit}"
    if usage.limit > 0 and usage.usage > usage.limit * _MAX_OVERUSE:
        return f"{name} is {usage.percent:,.0f} % of its limit"
    return ""


def _is_amount(figure: float) -> bool:
    return math.isfinite(figure) and figure >= 0


def _reports(picture: Picture) -> Iterator[tuple[str, LocalBrokerData | BrokerLoadData, int]]:
    """Yield the load report of each broker, and the time (epoch ms) with which the report's own time is to be compared.
    The reports are those in the leader's snapshot; without a snapshot, those in the metadata store.
    """
    if picture.snapshot is not None:
        now_ms = picture.snapshot.taken_at or picture.now_ms
        for broker, report in sorted(picture.snapshot.brokers.items()):
            yield broker, report, now_ms
        if picture.snapshot.extensible is not None:
            for broker, load in sorted(picture.snapshot.extensible.loads.items()):
                yield broker, load, now_ms
    elif picture.store is not None:
        for broker, stored in sorted(picture.store.brokers.items()):
            if stored is not None and stored.last_update:
                yield broker, stored, picture.now_ms


def idle_shedder(picture: Picture) -> Iterator[ClusterFinding]:
    """Load never moves, because balancing or shedding is off, or there is only one broker.

    Yields a finding for each key that switches balancing or shedding off, and one for the only broker.
    """
    for key, effect in SWITCHES.items():
        brokers = [broker.broker for broker in picture.answering if (broker.settings or {}).get(key) == "false"]
        if brokers:
            where = "" if len(brokers) == len(picture.answering) else f" at {', '.join(brokers)}"
            yield found(
                Severity.INFO,
                f"{key}=false",
                f"it is off{where}: {effect}",
                f"if that is not intended: pulsar-admin brokers update-dynamic-config --config {key} --value true",
            )
    if len(picture.registered) == 1:
        yield found(
            Severity.INFO,
            next(iter(picture.registered)),
            "it is the only broker, so no other broker can take its load",
            "start another broker with the same metadataStoreUrl",
        )


def cool_down(picture: Picture) -> Iterator[ClusterFinding]:
    """No bundle can be shed, because all were unloaded recently.

    Yields one finding if this is so for all bundles that are reported.
    """
    assert picture.snapshot is not None
    recent = set(picture.snapshot.recently_unloaded)
    reported = {bundle for report in picture.snapshot.brokers.values() for bundle in report.last_stats}
    if reported and reported <= recent:
        yield found(
            Severity.INFO,
            count_of(len(reported), "bundle"),
            "all were unloaded recently, so none of them can be shed now",
            "wait for loadBalancerSheddingGracePeriodMinutes; if bundles move back and forth, raise the shedder's "
            "threshold",
        )


def without_numpy(picture: Picture) -> Iterator[ClusterFinding]:
    """numpy is missing where it is needed: on all brokers; or, with the extensible load manager, on any broker.

    Yields one finding if no broker has numpy and, with the extensible load manager, one for each broker without it.
    """
    assert picture.snapshot is not None
    reports, extensible = picture.snapshot.brokers, picture.snapshot.extensible
    fix = f"on a broker: {BALANCE_INSTALL}, then restart the broker; it becomes leader"
    if reports and all(report.only_assigns is True for report in reports.values()):
        yield found(
            Severity.INFO if len(reports) == 1 else Severity.WARNING,
            next(iter(sorted(reports))) if len(reports) == 1 else count_of(len(reports), "broker"),
            "numpy is not installed: bundles are assigned by their number, and none is shed or split",
            fix,
        )
    lacking = (
        [] if extensible is None else [name for name, data in extensible.lookups.items() if data.only_assigns is True]
    )
    for broker in sorted(lacking):
        yield found(
            Severity.WARNING,
            broker,
            "numpy is not installed: it assigns bundles by their number, and does not split its own",
            f"there: {BALANCE_INSTALL}, then restart it",
        )


def late_pipeline(picture: Picture) -> Iterator[ClusterFinding]:
    """The leader decides without the pipeline's windows, because they are late or do not exist.

    Yields at most one finding; none if `silent_pipeline` has one.
    """
    lag_s = picture.pipeline_lag_s
    if lag_s is None or pipeline_silence_s(picture) is not None:
        return
    asked_for = any(
        config.barycenter_extensible_pipeline_enabled
        for broker, config in picture.configurations()
        if any(view.broker == broker and view.owns_by_records for view in picture.answering)
    )
    if lag_s > _pipeline_limit_s(picture):
        yield found(
            Severity.WARNING if asked_for else Severity.INFO,
            "pipeline",
            f"a load report has waited for {lag_s:,.0f} s, so the leader decides by its own windows",
            "if the cluster has a pipeline: barycenter pipeline status --data FOLDER shows its lag and problems",
        )


def silent_pipeline(picture: Picture) -> Iterator[ClusterFinding]:
    """The pipeline has run before and does not look for load reports: it was stopped, was killed or hangs.

    Yields one finding if the pipeline last looked for reports longer ago than the limit.
    """
    silent_s = pipeline_silence_s(picture)
    if silent_s is None:
        return
    since = datetime.fromtimestamp(picture.now_ms / 1000 - silent_s, UTC)
    if picture.pipeline_lag_s is None:
        effect = "when a newer report arrives, the leader decides by its own windows"
    else:
        effect = (
            f"a load report has waited for {picture.pipeline_lag_s:,.0f} s, so the leader decides by its own windows"
        )
    yield found(
        Severity.WARNING,
        "pipeline",
        f"it has not looked for load reports since {since:%Y-%m-%d %H:%M:%S} UTC (for {silent_s:,.0f} s): it was "
        f"stopped, was killed or hangs. {effect}, and the history tables get no new rows",
        "barycenter pipeline status --data FOLDER shows why; barycenter pipeline run --data FOLDER starts it again. If "
        f"the cluster is to run without a pipeline, delete pipeline/publication/{LOOK_FILE} in the data folder",
    )


def pipeline_silence_s(picture: Picture) -> float | None:
    """Return how long ago (s) the pipeline last looked for load reports; None if this is not longer than the limit, or
    not known.
    """
    silent_s = picture.pipeline_silent_s
    return silent_s if silent_s is not None and silent_s > _pipeline_limit_s(picture) else None


def _pipeline_limit_s(picture: Picture) -> float:
    limits = [config.load_balancer_pipeline_max_lag_seconds for _, config in picture.configurations()]
    return max(limits, default=math.inf)
