"""The resource weights that result from a configuration."""

from typing import TYPE_CHECKING

from pulsar_barycenter.load.reports.extensible_reports import ExtensibleResourceWeights
from pulsar_barycenter.load.reports.load_report import ResourceWeights

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


def resource_weights(config: "BrokerConfig") -> ResourceWeights:
    """Return the four weights of a broker's usage for the modular load manager; memory has no weight.

    Each of the two bandwidths has two keys: if the key in its present spelling has the value 1, the key in Pulsar's old
    spelling (`…BandwithIn…`) decides.
    """
    bandwidth_in = config.load_balancer_bandwidth_in_resource_weight
    bandwidth_out = config.load_balancer_bandwidth_out_resource_weight
    return ResourceWeights(
        cpu=config.load_balancer_cpu_resource_weight,
        direct_memory=config.load_balancer_direct_memory_resource_weight,
        bandwidth_in=config.load_balancer_bandwith_in_resource_weight if bandwidth_in == 1.0 else bandwidth_in,
        bandwidth_out=config.load_balancer_bandwith_out_resource_weight if bandwidth_out == 1.0 else bandwidth_out,
    )


def extensible_resource_weights(config: "BrokerConfig") -> ExtensibleResourceWeights:
    """Return the five weights of a broker's usage for the extensible load manager."""
    cpu, direct_memory, bandwidth_in, bandwidth_out = resource_weights(config)
    return ExtensibleResourceWeights(
        cpu=cpu,
        memory=config.load_balancer_memory_resource_weight,
        direct_memory=direct_memory,
        bandwidth_in=bandwidth_in,
        bandwidth_out=bandwidth_out,
    )
