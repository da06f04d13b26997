"""Computes the status of a cluster from the doctor's picture."""

from collections import Counter
from typing import Final

import msgspec

from pulsar_barycenter.doctor.catalogue import DRAINED_CHECK, Diagnosis
from pulsar_barycenter.doctor.checks.balance import pipeline_silence_s
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity
from pulsar_barycenter.doctor.picture import MANAGER_KEY, OWN_KEY, BrokerView, Picture
from pulsar_barycenter.load.managers import StrategyError, manager_kind, short_name
from pulsar_barycenter.load.snapshot.document import loads_of
from pulsar_barycenter.load.snapshot.reported import Report, reported_load
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself

_SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"


class BrokerStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The status of one broker. Usage is in percent, rates in msg/s, throughput in bytes/s; None means not known.

    `bundles` does not count the broker's own bundles (heartbeat, SLA monitor). For a broker with the extensible load
    manager that does not answer, it is the number in the last report, which counts them. `failure` says why a broker
    does not answer; its load is then the last one that the leader received. `max_usage` is the largest of the usages;
    it is for display, no load manager decides by this value alone. `reported_s_ago` is the age of the load by the clock
    of this process.
    """

    broker: str
    leads: bool = False
    is_drained: bool = False
    failure: str = ""
    version: str | None = None
    manager: str | None = None
    bundles: int | None = None
    topics: int | None = None
    cpu: float | None = None
    memory: float | None = None
    direct_memory: float | None = None
    bandwidth_in: float | None = None
    bandwidth_out: float | None = None
    max_usage: float | None = None
    msg_rate_in: float | None = None
    msg_rate_out: float | None = None
    msg_throughput_in: float | None = None
    msg_throughput_out: float | None = None
    reported_s_ago: float | None = None

    @property
    def load_rate(self) -> float | None:
        """The load in msg/s, in + out, from the newest report."""
        return _sum(self.msg_rate_in, self.msg_rate_out)

    @property
    def load_bytes(self) -> float | None:
        """The load in bytes/s, in + out, from the newest report."""
        return _sum(self.msg_throughput_in, self.msg_throughput_out)


def _sum(rate_in: float | None, rate_out: float | None) -> float | None:
    return None if rate_in is None or rate_out is None else rate_in + rate_out


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The status of a cluster at the time `at_ms` (epoch ms).

    `leader` is "" if no broker names one; `leaders` are all named leaders if brokers disagree. `cluster` and `strategy`
    come from a broker's settings, None if no broker returned them. `worst` is the worst finding, `findings` counts them
    by severity, and `drained` are the findings about drained brokers. `pipeline_lag_s` is the time in seconds for which
    a load report has waited for the pipeline; None if the leader uses the pipeline's windows, or is not to use a
    pipeline. `pipeline_silent_s` is the time in seconds for which the pipeline has not looked for load reports; None if
    it still does.
    """

    at_ms: int
    cluster: str | None
    is_apache_pulsar: bool
    leader: str
    leaders: tuple[str, ...]
    strategy: str | None
    namespaces: int
    bundles: int
    owned_bundles: int
    pipeline_lag_s: float | None
    pipeline_silent_s: float | None
    brokers: tuple[BrokerStatus, ...]
    drained: tuple[ClusterFinding, ...]
    findings: Counter[Severity]
    worst: ClusterFinding | None

    @property
    def is_well(self) -> bool:
        """Whether no finding about the cluster is a warning or worse."""
        return self.worst is None or self.worst.severity.rank < Severity.WARNING.rank


def status_of(picture: Picture, diagnosis: Diagnosis) -> ClusterStatus:
    """Return the status of the cluster in a picture; `diagnosis` has the findings about it.

    The load of a broker comes from the leader's snapshot, else from the broker's own report.
    """
    loads = {} if picture.snapshot is None else loads_of(picture.snapshot)
    settings = next((broker.settings for broker in picture.answering if broker.settings), {})
    leaders = tuple(sorted({broker.leader for broker in picture.answering if broker.leader}))
    return ClusterStatus(
        at_ms=picture.now_ms,
        cluster=settings.get("clusterName"),
        is_apache_pulsar=bool(settings) and OWN_KEY not in settings,
        leader=leaders[0] if len(leaders) == 1 else "",
        leaders=leaders if len(leaders) > 1 else (),
        strategy=short_name(settings.get(_SHEDDING_KEY, "")) or None,
        namespaces=len(picture.known_boundaries),
        bundles=sum(map(len, picture.bundles.values())),
        owned_bundles=len(picture.holders.keys() & {name for names in picture.bundles.values() for name in names}),
        pipeline_lag_s=picture.pipeline_lag_s,
        pipeline_silent_s=pipeline_silence_s(picture),
        brokers=tuple(
            _broker(
                broker,
                leaders,
                loads.get(broker.broker) or broker.report,
                picture.now_ms,
                is_drained=broker.broker in picture.drained,
            )
            for broker in picture.brokers or ()
        ),
        drained=tuple(finding for finding in diagnosis.findings if finding.check == DRAINED_CHECK),
        findings=Counter(finding.severity for finding in diagnosis.findings),
        worst=next(iter(diagnosis.findings), None),
    )


def _broker(
    view: BrokerView, leaders: tuple[str, ...], report: Report | None, now_ms: int, *, is_drained: bool
) -> BrokerStatus:
    status = BrokerStatus(
        broker=view.broker,
        leads=view.broker in leaders,
        is_drained=is_drained,
        failure=view.failure,
        version=view.version,
        manager=_manager(view),
        bundles=None
        if view.owned is None
        else sum(serves and not is_of_a_broker_itself(name) for name, serves in view.owned.items()),
    )
    return status if report is None else with_load(status, report, now_ms)


def with_load(status: BrokerStatus, report: Report, now_ms: int) -> BrokerStatus:
    """Return `status` with the load in a report. If `status` has a number of bundles, which the broker itself returned,
    that number stays. `now_ms` (epoch ms) is the time from which the age of the report is computed.
    """
    load = reported_load(report)
    return msgspec.structs.replace(
        status,
        **load.usages,
        max_usage=load.max_usage,
        bundles=load.bundles if status.bundles is None else status.bundles,
        topics=load.topics,
        msg_rate_in=load.msg_rate_in,
        msg_rate_out=load.msg_rate_out,
        msg_throughput_in=load.msg_throughput_in,
        msg_throughput_out=load.msg_throughput_out,
        reported_s_ago=(now_ms - load.reported_at_ms) / 1000 if load.reported_at_ms else None,
    )


def _manager(view: BrokerView) -> str | None:
    """Return the kind of the broker's load manager; if its class is not one of the known kinds, the short class name;
    None if the broker did not return its settings.
    """
    class_name = (view.settings or {}).get(MANAGER_KEY)
    if not class_name:
        return None
    try:
        return str(manager_kind(class_name))
    except StrategyError:
        return short_name(class_name)
