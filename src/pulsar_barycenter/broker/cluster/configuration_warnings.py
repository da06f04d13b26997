"""Logs advice about unreasonable values in the configuration (`load.advice`): at the start, and new advice after a
change at run time.
"""

import structlog

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.advice.configuration_advice import Advice, Severity, advice

log = structlog.get_logger(__name__)


class ConfigurationWarnings:
    """Logs advice about the configuration. A piece of advice is logged once when it begins to apply. It is logged again
    only if it ceased to apply and then applies again.
    """

    def __init__(self, config: ConfigHolder) -> None:
        self._logged: frozenset[Advice] = frozenset()
        self._config = config
        self._following = False
        self._network_bytes_per_s: float | None = None

    def start(self) -> None:
        """Log all advice that applies to the present configuration, and from then on the advice that begins to apply
        after a change. Idempotent.
        """
        if not self._following:
            self._following = True
            self._config.on_any_change(self._log_new_advice)
            self._log_new_advice(self._config.current)

    def learn_network(self, limit_kbps: float) -> None:
        """Set the capacity of this broker's network, in kbit/s for each direction, and log the advice that applies
        because of it. 0 or less means that the capacity is not known, and changes nothing.
        """
        if limit_kbps > 0:
            self._network_bytes_per_s = limit_kbps * 125
            self._log_new_advice(self._config.current)

    def _log_new_advice(self, config: BrokerConfig) -> None:
        found = advice(config, network_bytes_per_s=self._network_bytes_per_s)
        for new in found:
            if new not in self._logged:
                write = log.info if new.severity is Severity.NOTE else log.warning
                write("configuration_advice", key=new.key, value=new.value, reason=new.sentence, mend=new.mend)
        self._logged = frozenset(found)
