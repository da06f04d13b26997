"""Findings about brokers: they differ from the others, together lack capacity, or sent too few reports.

The strength of a broker is derived from its own reports: its CPU, divided by the CPU that a model computes for the same
traffic. The model is fitted to the reports of all other brokers. 2.0 means that the broker takes twice the CPU, as if
it had half the cores.
"""

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any, Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.advice.finding import AdviceFinding, Kind
from pulsar_barycenter.replay.capacity import KBIT, Capacity, CapacityModel, fit
from pulsar_barycenter.replay.demand import FIGURES, Demand
from pulsar_barycenter.replay.inputs.recorded import SATURATED, SILENCE_MS, Usages

DIFFERS: Final = 1.25
"""A broker differs if it takes at least this many times the CPU of the others for the same traffic, or at most the
inverse."""
_LEAST_REPORTS: Final = 8
_MOST_REPORTS: Final = 5_000
MOST_TOLD: Final = 10
_LEAST_DETERMINATION: Final = 0.5
_UNKNOWN: Final = 0.1


def of_other_size(brokers: Mapping[str, Capacity]) -> list[AdviceFinding]:
    """Return a finding for each broker whose cores or network bandwidth differ from those that most brokers have."""
    if not brokers:
        return []
    usual = Counter(brokers.values()).most_common(1)[0][0]
    found = []
    for name, each in sorted(brokers.items()):
        if (each.cores, each.network_kbits) == (usual.cores, usual.network_kbits):
            continue
        sentence = (
            f"{name} has {each.cores:g} cores and {each.network_kbits / 1e6:g} Gbit/s; most have"
            f" {usual.cores:g} cores and {usual.network_kbits / 1e6:g} Gbit/s"
        )
        mend = "prefer a strategy that balances usage to one that balances message rates, or use equal brokers"
        figures = {"cores": each.cores, "usualCores": usual.cores}
        found.append(AdviceFinding(kind=Kind.BROKER, subject=name, sentence=sentence, mend=mend, figures=figures))
    return found


def of_other_strength(usages: Usages) -> list[AdviceFinding]:
    """Return a finding for each broker that takes far more or far less CPU than the others for the same traffic, at
    most MOST_TOLD. The broker that differs most comes first.

    The brokers are found one after another. As soon as a broker is found, its reports are left out, because they would
    distort the model with which the other brokers are compared.
    """
    known = (usages.cpu >= 0) & (usages.cpu < SATURATED * usages.cpu_limit)
    rows = np.flatnonzero(known)
    rows = rows[:: max(1, -(-len(rows) // _MOST_REPORTS))]
    names = np.array(usages.broker, object)[rows]
    found: list[AdviceFinding] = []
    while len(found) < MOST_TOLD:
        differing = [
            each for name in sorted(set(names.tolist())) if (each := _against_others(usages, rows, names, name))
        ]
        if not differing:
            break
        furthest = max(differing, key=_distance)
        found.append(furthest)
        rows, names = rows[names != furthest.subject], names[names != furthest.subject]
    return found


def _distance(found: AdviceFinding) -> tuple[float, float]:
    """Return a key by which findings are sorted: the more their broker differs from the others, the greater the key. Of
    two that differ equally, the finding on the weaker broker has the greater key.
    """
    factor = max(found.figures["factor"], 1e-3)
    return round(abs(float(np.log(factor))), 1), factor


def _against_others(usages: Usages, rows: Integers, names: Any, name: str) -> AdviceFinding | None:
    """Return the finding about the broker `name`. Return None if its CPU does not differ much from what the model of
    the other brokers gives, if there are too few reports, or if the model does not describe the other brokers well.

    `rows` are the indexes of the reports to compare, and `names` has the broker of each of them.
    """
    mine: Flags = names == name
    if min(int(mine.sum()), int((~mine).sum())) < _LEAST_REPORTS:
        return None
    cpu, rate, throughput = usages.cpu[rows], usages.rate[rows], usages.throughput[rows]
    others = fit(cpu[~mine], rate[~mine], throughput[~mine])
    model = others.model
    expected = model.idle_cpu + model.cpu_per_message * rate[mine] + model.cpu_per_byte * throughput[mine]
    if others.determination < _LEAST_DETERMINATION or float(expected.sum()) <= 0:
        return None
    factor = float(cpu[mine].sum() / expected.sum())
    if 1 / DIFFERS < factor < DIFFERS:
        return None
    strength = f"about {1 / factor:.0%} as strong" if factor > 0 else "far stronger"
    return AdviceFinding(
        kind=Kind.BROKER,
        subject=name,
        sentence=f"{name} takes {factor:.2g} times the CPU of the others for the same traffic ({int(mine.sum())} of its"
        f" reports against the fit of the others', R² {others.determination:.2f}): it is {strength}",
        mend="check which other processes run there, and whether the hardware differs; a strategy that balances"
        f" message rates {'overloads' if factor > 1 else 'underuses'} it",
        figures={"factor": factor, "reports": int(mine.sum()), "determination": others.determination},
    )


def too_little(
    demand: Demand, model: CapacityModel, brokers: Mapping[str, Capacity], limit: float
) -> list[AdviceFinding]:
    """Return a finding if the brokers cannot take the load of the step with the greatest load, or could not with one
    broker fewer; otherwise an empty list.

    The load is assumed to be perfectly balanced. `limit` is the usage (a fraction) up to which a broker may be loaded.
    """
    count = len(brokers)
    cores, network = (
        sum(getattr(each, name) for each in brokers.values()) / count for name in ("cores", "network_kbits")
    )
    totals = [np.asarray(getattr(demand, name).sum(axis=1), float) for name in FIGURES]
    cpu = model.cpu_per_message * (totals[0] + totals[1]) + model.cpu_per_byte * (totals[2] + totals[3])
    free = limit * cores * 100 - model.idle_cpu
    needs = {
        "CPU": cpu / free if free > 0 else np.full(len(cpu), np.inf),
        "bandwidth in": totals[2] / KBIT / (limit * network),
        "bandwidth out": totals[3] / KBIT / (limit * network),
    }
    resource = max(needs, key=lambda name: float(needs[name].max()))
    step, most = int(np.argmax(needs[resource])), float(needs[resource].max())
    if not np.isfinite(most):
        sentence = f"idle brokers use {model.idle_cpu:g} % of a core, more than the limit of {limit:.0%} leaves"
        mend = "check which other processes run on the brokers, and how well CPU follows traffic (the fit)"
        return [AdviceFinding(kind=Kind.CAPACITY, subject="all brokers", sentence=sentence, mend=mend, figures={})]
    needed = max(1, ceil(most - 1e-9))
    if needed < count or (count == 1 and needed == 1):
        return []
    used = {"CPU": (cpu[step] / count + model.idle_cpu) / (cores * 100)}.get(resource, most * limit / count)
    figures = {"usage": float(used), "limit": limit, "brokers": count, "neededBrokers": needed, "step": step}
    minutes = float((needs[resource] > count).sum()) * demand.step_ms / 60_000
    figures["minutesAbove"] = minutes
    all_of_them = f"the {resource} of {count_of(count, 'broker')}"
    even = f"at the busiest time (step {step}) the usage of {all_of_them} is {float(used):.0%} even if balanced"
    if needed > count:
        sentence = f"{even}; the limit is {limit:.0%}, and all brokers are above it for {minutes:g} min in total"
        mend = f"add {needed - count} {'broker' if needed - count == 1 else 'brokers'}, or more to be able to lose one"
    else:
        sentence = f"{even}; with one broker fewer, this usage would be above the limit of {limit:.0%}"
        mend = "add a broker if the cluster must tolerate the loss of one at its busiest time"
    return [AdviceFinding(kind=Kind.CAPACITY, subject="all brokers", sentence=sentence, mend=mend, figures=figures)]


def told_too_little(usages: Usages) -> list[AdviceFinding]:
    """Return a finding for each broker of which too little is known: it sent no report for more than SILENCE_MS between
    two reports, or too many of its reports lack its CPU.
    """
    found = []
    names = np.array(usages.broker, object)
    for name in sorted(set(usages.broker)):
        mine = names == name
        times = np.sort(usages.at_ms[mine])
        silences = np.diff(times)
        longest = int(silences.max(initial=0))
        if longest > SILENCE_MS:
            many = int((silences > SILENCE_MS).sum())
            sentence = (
                f"{name} reported nothing for {longest / 60_000:.0f} min, {many} time{'s' if many > 1 else ''} for more"
                f" than {SILENCE_MS // 60_000} min, though it reported before and after: its load in between is not"
                " known"
            )
            mend = "check whether reports were lost, or the broker was down"
            figures = {"longestSilenceS": longest / 1000, "silences": many}
            found.append(AdviceFinding(kind=Kind.REPORTS, subject=name, sentence=sentence, mend=mend, figures=figures))
        unknown = float((usages.cpu[mine] < 0).mean())
        if unknown > _UNKNOWN:
            sentence = f"{unknown:.0%} of the {count_of(int(mine.sum()), 'report')} of {name} have no CPU usage"
            mend = "find out why; the advice uses the fit to other reports instead"
            figures = {"share": unknown}
            found.append(AdviceFinding(kind=Kind.REPORTS, subject=name, sentence=sentence, mend=mend, figures=figures))
    return found
