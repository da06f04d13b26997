"""The keys of a broker's configuration that decisions, and advice on its balancing, depend on, for snapshots."""

from typing import Final

from pulsar_barycenter.config.broker_conf import default_config, runtime_values
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY

_BALANCING_KEYS: Final = (
    *("loadBalancer", "loadManager", "lowerBoundary", "maxUnload", "minUnload", "preferLaterVersions"),
    *("failureDomains", "defaultNamespaceBundleSplit", "flowOrQpsDifference", "barycenterDrained"),
    "statsUpdateFrequencyInSecs",
)
"""How the names of the configuration keys begin on which balancing decisions, and advice on them, depend."""


def balancing_configuration(config: BrokerConfig) -> dict[str, str]:
    """Return the version of Pulsar to be compatible with, and the balancing keys whose values differ from Pulsar's
    defaults. All values are strings.
    """
    version = config.barycenter_pulsar_compatibility
    defaults = runtime_values(default_config(version))
    return {COMPATIBILITY_KEY: version} | {
        key: text
        for key, text in runtime_values(config).items()
        if text != defaults[key] and key.startswith(_BALANCING_KEYS)
    }
