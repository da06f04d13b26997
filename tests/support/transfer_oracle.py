"""A slow and obvious version of the TransferShedder: one broker and one bundle after the other, by the reference."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulsar_barycenter.load.reports.extensible_reports import BundleLoadData
from pulsar_barycenter.load.shedding.transfer_plan import TransferShedderSettings
from support.transfer_cases import NOW_MS, TransferRound

Decision = tuple[str, str, str | None, str]
"""Source, bundle, destination, and what Pulsar's metrics call the reason."""

Allowed = Callable[[str, str, str], bool]
"""Bundle, source, destination."""


@dataclass
class Answer:
    """`label` is that of a cycle without moves."""

    decisions: list[Decision]
    hits: int
    unloaded_at_ms: dict[str, int]
    label: str
    mean: float = 0.0
    deviation: float = 0.0
    divided_by_zero: bool = False


def traffic_of(bundle: BundleLoadData) -> float:
    return bundle.stats.msg_throughput_in + bundle.stats.msg_throughput_out


def transfer_shedding(
    seen: TransferRound,
    settings: TransferShedderSettings,
    hits: int,
    unloaded_at_ms: Mapping[str, int],
    allowed: Allowed = lambda _bundle, _source, _destination: True,
) -> Answer:
    known = {broker: when for broker, when in unloaded_at_ms.items() if broker in seen.loads or broker in seen.lookups}
    answer = Answer([], hits, known, "")

    # A
    total = squares = 0.0
    count, outdated = 0, False
    for broker in sorted(seen.loads):
        load = seen.loads[broker]
        if NOW_MS - load.updated_at > settings.load_ttl_ms:
            outdated = True
            continue
        if broker in known:
            if load.updated_at - known[broker] < settings.cool_down_ms:
                answer.label = "CoolDown"
                return answer
            del known[broker]
        total += load.weighted_max_ema
        squares += load.weighted_max_ema * load.weighted_max_ema
        count += 1
    if count == 0:
        answer.label = "OutDatedData" if outdated else "NoBrokers"
        return answer
    if any(broker not in seen.loads for broker in seen.lookups):
        answer.label = "NoLoadData"
        return answer
    mean = total / count
    variance = squares / count - mean * mean
    deviation = math.sqrt(variance) if variance > 0 else 0.0
    answer.mean, answer.deviation = mean, deviation

    # B
    ranking = sorted(sorted(seen.loads), key=lambda broker: sign_first(seen.loads[broker].weighted_max_ema))
    low, high = 0, len(ranking) - 1
    share = settings.target_deviation / 2
    share = 0.0 if share < 0 else 0.5 if share > 0.5 else share

    def is_underloaded(broker: str, greatest: str) -> bool:
        if seen.loads[broker].weighted_max_ema < mean * share:
            return True
        return seen.loads[broker].msg_throughput_ema < seen.loads[greatest].msg_throughput_ema * share

    def is_overloaded(broker: str) -> bool:
        load = seen.loads[broker].weighted_max_ema
        return load > settings.overload_limit and load > mean + settings.target_deviation

    if (
        deviation > settings.target_deviation
        or is_underloaded(ranking[low], ranking[high])
        or is_overloaded(ranking[high])
    ):
        answer.hits += 1
    else:
        answer.hits = 0
    if answer.hits <= settings.hit_threshold:
        answer.label = "HitCount"
        return answer

    # C
    transfers, without_data, few_bundles = 0, 0, 0
    while transfers < settings.maximum and low < high:
        if deviation > settings.target_deviation:
            reason = "Overloaded"
        elif is_underloaded(ranking[low], ranking[high]):
            reason = "Underloaded"
        elif is_overloaded(ranking[high]):
            reason = "Overloaded"
        else:
            break
        source, target = ranking[high], ranking[low]
        high -= 1
        heavy, light = seen.loads[source], seen.loads[target]
        heavy_traffic = heavy.msg_throughput_in + heavy.msg_throughput_out
        light_traffic = light.msg_throughput_in + light.msg_throughput_out
        if heavy.weighted_max_ema == 0:
            answer.divided_by_zero = True
            may_leave = 0.0
        else:
            offload = (heavy.weighted_max_ema - light.weighted_max_ema) / 2
            may_leave = heavy_traffic * offload / heavy.weighted_max_ema
        listed = seen.tops[source].top_bundles_load_data if source in seen.tops else ()
        if len(listed) == 0:
            without_data += 1
            continue
        if len(listed) == 1:
            few_bundles += 1
            continue
        remaining = len(listed)
        out = gain = 0.0
        at = 0  # how far the destination's list was offered
        offers = seen.tops[target].top_bundles_load_data if target in seen.tops else ()
        for bundle in listed:
            name = bundle.bundle_name
            if seen.owners.get(name) != source:
                continue
            if name.rpartition("/")[0] in settings.excluded_namespaces:
                continue
            if name in seen.recently_unloaded:
                continue
            if not allowed(name, source, target):
                continue
            if remaining <= 1:
                break
            traffic = traffic_of(bundle)
            if traffic == 0:
                continue
            given: list[str] = []
            back = 0.0
            if out - gain + traffic > may_leave:
                succeeded = False
                if settings.transfer:
                    keeps = heavy_traffic - out + gain - traffic
                    gets = light_traffic + out - gain + traffic
                    while at < len(offers) and not succeeded:
                        offer = offers[at]
                        at += 1
                        if not allowed(offer.bundle_name, target, source):
                            continue
                        weight = traffic_of(offer)
                        if weight == 0:
                            continue
                        if keeps + weight < heavy_traffic and gets - weight < heavy_traffic:
                            given.append(offer.bundle_name)
                            back += weight
                            keeps += weight
                            gets -= weight
                            succeeded = gets <= keeps and keeps < 0.75 * heavy_traffic
                if not succeeded:
                    break
            answer.decisions += [(target, other, source, reason) for other in given]
            answer.decisions.append((source, name, target if settings.transfer else None, reason))
            if settings.count_exchanged:
                gain += back
            out += traffic
            remaining -= 1
        if out > 0:
            moved = (out - gain) * heavy.weighted_max_ema / heavy_traffic if heavy_traffic else 0.0
            squares -= heavy.weighted_max_ema**2 + light.weighted_max_ema**2
            rest = heavy.weighted_max_ema - moved
            squares += (rest if rest > 0 else 0.0) ** 2 + (light.weighted_max_ema + moved) ** 2
            deviation = math.sqrt(abs(squares / count - mean * mean))
            transfers += 1
            low += 1
        else:
            few_bundles += 1

    # E
    if answer.decisions:
        answer.hits = 0
    else:
        answer.label = "NoLoadData" if without_data else "NoBundles" if few_bundles else "HitCount"
    return answer


def sign_first(figure: float) -> tuple[float, int]:
    """Return a key by which -0 comes before 0."""
    return figure, 0 if math.copysign(1, figure) < 0 else 1
