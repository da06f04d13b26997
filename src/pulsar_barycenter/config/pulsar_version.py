"""The version of Pulsar to follow, and the defaults in which the versions differ.

Source: Pulsar's "Configuration default changes from Pulsar 4.x to 5.0.x". docs/pulsar-versions.md has the whole
comparison.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

PulsarVersion: TypeAlias = Literal["4.x", "5.x"]

VERSIONS: Final[tuple[PulsarVersion, ...]] = ("5.x", "4.x")
"""The versions, newest first. The newest is the default."""

COMPATIBILITY_KEY: Final = "barycenterPulsarCompatibility"

FORMER_DEFAULTS: Final[Mapping[PulsarVersion, Mapping[str, Any]]] = {
    "5.x": {},
    "4.x": {
        "load_balancer_load_shedding_strategy": "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
        "load_balancer_load_placement_strategy": "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
        "load_balancer_distribute_bundles_evenly_enabled": True,
        "max_unload_percentage": 0.2,
        "default_number_of_namespace_bundles": 4,
        "default_number_of_system_namespace_bundles": None,
    },
}
"""For each version: attribute of `BrokerConfig` to its default, if that differs from the newest version's."""
