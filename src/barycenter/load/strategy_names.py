"""The names of the strategies, known without numpy, so that every broker can check its configuration at start.

A name is Pulsar's class name or its last part.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"

SHEDDER_NAMES: Final = frozenset(
    {
        "ThresholdShedder",
        "OverloadShedder",
        "UniformLoadShedder",
        "AvgShedder",
        "RangeThresholdShedder",
        "DeviationShedder",
    }
)
PLACER_NAMES: Final = frozenset(
    {"LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector", "AvgShedder"}
)


BOTH: Final = frozenset({"AvgShedder"})
"""Strategies that shed and place as one: both keys name it, or neither."""


class StrategyError(ValueError):
    """The configuration asks for strategies that cannot be had; the text says what to set instead."""


class UnknownStrategyError(StrategyError):
    """No strategy of that name; the text names the key, the value and what is allowed."""

    def __init__(self, key: str, name: str, known: Collection[str]) -> None:
        super().__init__(f"{key}={name!r} is not a strategy known here; use one of {', '.join(sorted(known))}")
        self.key = key
        self.name = name


class MismatchedStrategiesError(StrategyError):
    """A strategy that sheds and places as one is named by one key only; the text names both keys and the mend."""

    def __init__(self, name: str, key: str, other_key: str, other: str) -> None:
        super().__init__(
            f"{key} is {name}, which sheds and places as one, but {other_key} is {other}; "
            f"set {other_key}={name}, too, or another strategy in {key}"
        )


def short_name(class_name: str) -> str:
    """Return the last part of a class name."""
    return class_name.strip().rpartition(".")[2]


def shedder_name(config: "BrokerConfig") -> str:
    """Return the short name of `loadBalancerLoadSheddingStrategy`.

    Raises:
        UnknownStrategyError: there is none of that name.
        MismatchedStrategiesError: it, or the placement strategy, sheds and places as one, and the other is another.
    """
    name = _known(SHEDDING_KEY, config.load_balancer_load_shedding_strategy, SHEDDER_NAMES)
    placer = short_name(config.load_balancer_load_placement_strategy)
    if name != placer and name in BOTH:
        raise MismatchedStrategiesError(name, SHEDDING_KEY, PLACEMENT_KEY, placer)
    if name != placer and placer in BOTH:
        raise MismatchedStrategiesError(placer, PLACEMENT_KEY, SHEDDING_KEY, name)
    return name


def placer_name(config: "BrokerConfig") -> str:
    """Return the short name of `loadBalancerLoadPlacementStrategy`.

    Raises:
        UnknownStrategyError: there is none of that name.
    """
    return _known(PLACEMENT_KEY, config.load_balancer_load_placement_strategy, PLACER_NAMES)


def _known(key: str, class_name: str, known: Collection[str]) -> str:
    name = short_name(class_name)
    if name not in known:
        raise UnknownStrategyError(key, class_name, known)
    return name
