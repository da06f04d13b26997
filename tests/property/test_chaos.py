"""Rounds of chaos (`replay.experiments.chaos`), a short form: how even the brokers are when each round ends.

`python -m benchmarks chaos` plays a thousand rounds of each kind.
"""

import numpy as np
import pytest

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.replay.experiments.chaos import MINUTES, Hot, chaos, evenness, settings_of_chaos
from pulsar_barycenter.replay.simulator import replay

ROUNDS = 40


@pytest.mark.drawn(2)
@pytest.mark.parametrize("hot", [Hot.NONE, Hot.MOVABLE])
@pytest.mark.parametrize("seed", [1, 2])
def test_brokers_are_even_after_each_round_of_chaos(hot: Hot, seed: int) -> None:
    """The bounds are those of a one-shot optimiser, with twenty rounds of the leader in place of one."""
    case = chaos(ROUNDS, hot, seed)
    config = with_overrides(BrokerConfig(), settings_of_chaos("LeastDisturbance"))
    found = evenness(replay(case.demand, case.cluster, config, case.events, seed=seed))
    over = np.sort(found.over)
    for part, bound in ((0.5, 0.02), (0.9, 0.03), (0.95, 0.04), (0.99, 0.35)):
        assert over[int((ROUNDS - 1) * part)] <= bound


def test_what_no_broker_can_carry_beside_others_stands_alone() -> None:
    """A bundle with half of all load: its broker has less than an ordinary bundle in addition, and the bundle moves
    at most once when brokers join and leave."""
    case = chaos(ROUNDS, Hot.INDIVISIBLE, 1)
    config = with_overrides(BrokerConfig(), settings_of_chaos("LeastDisturbance"))
    outcome = replay(case.demand, case.cluster, config, case.events, seed=1)
    # in and out, of 8 cores
    usages = 2 * case.demand.rate_in * case.cluster.model.cpu_per_message / 800
    alone = 0
    for number in np.flatnonzero(case.is_hot).tolist():
        end, place = (number + 1) * MINUTES - 1, case.hot[number]
        ordinary = float(np.delete(usages[end], place).mean())
        beside = outcome.usage[end].max() - usages[end, place] - case.cluster.model.idle_cpu / 800
        alone += beside <= max(ordinary, 0.02)
        began_ms, end_ms, name = outcome.at_ms[number * MINUTES], outcome.at_ms[end], case.demand.bundles[place]
        own = [move for move in outcome.moves if move.bundle == name and began_ms <= move.at_ms <= end_ms]
        assert len([move for move in own if move.kind == "unload"]) <= 1
    assert alone >= 0.9 * sum(case.is_hot)


def test_the_same_seed_makes_the_same_chaos() -> None:
    first, again = chaos(3, Hot.MOVABLE, 5), chaos(3, Hot.MOVABLE, 5)
    assert first.events == again.events
    assert np.array_equal(first.demand.rate_in, again.demand.rate_in)
