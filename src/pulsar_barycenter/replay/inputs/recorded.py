"""Converts the columns of the pipeline's tables, a recorded history, to demand and a cluster.

Brokers report a bundle only if it changed enough. So a sample counts until the next sample of the bundle, for at most
`SILENCE_MS`, and only until the first report of a part of the bundle.

The demand has the bundles of the beginning. A part that a later split made is a source with the span of the part; the
load that a bundle had before its split is divided among its parts by width. Bundles that belong to one broker
(heartbeats) are left out.

A broker is in the cluster from its first report to its last. If its first report in the history is not the first after
a start (`sequence`), the broker is in the cluster from the beginning, since it may have been silent until then. CPU is
fitted to the reports of brokers that were not saturated; limits are those of a broker's last report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats, Integers
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import is_broker_bound
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel, Fit, fit
from pulsar_barycenter.replay.demand import SPREAD, Demand, check
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import BrokerAdded, BrokerRemoved, Event
from pulsar_barycenter.replay.simulator import Cluster

SILENCE_MS: Final = 20 * 60_000
"""More than the longest time between two reports of a running broker, which is 15 minutes by default."""
SATURATED: Final = 0.98
"""If a broker uses this part of its CPU, its report does not show how much CPU its traffic needs."""
_FIT_SAMPLES: Final = 8


@dataclass(frozen=True)
class Samples:
    """The rows of the table `bundle_samples` as columns, in any order. Times are epoch ms. `figures` has one column per
    sample and four rows: msg/s in and out, bytes/s in and out.
    """

    bundle: Sequence[str]
    broker: Sequence[str]
    at_ms: Integers
    figures: Floats
    sessions: Integers
    topics: Integers


@dataclass(frozen=True)
class Usages:
    """The rows of the table `broker_usage` as columns, one row per report, with the traffic (in + out) in the same
    report.

    CPU is in percent of one core, limits are in the units of load reports; an unknown value is -1. `sequence` is the
    number of the report since the broker started, from 1.
    """

    broker: Sequence[str]
    at_ms: Integers
    cpu: Floats
    cpu_limit: Floats
    memory_limit: Floats
    network_limit: Floats
    rate: Floats
    throughput: Floats
    sequence: Integers


@dataclass(frozen=True)
class Recording:
    """The input of a replay that was made from a recorded history, with warnings about the data. `fit` is the model of
    CPU that was fitted to the reports; None: there were too few reports, and the default model is used.
    """

    demand: Demand
    cluster: Cluster
    events: tuple[Event, ...]
    fit: Fit | None
    warnings: tuple[str, ...]


def recording(samples: Samples, usages: Usages, *, step_ms: int = 60_000) -> Recording:
    """Return the input of a replay of a recorded history, for the time from the first sample to the last, in steps of
    `step_ms`.

    Raises:
        ReplayInputError: there is no sample, a name or value is wrong, or for more than SILENCE_MS there is no sample
            of any broker.
    """
    if not len(samples.at_ms):
        raise ReplayInputError(
            "the history has no sample of a bundle in that period; choose a period that the history covers"
        )
    start_ms = int(samples.at_ms.min()) // step_ms * step_ms
    end_ms = int(samples.at_ms.max()) // step_ms * step_ms + step_ms
    _check_gaps(np.unique(samples.at_ms))
    cluster, events, fitted, warnings = _brokers(samples, usages, start_ms, end_ms, step_ms)
    demand = _demand(samples, start_ms, (end_ms - start_ms) // step_ms, step_ms, cluster)
    return Recording(demand, cluster, tuple(events), fitted, tuple(warnings))


def _check_gaps(times: Integers) -> None:
    for before, after in pairwise(times.tolist()):
        if after - before > SILENCE_MS:
            raise ReplayInputError(
                f"no broker reported between {before} and {after} (epoch ms), {(after - before) / 60_000:.0f} min;"
                " choose a period without this gap"
            )


def _brokers(
    samples: Samples, usages: Usages, start_ms: int, end_ms: int, step_ms: int
) -> tuple[Cluster, list[Event], Fit | None, list[str]]:
    seen = _seen((samples.broker, samples.at_ms), (usages.broker, usages.at_ms))
    warnings: list[str] = []
    events: list[Event] = []
    brokers: dict[str, Capacity] = {}
    capacities = _capacities(usages)
    begins = {(usages.broker[row], int(usages.at_ms[row])) for row in np.flatnonzero(usages.sequence == 1).tolist()}
    for broker, (first, last) in sorted(seen.items()):
        if broker not in capacities:
            warnings.append(f"the limits of {broker} are not known; the default is used: {Capacity()}")
        capacity = capacities.get(broker, Capacity())
        if first < start_ms + (step_ms if (broker, first) in begins else SILENCE_MS):
            brokers[broker] = capacity
        else:
            events.append(BrokerAdded(first, broker, capacity))
        if last < end_ms - SILENCE_MS:
            events.append(BrokerRemoved(last // step_ms * step_ms + step_ms, broker))
    # a saturated broker would have used more
    known = (usages.cpu >= 0) & (usages.cpu < SATURATED * usages.cpu_limit)
    fitted = None
    if int(known.sum()) >= _FIT_SAMPLES:
        fitted = fit(usages.cpu[known], usages.rate[known], usages.throughput[known])
        if fitted.determination < 0.5:
            warnings.append(f"CPU does not follow traffic well: {fitted}")
    else:
        warnings.append(
            f"the CPU of {count_of(int(known.sum()), 'report')} is known, too few to fit; {CapacityModel()} is used"
        )
    return Cluster(brokers, fitted.model if fitted else CapacityModel()), events, fitted, warnings


def _seen(*told: tuple[Sequence[str], Integers]) -> dict[str, tuple[int, int]]:
    """Return for each broker the times of its first and its last report (epoch ms). `told` are pairs of two sequences:
    the brokers of some reports, and the times of these reports.
    """
    names = sorted(set().union(*(brokers for brokers, _ in told)))
    first, last = np.full(len(names), np.iinfo(np.int64).max), np.full(len(names), np.iinfo(np.int64).min)
    for brokers, at_ms in told:
        places = _places(brokers, names)
        np.minimum.at(first, places, at_ms)
        np.maximum.at(last, places, at_ms)
    return dict(zip(names, zip(first.tolist(), last.tolist(), strict=True), strict=True))


def _places(texts: Sequence[str], names: Sequence[str]) -> Integers:
    """Return for each text its index in `names`."""
    place = {name: row for row, name in enumerate(names)}
    return np.fromiter(map(place.__getitem__, texts), np.int64, len(texts))


def _capacities(usages: Usages) -> Mapping[str, Capacity]:
    found = {}
    order = np.argsort(usages.at_ms, kind="stable").tolist()
    for row in order:
        cpu, memory, network = (
            float(each[row]) for each in (usages.cpu_limit, usages.memory_limit, usages.network_limit)
        )
        if cpu > 0:
            default = Capacity()
            found[usages.broker[row]] = Capacity(
                cpu / 100,
                memory if memory > 0 else default.memory_mib,
                network if network > 0 else default.network_kbits,
            )
    return found


def _demand(samples: Samples, start_ms: int, steps: int, step_ms: int, cluster: Cluster) -> Demand:
    samples = _movable(samples)
    told = sorted(set(samples.bundle))
    leaves = smallest(told)
    names = tuple(sorted({leaf for parts in leaves.values() for leaf, _ in parts}))
    place = {name: row for row, name in enumerate(names)}
    figures = np.zeros((4, steps, len(names)))
    sessions, topics = np.zeros(len(names)), np.zeros(len(names))
    owners: dict[str, tuple[int, str]] = {}
    bundle = _places(samples.bundle, told)
    order = np.lexsort((samples.at_ms, bundle))
    edges = np.searchsorted(bundle[order], np.arange(len(told) + 1)).tolist()
    first_ms = dict(zip(told, samples.at_ms[order[edges[:-1]]].tolist(), strict=True))
    # reports before the period are unknown, so the first sample of a bundle takes their place
    wholes: dict[str, list[str]] = {}
    for whole, parts in leaves.items():
        for leaf, _ in parts:
            wholes.setdefault(leaf, []).append(whole)
    for name, begin, end in zip(told, edges, edges[1:], strict=False):
        rows, parts = order[begin:end], leaves[name]
        earliest_ms = min(first_ms[whole] for leaf, _ in parts for whole in wholes[leaf])
        ended = np.array(sorted(first_ms[leaf] for leaf, _ in parts if leaf != name and leaf in first_ms), np.int64)
        at, counted = _stretches(samples.at_ms[rows], earliest_ms, ended, start_ms, step_ms, steps)
        values = np.repeat(samples.figures[:, rows], counted, axis=1)
        oldest = int(rows[0])
        for leaf, share in parts:
            column = place[leaf]
            figures[:, at, column] = values * share
            sessions[column] = max(sessions[column], float(samples.sessions[rows].max()) * share)
            topics[column] = max(topics[column], float(samples.topics[rows].max()) * share)
            if leaf not in owners or owners[leaf][0] > first_ms[name]:
                owners[leaf] = (first_ms[name], samples.broker[oldest])
    begun = _at_first(leaves, wholes, first_ms)
    bundles = tuple(sorted(set(begun.values())))
    of = {each: row for row, each in enumerate(bundles)}
    ranges = [Bundle.parse(name).range for name in names]
    owner = {whole: owners[leaf][1] for leaf, whole in begun.items()}
    demand = Demand(
        start_ms,
        step_ms,
        bundles,
        np.array([of[begun[name]] for name in names], np.int64),
        np.full(len(names), SPREAD, np.int64),
        figures[0],
        figures[1],
        figures[2],
        figures[3],
        np.rint(sessions).astype(np.int64),
        np.rint(topics).astype(np.int64),
        tuple(owner[name] if owner[name] in cluster.brokers else "" for name in bundles),
        None if bundles == names else np.array([[each.lower, each.upper] for each in ranges], np.int64).T,
    )
    check(demand)
    return demand


def _movable(samples: Samples) -> Samples:
    """Return the samples without those of bundles that always belong to one broker, such as the bundle of a broker's
    heartbeat.
    """
    bound = {name for name in set(samples.bundle) if is_broker_bound(_bundle(name).namespace)}
    if not bound:
        return samples
    kept = np.array([name not in bound for name in samples.bundle], bool)
    rows = np.flatnonzero(kept).tolist()
    return Samples(
        [samples.bundle[row] for row in rows],
        [samples.broker[row] for row in rows],
        samples.at_ms[kept],
        samples.figures[:, kept],
        samples.sessions[kept],
        samples.topics[kept],
    )


def _at_first(
    leaves: Mapping[str, Sequence[tuple[str, float]]], wholes: Mapping[str, Sequence[str]], first_ms: Mapping[str, int]
) -> dict[str, str]:
    """Return, for each of the smallest bundles of the history, the bundle that contained its range at the beginning: a
    larger one if it was split later, otherwise the smallest bundle itself.

    `leaves` has for each bundle the smallest bundles in its range, `wholes` for each smallest bundle all bundles that
    contain it, and `first_ms` the time of each bundle's first sample. The bundle at the beginning is the one with the
    earliest sample; of several at the same time, the widest. A larger bundle is used only if it has the earliest sample
    for every smallest bundle in its range.
    """
    earliest = {leaf: min(of, key=lambda name: (first_ms[name], -len(leaves[name]))) for leaf, of in wholes.items()}
    return {
        leaf: whole if all(earliest[each] == whole for each, _ in leaves[whole]) else leaf
        for leaf, whole in earliest.items()
    }


def _stretches(
    at_ms: Integers, earliest_ms: int, ended_ms: Integers, start_ms: int, step_ms: int, steps: int
) -> tuple[Integers, Integers]:
    """Return the steps in which the samples of a bundle give its load, and for how many steps each sample does.

    `at_ms` are the times of the samples, ascending. `earliest_ms` is the time of the earliest sample of any bundle that
    overlaps this one. `ended_ms` are the times of the first samples of the bundle's parts, ascending: a report of a
    part shows that the bundle was split. The replay has `steps` steps from `start_ms`.
    """
    until = np.minimum(np.append(at_ms[1:], at_ms[-1] + SILENCE_MS), at_ms + SILENCE_MS)
    next_end = np.append(ended_ms, np.iinfo(np.int64).max)[np.searchsorted(ended_ms, at_ms, side="right")]
    until = np.minimum(until, next_end) - start_ms
    begin = np.where((at_ms <= earliest_ms) & (at_ms < start_ms + SILENCE_MS), 0, (at_ms - start_ms) // step_ms)
    end = until // step_ms
    end[-1] = max(begin[-1] + 1, -(-until[-1] // step_ms))
    counted = np.maximum(np.minimum(end, steps) - begin, 0)
    first = np.repeat(begin - np.cumsum(counted) + counted, counted)
    return first + np.arange(int(counted.sum())), counted


def smallest(bundles: Sequence[str]) -> dict[str, list[tuple[str, float]]]:
    """Return for each bundle the smallest bundles of the history that are in its range, each with the fraction of the
    range that it has.

    Raises:
        ReplayInputError: a name is not the name of a bundle.
    """
    ranges: dict[str, list[tuple[BundleRange, str]]] = {}
    for name in bundles:
        bundle = _bundle(name)
        ranges.setdefault(str(bundle.namespace), []).append((bundle.range, name))
    found: dict[str, list[tuple[str, float]]] = {}
    for mine in ranges.values():
        mine.sort(key=lambda each: (each[0].lower, -each[0].upper))
        leaves = [
            each
            for each, after in zip(mine, [*mine[1:], None], strict=True)
            if after is None or after[0].upper > each[0].upper
        ]
        for whole, name in mine:
            parts = [(leaf, each) for leaf, each in leaves if whole.lower <= leaf.lower and leaf.upper <= whole.upper]
            width = sum(leaf.width for leaf, _ in parts)
            found[name] = [(each, leaf.width / width) for leaf, each in parts]
    return found


def _bundle(name: str) -> Bundle:
    try:
        return Bundle.parse(name)
    except InvalidNameError as error:
        raise ReplayInputError(f"{name} is not a bundle: {error}") from None
