"""The parts of all synthetic load: the distribution of sizes, the swing of the load over the day, and its drift."""

from enum import StrEnum
from typing import Final, TypeVar

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats

DAY_S: Final = 86_400

_Number = TypeVar("_Number", float, Floats)


class Distribution(StrEnum):
    """The random distribution from which the mean rates of bundles are drawn."""

    EVEN = "even"
    LOGNORMAL = "lognormal"
    """With the usual sigma of 1, half of the bundles are below 0.61 of the mean, and one in a hundred is above 6.2."""
    PARETO = "pareto"
    """Alpha is 1.5: about a third of the load is in one of a hundred bundles."""
    ZIPF = "zipf"
    """The k-th busiest bundle has 1/k of the rate of the busiest."""


def drawn_sizes(distribution: Distribution, count: int, chance: np.random.Generator, *, sigma: float = 1.0) -> Floats:
    """Return `count` random sizes of bundles. They have no unit: the caller scales them to the mean or sum that it
    needs.

    `sigma` is the standard deviation of their logarithm; it is only used for LOGNORMAL.
    """
    if distribution is Distribution.LOGNORMAL:
        return chance.lognormal(0.0, sigma, count)
    if distribution is Distribution.PARETO:
        return chance.pareto(1.5, count) + 1.0
    if distribution is Distribution.ZIPF:
        return chance.permutation(1.0 / np.arange(1, count + 1))
    return np.ones(count)


def drift(chance: np.random.Generator, steps: int, bundles: int, deviation: float = 0.5, hours: float = 3.0) -> Floats:
    """Return random factors of loads: one row for each of `steps` minutes, one column for each bundle. A factor drifts
    slowly away from 1 and back.

    The logarithm of a factor is an autoregressive process around 0. Its standard deviation is `deviation`, and its
    correlation falls to 1/e within `hours` hours.
    """
    kept = np.exp(-1 / (60 * hours))
    found = np.empty((steps, bundles))
    level = chance.normal(0.0, deviation, bundles)
    for step in range(steps):
        found[step] = level
        level = kept * level + chance.normal(0.0, deviation * np.sqrt(1 - kept**2), bundles)
    return np.exp(found)


def daily_swing(at_s: _Number, amplitude: float, phase: _Number | float = 0.0) -> _Number:
    """Return the factor by which the load at a time of day differs from the mean: between 1 - `amplitude` and 1 +
    `amplitude`, and 1 on average over a day.

    `at_s` is a time in seconds since a midnight, `phase` an angle (radians) that shifts the swing.
    """
    found: _Number = 1 + amplitude * np.sin(2 * np.pi * at_s / DAY_S + phase)
    return found
