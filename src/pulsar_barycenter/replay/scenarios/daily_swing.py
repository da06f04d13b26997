"""A day on which half of the bundles are busy at noon, and the others at midnight."""

import numpy as np

from pulsar_barycenter.replay.scenario import (
    EVERY,
    Case,
    Expected,
    Setup,
    balanced,
    like_brokers,
    of_rates,
    rate_of_usage,
    sizes,
    steady,
)
from pulsar_barycenter.replay.synthetic.demand import broker_names
from pulsar_barycenter.replay.synthetic.shapes import daily_swing


def make(seed: int) -> Setup:
    share = sizes(64, seed)
    rates = steady(share, rate_of_usage(0.5, brokers=5), 1_440, seed)
    at_s = np.arange(1_440, dtype=np.float64)[:, None] * 60.0
    phase = np.where(np.random.default_rng([seed, 5]).random(64) < 0.5, 0.0, np.pi)
    rates *= daily_swing(at_s, 0.7, phase)
    return Setup(of_rates(rates, balanced(share, broker_names(5))), like_brokers(5))


CASE = Case(
    "daily-swing",
    "Five brokers at 50 %; half of the bundles swing by 70 % over the day, and the other half in opposite phase.",
    make,
    (
        Expected(
            EVERY, "flaps", "<=", 200, "a strategy that follows the day moves a bundle a few times, not every hour"
        ),
        Expected("LeastDisturbance", "regret", "<=", 1, "it waits until a gap has settled", than="AvgShedder"),
        Expected("LeastDisturbance", "flaps", "==", 0, "a bundle rests for half an hour"),
    ),
)
