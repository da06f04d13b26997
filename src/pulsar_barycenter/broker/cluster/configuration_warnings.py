"""Tells the log what `load.advice.configuration_advice` says: at the start, and after a dynamic change what is new."""

import structlog

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.advice.configuration_advice import Advice, Severity, advice

log = structlog.get_logger(__name__)


class ConfigurationWarnings:
    """Tells each advice once for as long as it holds; one that was mended and is true again is told again."""

    def __init__(self, config: ConfigHolder) -> None:
        self._told: frozenset[Advice] = frozenset()
        self._config = config
        self._following = False
        self._network_bytes_per_s: float | None = None

    def start(self) -> None:
        """Tell what holds now, and follow the configuration from now on. Idempotent."""
        if not self._following:
            self._following = True
            self._config.on_any_change(self._log_new_advice)
            self._log_new_advice(self._config.current)

    def learn_network(self, limit_kbps: float) -> None:
        """Judge from now on by what this broker's network carries each way; 0 or less is not known."""
        if limit_kbps > 0:
            self._network_bytes_per_s = limit_kbps * 125
            self._log_new_advice(self._config.current)

    def _log_new_advice(self, config: BrokerConfig) -> None:
        found = advice(config, network_bytes_per_s=self._network_bytes_per_s)
        for each in found:
            if each not in self._told:
                tell = log.info if each.severity is Severity.NOTE else log.warning
                tell("configuration_advice", key=each.key, value=each.value, reason=each.sentence, mend=each.mend)
        self._told = frozenset(found)
