"""Findings: topics that alone need more than a fair share, and namespaces with too few bundles for their traffic.

A load is a fraction of an average broker, as a mean over the history. It is measured in the resource that the traffic
needs most: CPU, or bandwidth in or out, without the usage of idle brokers. A fair share is the load of all traffic
divided by the number of brokers: the load of each broker in a balanced cluster.

A bundle should be no larger than half a fair share; otherwise its broker is much fuller than the others, whichever
broker that is. So a bundle with load b should be split into ceil(b / half a fair share) bundles, and a topic should
have as many partitions.

Worked example: four equal bundles have all the load of five brokers. A fair share is a fifth of the load, a bundle is
a quarter: each should be split into ceil(0.25 / 0.1) = 3 bundles, which makes 12.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.advice.finding import AdviceFinding, Kind
from pulsar_barycenter.replay.bundles import summed
from pulsar_barycenter.replay.capacity import KBIT, Capacity, CapacityModel
from pulsar_barycenter.replay.demand import FIGURES, SPREAD, Demand

PART: Final = 0.5
"""The largest load that a bundle should have, as part of a fair share."""
MOST_TOLD: Final = 10
"""At most this many topics, and this many namespaces, are reported: those with the most load."""
LEAST_SHARE: Final = 0.03
"""If a fair share is a smaller part of a broker than this, the brokers are nearly idle, and there are no findings."""


@dataclass(frozen=True)
class Loads:
    """The load of each source of traffic (a topic, or a bundle whose topics are not known), as a fraction of an average
    broker: `mean` over the history, and `greatest` in any step. `fair` is the load of each of the `brokers` brokers if
    the load is perfectly balanced. `resource` is the resource that the traffic uses most, in which all loads are
    measured.
    """

    mean: Floats
    greatest: Floats
    fair: float
    brokers: int
    resource: str


def loads_of(demand: Demand, model: CapacityModel, brokers: Iterable[Capacity]) -> Loads:
    """Return the load of each source of the demand, as a fraction of the capacity of an average broker, in the resource
    that the traffic uses most. `brokers` are the capacities of all brokers.

    `brokers` must not be empty.
    """
    every = list(brokers)
    count = len(every)
    cores, network = (sum(getattr(each, name) for each in every) / count for name in ("cores", "network_kbits"))
    means = [np.asarray(getattr(demand, name).mean(axis=0), float) for name in FIGURES]
    most = [np.asarray(getattr(demand, name).max(axis=0), float) for name in FIGURES]
    ways = {"CPU": _cpu(means, model, cores), "bandwidth in": means[2] / KBIT / network}
    ways["bandwidth out"] = means[3] / KBIT / network
    resource = max(ways, key=lambda name: float(ways[name].sum()))
    greatest = {"CPU": _cpu(most, model, cores), "bandwidth in": most[2] / KBIT / network}
    greatest["bandwidth out"] = most[3] / KBIT / network
    mean = ways[resource]
    return Loads(mean, greatest[resource], float(mean.sum()) / count, count, resource)


def _cpu(figures: list[Floats], model: CapacityModel, cores: float) -> Floats:
    rate_in, rate_out, bytes_in, bytes_out = figures
    used = model.cpu_per_message * (rate_in + rate_out) + model.cpu_per_byte * (bytes_in + bytes_out)
    return used / (cores * 100)


def topics_too_large(demand: Demand, loads: Loads, names: Mapping[int, str] | None = None) -> list[AdviceFinding]:
    """Return findings for the topics whose load alone is more than a fair share (`loads.fair`), the largest topic
    first, at most MOST_TOLD.

    `names` has the known names of topics, by hash. If only the number of topics of a bundle is known, the mean load of
    these topics is compared: at least one of them has that load or more.
    """
    if loads.fair < LEAST_SHARE:
        return []
    topics = np.maximum(np.where(demand.hashes == SPREAD, demand.topics, 1), 1)
    each = loads.mean / topics
    found = []
    for source in np.argsort(-each, kind="stable")[:MOST_TOLD].tolist():
        load = float(each[source])
        if load <= loads.fair * (1 + 1e-9):
            break
        found.append(_topic(demand, loads, source, load, names or {}))
    return found


def _topic(demand: Demand, loads: Loads, source: int, load: float, names: Mapping[int, str]) -> AdviceFinding:
    bundle, where, count = demand.bundles[demand.bundle_of[source]], int(demand.hashes[source]), demand.topics[source]
    partitions = max(2, ceil(load / (PART * loads.fair) - 1e-9))
    if where != SPREAD:
        name = names.get(where, f"the topic of hash {where:#010x} in {bundle}")
    else:
        name = f"the only topic of {bundle}" if count <= 1 else f"a topic of {bundle}"
    least = "at least " if where == SPREAD and count > 1 else ""
    at_most = float(loads.greatest[source]) / max(1, int(count) if where == SPREAD else 1)
    beyond = f", at times {at_most:.0%}" if at_most > 1 else ""
    sentence = (
        f"{name} alone needs {least}{load:.0%} of a broker's {loads.resource}{beyond}, but a fair share is"
        f" {loads.fair:.0%}: the broker that has it is always the fullest, and no strategy can change this"
    )
    find = (
        ""
        if where != SPREAD
        else f" (`pulsar-admin topics stats` of its {count_of(max(1, int(count)), 'topic')} shows which)"
    )
    return AdviceFinding(
        kind=Kind.TOPIC,
        subject=name,
        sentence=sentence,
        mend=f"partition this topic into {partitions} or more{find}",
        figures={
            "load": load,
            "greatestLoad": at_most,
            "fairShare": loads.fair,
            "partitions": partitions,
            "brokers": loads.brokers,
        },
    )


def namespaces_too_coarse(demand: Demand, loads: Loads) -> list[AdviceFinding]:
    """Return findings for the namespaces that have bundles larger than half a fair share (`loads.fair`) which a split
    can make smaller, at most MOST_TOLD. The namespace with the most load comes first.
    """
    if loads.fair < LEAST_SHARE:
        return []
    of_bundle = summed(demand.bundle_of, loads.mean, len(demand.bundles))
    topics = summed(demand.bundle_of, np.maximum(demand.topics, 1), len(demand.bundles))
    # a split can take away from a bundle everything but its largest topic
    single = np.zeros(len(demand.bundles))
    alone = loads.mean / np.where(demand.hashes == SPREAD, np.maximum(demand.topics, 1), 1)
    np.maximum.at(single, demand.bundle_of, alone)
    most = PART * loads.fair * (1 + 1e-9)
    # if a single topic is the whole excess, no split helps
    divisible = (topics > 1) & ((single <= most) | (of_bundle - single > most))
    large = (of_bundle > most) & divisible
    spaces: dict[str, list[int]] = {}
    for row, name in enumerate(demand.bundles):
        spaces.setdefault(name.rpartition("/")[0], []).append(row)
    found = []
    for space, rows in spaces.items():
        heavy = [row for row in rows if large[row]]
        if heavy:
            found.append((-float(of_bundle[rows].sum()), _namespace(demand, loads, space, rows, heavy, of_bundle)))
    found.sort(key=lambda each: (each[0], each[1].subject))
    return [each for _, each in found[:MOST_TOLD]]


def _namespace(
    demand: Demand, loads: Loads, space: str, rows: list[int], heavy: list[int], of_bundle: Floats
) -> AdviceFinding:
    total = float(of_bundle[rows].sum())
    pieces = {row: max(2, ceil(float(of_bundle[row]) / (PART * loads.fair) - 1e-9)) for row in heavy}
    count = len(rows) + sum(pieces.values()) - len(heavy)
    heavy.sort(key=lambda row: (-float(of_bundle[row]), row))
    first = heavy[0]
    part = float(of_bundle[heavy].sum()) / total
    few = f", and {count_of(loads.brokers, 'broker')}" if len(rows) < loads.brokers else ""
    bundles = "bundle" if len(rows) == 1 else "bundles"
    range_ = demand.bundles[first].rpartition("/")[2]
    sentence = (
        f"{space} has {len(rows)} {bundles}{few}; {len(heavy)} of them with {part:.0%} of its traffic"
        f" {'is' if len(heavy) == 1 else 'are'} larger than half a broker's fair share of {loads.fair:.0%}, the largest"
        f" ({range_}) needs {float(of_bundle[first]):.0%} of a broker's {loads.resource}"
    )
    mend = (
        f"split {'it' if len(heavy) == 1 else 'these'} until the namespace has {count} or more, first by"
        f" `pulsar-admin namespaces split-bundle --bundle {range_} --unload {space}`"
    )
    return AdviceFinding(
        kind=Kind.NAMESPACE,
        subject=space,
        sentence=sentence,
        mend=mend,
        figures={
            "bundles": len(rows),
            "wantedBundles": count,
            "largeBundles": len(heavy),
            "shareOfLargeBundles": part,
            "largestBundle": float(of_bundle[first]),
            "fairShare": loads.fair,
            "brokers": loads.brokers,
        },
    )
