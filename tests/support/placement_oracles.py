"""Slow and obvious versions of the placements with a memory: one broker after the other, as in the reference."""

from collections.abc import Mapping, Sequence

from pulsar_barycenter.load.placement.avg_shedder import AvgShedderPlacement, PlannedTransfer
from pulsar_barycenter.load.placement.least_resource_usage_with_weight import LeastResourceUsageWithWeight
from pulsar_barycenter.load.reports.load_report import weighted_resource_usage
from support.load_cases import Cluster
from support.load_oracles import added


def least_resource_usage(
    cluster: Cluster, candidates: Sequence[str], settings: LeastResourceUsageWithWeight, history: Mapping[str, float]
) -> tuple[set[str], dict[str, float]]:
    """Return every broker that the rule allows, and the histories afterwards."""
    after = {broker: past for broker, past in history.items() if broker in cluster.reports}
    for broker in candidates:
        report = cluster.reports[broker]
        usage = weighted_resource_usage(report, settings.weights)
        if not report.bundles or (report.msg_rate_in == 0 and report.msg_rate_out == 0):
            after.pop(broker, None)
        weight = settings.history_weight
        after[broker] = after[broker] * weight + (1 - weight) * usage if broker in after else usage
    if not candidates:
        return set(), after
    mean = added(after[broker] for broker in candidates) / len(candidates)
    best = {broker for broker in candidates if after[broker] + settings.difference <= mean}
    return best or set(candidates), after


def round_robin(candidates: Sequence[str], counter: int, order: Sequence[str]) -> tuple[str | None, int, list[str]]:
    """Return the choice, the next counter and the order remembered."""
    if not candidates:
        return None, counter, list(order)
    index = counter % len(candidates)
    counter = 0 if counter == 2**31 - 1 else counter + 1
    kept = list(order)
    if len(kept) != len(candidates):
        kept = list(candidates)
    if kept[index] not in candidates:
        kept = list(candidates)
    return kept[index], counter, kept


def avg_shedder(
    cluster: Cluster, candidates: Sequence[str], settings: AvgShedderPlacement, move: PlannedTransfer | None
) -> set[str]:
    """Return every broker that the rule of 5.x allows, none if the bundle has nowhere to go."""
    if move is None:
        return set(candidates)
    others = {broker for broker in candidates if broker != move.source}
    if move.destination not in candidates:
        return others
    usage = {name: weighted_resource_usage(cluster.reports[name], settings.weights) * 100 for name in candidates}
    if usage[move.destination] > settings.overload_limit:
        better = {name for name in others - {move.destination} if usage[name] <= settings.overload_limit}
        return better or {move.destination}
    return {move.destination}
