"""The part of a broker's configuration that decisions depend on, as snapshots carry it."""

from typing import Final

from barycenter.config.broker_conf import runtime_values
from barycenter.config.broker_config import BrokerConfig

_BALANCING_KEYS: Final = (
    *("loadBalancer", "loadManager", "lowerBoundary", "maxUnload", "minUnload", "preferLaterVersions"),
    *("failureDomains", "defaultNamespaceBundleSplit", "flowOrQpsDifference"),
)
"""How the names of keys begin that decisions depend on."""


def balancing_configuration(config: BrokerConfig) -> dict[str, str]:
    """Return the keys that matter for balancing and differ from their defaults, as texts."""
    defaults = runtime_values(BrokerConfig())
    return {
        key: text
        for key, text in runtime_values(config).items()
        if text != defaults[key] and key.startswith(_BALANCING_KEYS)
    }
