"""Configurations that advice is given about."""

from typing import Any

import msgspec

from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.advice.configuration_advice import Severity

SHEDDING = "load_balancer_load_shedding_strategy"
PLACEMENT = "load_balancer_load_placement_strategy"
WEIGHTS = (
    "load_balancer_cpu_resource_weight",
    "load_balancer_direct_memory_resource_weight",
    "load_balancer_bandwidth_in_resource_weight",
    "load_balancer_bandwidth_out_resource_weight",
)
NO_WEIGHTS: dict[str, Any] = {
    **dict.fromkeys(WEIGHTS, 0.0),
}
AVG: dict[str, Any] = {SHEDDING: "AvgShedder", PLACEMENT: "AvgShedder"}
UNIFORM: dict[str, Any] = {SHEDDING: "UniformLoadShedder"}
MINIMUM = "load_balancer_bundle_unload_min_throughput_threshold"
EVENLY = "load_balancer_distribute_bundles_evenly_enabled"


def configured(**changes: Any) -> BrokerConfig:
    """Return the defaults of 4.x with changes; most rules concern the strategies that are default there."""
    return msgspec.structs.replace(default_config("4.x"), **changes)


REFUSED, WARNING, NOTE = Severity.REFUSED, Severity.WARNING, Severity.NOTE
