"""The settings of the simple load manager: from the configuration, and from the nodes below /loadbalance/settings.

A node holds a JSON map of texts. A value that can be read there overrides the configuration. The leader writes the two
load factors there. Needs no numpy.

Source: the dynamic settings of Pulsar's `SimpleLoadManagerImpl`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

SETTINGS_ROOT: Final = "/loadbalance/settings"
STRATEGY: Final = "loadBalancerStrategy"
CPU_FACTOR: Final = "loadFactorCPU"
MEMORY_FACTOR: Final = "loadFactorMemory"
OVERLOAD: Final = "overloadThreshold"
COMFORT: Final = "comfortLoadThreshold"
UNDERLOAD: Final = "underloadThreshold"
AUTO_SPLIT: Final = "autoBundleSplitEnabled"

SETTING_NODES: Final[Mapping[str, str]] = {
    STRATEGY: f"{SETTINGS_ROOT}/strategy",
    CPU_FACTOR: f"{SETTINGS_ROOT}/load_factor_cpu",
    MEMORY_FACTOR: f"{SETTINGS_ROOT}/load_factor_mem",
    OVERLOAD: f"{SETTINGS_ROOT}/overload_threshold",
    COMFORT: f"{SETTINGS_ROOT}/comfort_load_threshold",
    UNDERLOAD: f"{SETTINGS_ROOT}/underload_threshold",
    AUTO_SPLIT: f"{SETTINGS_ROOT}/auto_bundle_split_enabled",
}
"""The name of each setting in the JSON map of its node, and the path of the node."""


class SimpleStrategy(StrEnum):
    """The strategies by which the simple load manager places bundles; the values are those of
    `loadBalancerPlacementStrategy`.
    """

    LEAST_LOADED_SERVER = "leastLoadedServer"
    WEIGHTED_RANDOM_SELECTION = "weightedRandomSelection"
    LEAST_MSG_PER_SECOND = "leastMsgPerSecond"


@dataclass(frozen=True, slots=True)
class SimpleSettings:
    """The settings of the simple load manager. Thresholds are whole percents. `warnings` has a text for each setting
    whose value cannot be used; the text says what is used instead.
    """

    strategy: SimpleStrategy = SimpleStrategy.LEAST_LOADED_SERVER
    overload: int = 85
    underload: int = 50
    comfort: int = 65
    auto_split: bool = True
    warnings: tuple[str, ...] = ()

    @property
    def is_centralized(self) -> bool:
        """Whether only the leader places bundles. False with weightedRandomSelection: then every broker may place
        bundles.
        """
        return self.strategy is not SimpleStrategy.WEIGHTED_RANDOM_SELECTION

    @staticmethod
    def of(config: "BrokerConfig", stored: Mapping[str, str] | None = None) -> "SimpleSettings":
        """Return the settings in force. `stored` has the settings that were read from the metadata store, as in Pulsar:
        name of the setting, and value as text. A stored setting takes precedence over `config`.

        An unknown strategy means weightedRandomSelection. If a stored threshold is not a number, that in `config` is
        used.
        """
        nodes = stored or {}
        warnings: list[str] = []

        def percent(name: str, configured: float) -> int:
            return int(stored_number(nodes, name, configured, warnings))

        return SimpleSettings(
            strategy=_strategy(nodes.get(STRATEGY, config.load_balancer_placement_strategy), warnings),
            overload=percent(OVERLOAD, config.load_balancer_broker_overloaded_threshold_percentage),
            underload=percent(UNDERLOAD, config.load_balancer_broker_underloaded_threshold_percentage),
            comfort=percent(COMFORT, config.load_balancer_broker_comfort_load_level_percentage),
            auto_split=_truth(nodes, AUTO_SPLIT, config.load_balancer_auto_bundle_split_enabled),
            warnings=tuple(warnings),  # evaluated last
        )


def _strategy(name: str, warnings: list[str]) -> SimpleStrategy:
    try:
        return SimpleStrategy(name)
    except ValueError:
        known = ", ".join(SimpleStrategy)
        warnings.append(
            f"{name!r} is not a placement strategy of the simple load manager, so weightedRandomSelection is used; "
            f"set loadBalancerPlacementStrategy (or {SETTING_NODES[STRATEGY]}) to one of {known}"
        )
        return SimpleStrategy.WEIGHTED_RANDOM_SELECTION


def stored_number(stored: Mapping[str, str], name: str, otherwise: float, warnings: list[str] | None = None) -> float:
    """Return the number that `stored`, the settings in the metadata store, has for the setting `name`. Return
    `otherwise` if it has none, or if the stored text is not a number; in the latter case, add a warning to `warnings`.
    """
    text = stored.get(name)
    if text is None:
        return otherwise
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    if warnings is not None:
        warnings.append(f"{SETTING_NODES[name]} holds {text!r}, which is not a number; {otherwise:g} is used")
    return otherwise


def _truth(stored: Mapping[str, str], name: str, otherwise: bool) -> bool:
    text = stored.get(name)
    return otherwise if text is None else text.lower() == "true"
