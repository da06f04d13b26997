"""Slow and obvious versions of the strategies: loops over reports, step by step as in the reference."""

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add

from pulsar_barycenter.load.placement.least_long_term_message_rate import LeastLongTermMessageRate
from pulsar_barycenter.load.reports.load_report import weighted_resource_usage
from pulsar_barycenter.load.shedding.overload_shedder import OverloadShedder
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound
from support.load_cases import Cluster

Shed = list[tuple[str, str]]
"""(broker, bundle), in the order in which they are chosen."""


def added(values: Iterable[float]) -> float:
    """Return the sum as Java's loops compute it; Python's own `sum` compensates for rounding since 3.12."""
    return reduce(add, values, 0.0)


def is_bound(bundle: str) -> bool:
    namespace = NamespaceName.parse(bundle.rpartition("/")[0])
    return is_broker_bound(namespace)


def heaviest(cluster: Cluster, broker: str, need: float) -> Shed:
    """Return the broker's bundles by falling traffic until `need` is reached, at least one."""

    def traffic(bundle: str) -> float:
        short = cluster.data[bundle].short_term_data
        return short.msg_throughput_in + short.msg_throughput_out

    candidates = [
        bundle
        for bundle in cluster.reports[broker].bundles
        if bundle in cluster.data and not is_bound(bundle) and bundle not in cluster.recently_unloaded
    ]
    chosen: Shed = []
    marked = 0.0
    for bundle in sorted(candidates, key=lambda name: (-traffic(name), name)):
        if marked < need or not chosen:
            chosen.append((broker, bundle))
            marked += traffic(bundle)
        else:
            break
    return chosen


def step(cluster: Cluster, settings: ThresholdShedder, history: Mapping[str, float]) -> dict[str, float]:
    weight = settings.history_weight
    scores = {}
    for broker in sorted(cluster.reports):
        usage = weighted_resource_usage(cluster.reports[broker], settings.weights)
        past = history.get(broker)
        scores[broker] = usage if past is None else past * weight + (1 - weight) * usage
    return scores


def threshold_shedding(
    cluster: Cluster, settings: ThresholdShedder, history: Mapping[str, float]
) -> tuple[Shed, dict[str, float]]:
    scores = step(cluster, settings, history)
    if not scores:
        return [], scores
    mean = math.fsum(scores.values()) / len(scores)
    if mean == 0:
        return [], scores
    chosen: Shed = []
    for broker, score in scores.items():
        report = cluster.reports[broker]
        if score < mean + settings.threshold:
            continue
        need = (report.msg_throughput_in + report.msg_throughput_out) * (score - mean - settings.threshold + 0.05)
        if need < settings.minimum_throughput or len(report.bundles) <= 1:
            continue
        chosen += heaviest(cluster, broker, need)
    if chosen or not settings.lower_boundary:
        return chosen, scores
    return lower_boundary(cluster, settings, scores)


def lower_boundary(
    cluster: Cluster, settings: ThresholdShedder, history: Mapping[str, float]
) -> tuple[Shed, dict[str, float]]:
    scores = step(cluster, settings, history)
    line = math.fsum(scores.values()) / len(scores) - settings.threshold
    top: str | None = None
    for broker, score in scores.items():
        several = len(cluster.reports[broker].bundles) > 1
        if score > line and several and (top is None or score > scores[top]):
            top = broker
    if top is None or not any(score < line for score in scores.values()):
        return [], scores
    report = cluster.reports[top]
    need = (report.msg_throughput_in + report.msg_throughput_out) * settings.threshold * 0.5
    return ([] if settings.minimum_throughput > need else heaviest(cluster, top, need)), scores


def overload_shedding(cluster: Cluster, settings: OverloadShedder) -> Shed:
    chosen: Shed = []
    for broker in sorted(cluster.reports):
        report = cluster.reports[broker]
        usage = weighted_resource_usage(report, settings.weights)
        if usage < settings.limit or len(report.bundles) <= 1:
            continue
        chosen += heaviest(
            cluster, broker, (report.msg_throughput_in + report.msg_throughput_out) * (usage - settings.limit + 0.05)
        )
    return chosen


def least_long_term(cluster: Cluster, candidates: set[str], settings: LeastLongTermMessageRate) -> set[str]:
    """Return every broker that the rule allows."""
    scores = {}
    for broker in candidates:
        report = cluster.reports[broker]
        if weighted_resource_usage(report, settings.weights) > settings.overload_limit:
            scores[broker] = math.inf
            continue
        rate_in = rate_out = before = 0.0
        for bundle in sorted(report.last_stats):
            data = cluster.data.get(bundle)
            rate_in += 50.0 if data is None else data.long_term_data.msg_rate_in
            rate_out += 50.0 if data is None else data.long_term_data.msg_rate_out
        for _, preallocated in sorted(cluster.preallocated.get(broker, {}).items()):
            before += preallocated.long_term_data.msg_rate_in + preallocated.long_term_data.msg_rate_out
        scores[broker] = before + (rate_in + rate_out)
    least = min(scores.values(), default=math.inf)
    return {broker for broker, score in scores.items() if score == least}


def too_large(cluster: Cluster, settings: BundleLimits, counts: Mapping[str, int]) -> list[str]:
    """Return the bundles to split, in the order of names."""
    now = dict(counts)
    chosen: list[str] = []
    rows = sorted((bundle, broker) for broker, report in cluster.reports.items() for bundle in report.last_stats)
    for bundle, broker in rows:
        stats, data = cluster.reports[broker].last_stats[bundle], cluster.data.get(bundle)
        if stats.topics < 2 or bundle in chosen:
            continue
        long = None if data is None else data.long_term_data
        rate = 0.0 if long is None else long.msg_rate_in + long.msg_rate_out
        throughput = 0.0 if long is None else long.msg_throughput_in + long.msg_throughput_out
        sessions = stats.consumer_count + stats.producer_count
        hot = (
            stats.topics > settings.max_topics
            or (settings.max_sessions > 0 and sessions > settings.max_sessions)
            or rate > settings.max_rate
            or throughput > settings.max_bandwidth
        )
        namespace = bundle.rpartition("/")[0]
        if hot and now[namespace] < settings.max_bundles:
            chosen.append(bundle)
            now[namespace] += 1
    return chosen
