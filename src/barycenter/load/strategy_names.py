"""The names of the strategies, known without numpy, so that every broker can check its configuration at start.

A name is Pulsar's class name or its last part.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"

SHEDDER_NAMES: Final = frozenset({"ThresholdShedder", "OverloadShedder", "UniformLoadShedder"})
PLACER_NAMES: Final = frozenset(
    {"LeastLongTermMessageRate", "LeastResourceUsageWithWeight", "RoundRobinBrokerSelector"}
)


class UnknownStrategyError(ValueError):
    """No strategy of that name; the text names the key, the value and what is allowed."""

    def __init__(self, key: str, name: str, known: Collection[str]) -> None:
        super().__init__(f"{key}={name!r} is not a strategy known here; use one of {', '.join(sorted(known))}")
        self.key = key
        self.name = name


def short_name(class_name: str) -> str:
    """Return the last part of a class name."""
    return class_name.strip().rpartition(".")[2]


def shedder_name(config: "BrokerConfig") -> str:
    """Return the short name of `loadBalancerLoadSheddingStrategy`.

    Raises:
        UnknownStrategyError: there is none of that name.
    """
    return _known(SHEDDING_KEY, config.load_balancer_load_shedding_strategy, SHEDDER_NAMES)


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
