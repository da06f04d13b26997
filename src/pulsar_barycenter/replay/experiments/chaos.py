"""Rounds of chaos: at the start of each round, the healthy brokers and all loads are drawn at random.

Eight brokers have 128 bundles. At the start of a round, six, seven or all eight brokers are healthy, chosen at random.
The total load is random, up to 120 % of what these brokers can carry. The load of a bundle is its width times its
density: widths come from random cuts of the key space, densities are from 1 to 4. In half of the rounds one bundle is
hot. A round lasts `MINUTES`. The result is how balanced the brokers are at its end:

    over  = (largest load - mean) / max(capacity of a broker, mean)
    under = (mean - smallest load) / max(capacity of a broker, mean)

`Hot` has three kinds. NONE: no bundle is hot. MOVABLE: the hot bundle has the average load of a broker, or half of the
total load if that is less. INDIVISIBLE: it has half of the total load, so the best result is a broker with this bundle
alone.

Source: the set-up of `AlgorithmChaosSuite` in Databricks Dicer, adapted to bundles, which are neither replicated nor
split at a key.
"""

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats, Integers
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.events import BrokerAdded, BrokerRemoved, Event
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.simulator import Cluster
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names, bundle_names

BROKERS: Final = 8
BUNDLES: Final = 128
MINUTES: Final = 20
_MINUTE_MS: Final = 60_000
_CAPACITY: Final = Capacity()


class Hot(enum.StrEnum):
    NONE = "none"
    MOVABLE = "movable"
    INDIVISIBLE = "indivisible"


@dataclass(frozen=True)
class Chaos:
    """The input of a replay of the chaos experiment, in which loads change at random at the start of each round.

    `is_hot` has for each round whether one bundle is hot, that is, has a large part of all load. `hot` has for each
    round the row number of that bundle; if no bundle is hot, the number has no meaning.
    """

    demand: Demand
    cluster: Cluster
    events: tuple[Event, ...]
    is_hot: tuple[bool, ...]
    hot: tuple[int, ...]


def chaos(rounds: int, hot: Hot, seed: int) -> Chaos:
    """Return a random input of `rounds` rounds of MINUTES minutes each. For each round it is drawn which brokers are in
    the cluster, which load the bundles have, and whether one bundle is hot; `hot` says how hot such a bundle is. Equal
    seeds give equal inputs.
    """
    rng = np.random.default_rng([seed, 7])
    cluster = Cluster(dict.fromkeys(broker_names(BROKERS), _CAPACITY), CapacityModel(idle_cpu=8.0))
    carried = (100 * _CAPACITY.cores - cluster.model.idle_cpu) / (2 * cluster.model.cpu_per_message)
    names, live = broker_names(BROKERS), set(broker_names(BROKERS))
    rates, events, is_hot, which = [], list[Event](), list[bool](), list[int]()
    for number in range(rounds):
        at_ms = START_MS + number * MINUTES * _MINUTE_MS
        count = int(rng.integers(6, BROKERS + 1))
        healthy = {names[row] for row in rng.permutation(BROKERS)[:count].tolist()}
        events += [BrokerAdded(at_ms, name, _CAPACITY) for name in sorted(healthy - live)]
        events += [BrokerRemoved(at_ms, name) for name in sorted(live - healthy)]
        live = healthy
        share = _shares(rng)
        place, heats = int(rng.integers(BUNDLES)), bool(rng.random() < 0.5) and hot is not Hot.NONE
        total = float(rng.random()) * 1.2 * carried * count
        if heats:
            part = 0.5 if hot is Hot.INDIVISIBLE else min(0.5, 1 / count)
            share[place] = 0.0
            share *= (1 - part) / share.sum()
            share[place] = part
        is_hot.append(heats)
        which.append(place)
        rates.append(np.repeat(share[None] * total, MINUTES, axis=0))
    owners = tuple(names[row % BROKERS] for row in range(BUNDLES))
    demand = Demand.of_bundles(START_MS, _MINUTE_MS, bundle_names(BUNDLES), np.concatenate(rates), owners=owners)
    return Chaos(demand, cluster, tuple(events), tuple(is_hot), tuple(which))


def _shares(rng: np.random.Generator) -> Floats:
    """Return the share of each bundle in the total load. It is proportional to the width of the bundle's range, which
    random cuts determine, times a random density between 1 and 4.
    """
    cuts = np.sort(rng.random(BUNDLES - 1))
    found: Floats = np.diff(cuts, prepend=0.0, append=1.0) * rng.uniform(1, 4, BUNDLES)
    found /= found.sum()
    return found


@dataclass(frozen=True, slots=True)
class Evenness:
    """The balance at the end of each round: `over` and `under` are how much more and how much less load than the mean a
    broker has, as fractions of a broker (the docstring of the module has the formulas).

    `moves` is the number of unloads in the round, `load` the fraction of all traffic that they moved.
    """

    over: Floats
    under: Floats
    moves: Integers
    load: Floats


def evenness(outcome: Outcome) -> Evenness:
    """Return how balanced the brokers were at the end of each round of the chaos experiment. `outcome` is that of its
    replay.
    """
    ends = np.arange(MINUTES - 1, len(outcome.at_ms), MINUTES)
    live, usage = outcome.live[ends], outcome.usage[ends]
    mean = np.where(live, usage, 0.0).sum(axis=1) / live.sum(axis=1)
    against = np.maximum(1.0, mean)
    of_round = np.array(
        [(each.at_ms - int(outcome.at_ms[0])) // (MINUTES * outcome.step_ms) for each in outcome.moves], np.int64
    )
    unloads = np.array([each.kind == "unload" for each in outcome.moves], bool)
    rate = np.array([each.rate for each in outcome.moves], float)
    total = np.maximum(1e-9, outcome.rate[ends].sum(axis=1))
    return Evenness(
        (np.where(live, usage, -np.inf).max(axis=1) - mean) / against,
        (mean - np.where(live, usage, np.inf).min(axis=1)) / against,
        np.bincount(of_round[unloads], minlength=len(ends)),
        np.bincount(of_round[unloads], rate[unloads], len(ends)) / total,
    )


def settings_of_chaos(strategy: str) -> dict[str, str]:
    """Return the settings for a run of the chaos experiment with `strategy`. They make it react as fast as possible,
    because all loads change every 20 minutes.
    """
    fast = {
        "loadBalancerSheddingGracePeriodMinutes": "0",
        "loadBalancerReportUpdateMaxIntervalMinutes": "1",
        "loadBalancerDistributeBundlesEvenlyEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        "barycenterLeastDisturbanceBandPercentage": "2",
        "barycenterLeastDisturbancePatienceMinutes": "0",
        "barycenterLeastDisturbanceMovesPerHour": "1000000",
    }
    return {**settings_of(strategy, {}), **fast}
