"""Demand generated from a seed: bundles of unequal size, a daily swing, and noise."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.synthetic.shapes import Distribution, daily_swing, drawn_sizes

START_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00 UTC: the start of generated demand."""
MOST_BUNDLES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of generated demand. `rate` is the msg/s into all bundles together, as a mean over the day.

    The sizes of bundles are log-normal, with `spread` as the standard deviation of their logarithm. `swing` is the
    amplitude of the daily swing (0: none), `noise` the standard deviation of the logarithm of each sample. Each message
    is read `fan_out` times. `topics` is the number of topics per bundle.
    """

    brokers: int = 10
    bundles: int = 128
    namespaces: int = 1
    steps: int = 180
    step_ms: int = 60_000
    rate: float = 200_000.0
    spread: float = 0.8
    swing: float = 0.0
    noise: float = 0.05
    fan_out: float = 1.0
    bytes_a_message: float = 1_024.0
    topics: int = 10


def broker_names(count: int) -> tuple[str, ...]:
    """Return the ids of `count` generated brokers, `broker-0001:8080` and so on. Up to 9,999 they are in the order of
    names.
    """
    return tuple(f"broker-{number:04d}:8080" for number in range(1, count + 1))


def bundle_names(bundles: int, namespaces: int = 1) -> tuple[str, ...]:
    """Return the names of `bundles` bundles, sorted. They are distributed evenly over `namespaces` generated
    namespaces; the bundles of a namespace have equal widths.

    Raises:
        ReplayInputError: there are fewer bundles than namespaces, or too many bundles.
    """
    if not 1 <= namespaces <= bundles <= MOST_BUNDLES:
        raise ReplayInputError(
            f"{count_of(bundles, 'bundle')} in {count_of(namespaces, 'namespace')} cannot be generated; give 1 to"
            f" {MOST_BUNDLES} bundles, and 1 or more namespaces, but not more namespaces than bundles"
        )
    each, rest = divmod(bundles, namespaces)
    found = []
    for number in range(namespaces):
        name = NamespaceName.parse(f"public/ns-{number:04d}")
        found += [str(bundle) for bundle in NamespaceBundles.equal(name, each + (number < rest)).bundles]
    return tuple(sorted(found))


def rates(shape: Shape, seed: int) -> Floats:
    """Return the generated msg/s in of each bundle: one row per step and one column per bundle."""
    rng = np.random.default_rng(seed)
    size = drawn_sizes(Distribution.LOGNORMAL, shape.bundles, rng, sigma=shape.spread)
    seconds = np.arange(shape.steps) * shape.step_ms / 1000
    day = daily_swing(seconds, shape.swing)
    noise = rng.lognormal(0.0, shape.noise, (shape.steps, shape.bundles)) if shape.noise else 1.0
    found: Floats = (size * shape.rate / size.sum()) * day[:, None] * noise
    return found


def generated(shape: Shape, seed: int, *, owners: tuple[str, ...] = ()) -> Demand:
    """Return generated demand. If `owners` is empty, an owner of each bundle is drawn at random with `seed`.

    Raises:
        ReplayInputError: the demand of the shape cannot be replayed.
    """
    names = bundle_names(shape.bundles, shape.namespaces)
    brokers = broker_names(shape.brokers)
    if not owners:
        draws = np.random.default_rng([seed, 1]).integers(0, len(brokers), len(names))
        owners = tuple(brokers[row] for row in draws.tolist())
    rate = rates(shape, seed)
    return Demand.of_bundles(
        START_MS,
        shape.step_ms,
        names,
        rate,
        rate_out=rate * shape.fan_out,
        bytes_a_message=shape.bytes_a_message,
        topics=np.full(len(names), shape.topics, np.int64),
        owners=owners,
    )
