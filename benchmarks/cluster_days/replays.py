"""The same load and strategies in the simulator, where brokers measure exactly and nothing takes time."""

from typing import Any, Final

import numpy as np

from benchmarks.cluster_days import figures
from benchmarks.cluster_days.loads import BROKERS, PAYLOAD, Load
from benchmarks.cluster_days.systems import Strategy, plain_keys
from benchmarks.cluster_days.watch import Look, Move
from benchmarks.manager_comparison.managers import FASTER
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.replay.capacity import KBIT, Capacity
from pulsar_barycenter.replay.delivery import PERFECT, Delivery
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.simulator import Cluster, replay

_START_MS: Final = 0
_MINUTE_MS: Final = 60_000


def replayed(strategy: Strategy, load: Load, late_minutes: float = 0.0) -> dict[str, Any]:
    """Return what a run returns of balance: imbalance, moves and flaps, in steps of a minute of the traces. Every
    report is up to `late_minutes` of the traces late."""
    brokers = [f"127.0.0.1:{8080 + number}" for number in range(BROKERS)]
    first = load.first_owners(brokers)
    bundles = tuple(sorted(first))
    step_s = _MINUTE_MS / 1_000 / FASTER
    at_s = [step * step_s for step in range(int(load.times.whole_s / step_s))]
    rates = np.array([[load.usages_at(each)[bundle] for bundle in bundles] for each in at_s])
    topics = np.array([sum(of == bundle for of in load.bundle_of.values()) for bundle in bundles], np.int64)
    demand = Demand.of_bundles(
        _START_MS,
        _MINUTE_MS,
        bundles,
        rates * load.most_bytes / PAYLOAD,
        bytes_a_message=float(PAYLOAD),
        topics=topics,
        owners=tuple(first[bundle] for bundle in bundles),
    )
    cluster = Cluster({broker: Capacity(network_kbits=load.most_bytes / KBIT) for broker in brokers})
    delivery = Delivery(late=1.0, longest_ms=round(late_minutes * _MINUTE_MS)) if late_minutes > 0 else PERFECT
    outcome = replay(demand, cluster, with_overrides(BrokerConfig(), plain_keys(strategy, load)), delivery=delivery)
    # what a step decides takes effect in the next one
    moves = [
        Move((each.at_ms - _START_MS) / 1_000 / FASTER + step_s, each.bundle, each.source, each.destination)
        for each in outcome.moves
        if each.source and each.source != each.destination
    ]
    owners, looks, left = dict(first), list[Look](), list(moves)
    for now_s in [*at_s, load.times.whole_s]:
        while left and left[0].at_s <= now_s:
            move = left.pop(0)
            owners[move.bundle] = move.destination
        looks.append(Look(now_s, dict(owners)))
    return {
        **figures.of_balance(load, looks, moves, brokers),
        "every move": [[move.at_s, move.bundle, move.source, move.destination] for move in moves],
    }
