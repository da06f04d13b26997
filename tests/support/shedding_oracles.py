"""Slow and obvious versions of more shedders: loops over reports and bundles, step by step as in the reference."""

import math
from collections.abc import Mapping

from pulsar_barycenter.load.reports.load_report import weighted_resource_usage
from pulsar_barycenter.load.shedding.avg_shedder import AvgShedder
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder
from pulsar_barycenter.load.shedding.uniform_load_shedder import UniformLoadShedder
from support.load_cases import Cluster
from support.load_oracles import Shed, added, heaviest, is_bound, step, threshold_shedding

LARGEST = 2**31 - 1


def rate_of(cluster: Cluster, broker: str) -> float:
    return cluster.reports[broker].msg_rate_in + cluster.reports[broker].msg_rate_out


def throughput_of(cluster: Cluster, broker: str) -> float:
    return cluster.reports[broker].msg_throughput_in + cluster.reports[broker].msg_throughput_out


def bundle_traffic(cluster: Cluster, bundle: str, by_rate: bool) -> float:
    short = cluster.data[bundle].short_term_data
    if by_rate:
        return short.msg_rate_in + short.msg_rate_out
    return short.msg_throughput_in + short.msg_throughput_out


def sheddable(cluster: Cluster, broker: str) -> list[str]:
    return sorted(
        bundle
        for bundle in cluster.reports[broker].bundles
        if bundle in cluster.data and not is_bound(bundle) and bundle not in cluster.recently_unloaded
    )


def by_falling_traffic(cluster: Cluster, broker: str, by_rate: bool) -> list[str]:
    return sorted(sheddable(cluster, broker), key=lambda name: -bundle_traffic(cluster, name, by_rate))


def whole(figure: float) -> int:
    return max(-LARGEST - 1, min(LARGEST, math.trunc(figure)))


def uniform_shedding(cluster: Cluster, settings: UniformLoadShedder) -> Shed:
    most_rate = most_throughput = -1.0
    least_rate = least_throughput = float(LARGEST)
    busiest_by_rate = busiest_by_throughput = ""
    for broker in sorted(cluster.reports):
        rate, throughput = rate_of(cluster, broker), throughput_of(cluster, broker)
        if rate > most_rate:
            most_rate, busiest_by_rate = rate, broker
        if throughput > most_throughput:
            most_throughput, busiest_by_throughput = throughput, broker
        least_rate = min(least_rate, rate)
        least_throughput = min(least_throughput, throughput)
    least_rate = 1.0 if -1e-6 <= least_rate <= 1e-6 else least_rate
    least_throughput = 1.0 if -1e-6 <= least_throughput <= 1e-6 else least_throughput
    rate_holds = 0 < settings.rate_difference < (most_rate - least_rate) * 100 / least_rate
    throughput_holds = 0 < settings.throughput_factor < most_throughput / least_throughput
    if not rate_holds and not throughput_holds:
        return []
    if rate_holds:
        broker, minimum = busiest_by_rate, settings.minimum_rate
        required = whole((most_rate - least_rate) * settings.share)
    else:
        broker, minimum = busiest_by_throughput, settings.minimum_throughput
        required = whole((most_throughput - least_throughput) * settings.share)
    if not broker or len(cluster.reports[broker].bundles) <= 1 or required < minimum:
        return []
    chosen: Shed = []
    for bundle in by_falling_traffic(cluster, broker, rate_holds):
        if settings.max_bundles not in {-1} and len(chosen) >= settings.max_bundles:
            break
        traffic = bundle_traffic(cluster, bundle, rate_holds)
        if traffic <= required:
            chosen.append((broker, bundle))
            required -= whole(traffic)
    return chosen


def avg_shedding(
    cluster: Cluster, settings: AvgShedder, low_hits: Mapping[str, int], high_hits: Mapping[str, int]
) -> tuple[list[tuple[str, str, str]], dict[str, int], dict[str, int]]:
    """Return (source, bundle, destination) in order, and the low and the high counts afterwards."""
    low = {broker: count for broker, count in low_hits.items() if broker in cluster.reports}
    high = {broker: count for broker, count in high_hits.items() if broker in cluster.reports}
    scores = {
        broker: weighted_resource_usage(report, settings.weights) * 100 for broker, report in cluster.reports.items()
    }
    order = sorted(sorted(scores), key=lambda broker: scores[broker])
    pairs: list[tuple[str, str]] = []
    i, j = 0, len(order) - 1
    while i <= j:
        lesser, greater = order[i], order[j]
        gap = scores[greater] - scores[lesser]
        if gap < settings.low:
            for broker in (lesser, greater):
                low.pop(broker, None)
                high.pop(broker, None)
        else:
            pairs.append((lesser, greater))
            for broker in (lesser, greater):
                low[broker] = low.get(broker, 0) + 1
                if gap < settings.high:
                    high.pop(broker, None)
                else:
                    high[broker] = high.get(broker, 0) + 1
        i, j = i + 1, j - 1
    if not pairs:
        return [], {}, {}
    chosen: list[tuple[str, str, str]] = []
    for lesser, greater in pairs:
        if max(high.get(lesser, 0), high.get(greater, 0)) < settings.high_hits and (
            max(low.get(lesser, 0), low.get(greater, 0)) < settings.low_hits
        ):
            continue
        for broker in (lesser, greater):
            low.pop(broker, None)
            high.pop(broker, None)
        rate = (rate_of(cluster, greater) - rate_of(cluster, lesser)) * settings.share
        throughput = (throughput_of(cluster, greater) - throughput_of(cluster, lesser)) * settings.share
        if rate > settings.minimum_rate:
            by_rate, budget = True, rate
        elif throughput > settings.minimum_throughput:
            by_rate, budget = False, throughput
        else:
            continue
        for bundle in by_falling_traffic(cluster, greater, by_rate):
            traffic = bundle_traffic(cluster, bundle, by_rate)
            if 0 < traffic <= budget:
                budget -= traffic
                chosen.append((greater, bundle, lesser))
    return chosen, low, high


def range_shedding(
    cluster: Cluster, settings: ThresholdShedder, history: Mapping[str, float]
) -> tuple[Shed, dict[str, float]]:
    """Without the lower boundary of the ThresholdShedder, which the range replaces."""
    chosen, scores = threshold_shedding(cluster, settings, history)
    if chosen or not scores or added(scores.values()) == 0:
        return chosen, scores
    scores = step(cluster, settings, scores)
    line = added(scores.values()) / len(scores) - settings.threshold
    top = max(sorted(scores), key=lambda broker: scores[broker])
    if not scores[top] > line or not any(score < line for score in scores.values()):
        return [], scores
    need = throughput_of(cluster, top) * settings.threshold
    if len(cluster.reports[top].bundles) <= 1 or settings.minimum_throughput > need:
        return [], scores
    return heaviest(cluster, top, need), scores


def deviation_shedding(cluster: Cluster, threshold: float, receiver_gains: bool) -> Shed:
    """By throughput. Values that rounding left below zero count as no deviation."""
    values = {broker: throughput_of(cluster, broker) for broker in sorted(cluster.reports)}
    left_out: set[str] = set()
    mean = added(values.values()) / max(1, len(values))
    squares = added(value * value for value in values.values())
    chosen: Shed = []
    while len(values) - len(left_out) > 1:
        there = [broker for broker in values if broker not in left_out]
        greatest = max(there, key=lambda broker: (values[broker], broker))
        least = min(there, key=lambda broker: (values[broker], broker))
        deviation = math.sqrt(max(0.0, squares / len(values) - mean * mean))
        if deviation <= 0 or (values[greatest] - mean) / deviation <= threshold:
            break
        moving = {bundle for _, bundle in chosen}
        fits = [
            (bundle_traffic(cluster, bundle, False), bundle)
            for bundle in sheddable(cluster, greatest)
            if bundle not in moving and bundle_traffic(cluster, bundle, False) + values[least] < values[greatest]
        ]
        if not fits:
            left_out.add(greatest)
            continue
        weight, bundle = max(fits)
        chosen.append((greatest, bundle))
        old_squares = values[greatest] * values[greatest] + values[least] * values[least]
        values[greatest] -= weight
        values[least] += weight if receiver_gains else -weight
        squares += values[greatest] * values[greatest] + values[least] * values[least] - old_squares
    return chosen
