"""What the rules of configuration advice read, and the advice that they give. See `configuration_advice`."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import format_value, key_name
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_in_force
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.strategies import placer_name, shedder_name


class Severity(enum.StrEnum):
    REFUSED = "refused"
    """A broker with this setting does not start."""
    WARNING = "warning"
    """The setting does not have the effect that its key promises."""
    NOTE = "note"
    """The setting works, but is perhaps not what was intended."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on one key: its value as in broker.conf, the effect of the value, and what to do."""

    key: str
    value: str
    severity: Severity
    sentence: str
    mend: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}: {self.sentence}; {self.mend}"


@dataclass(frozen=True)
class Facts:
    """A configuration, and the values derived from it that the rules of the advice read."""

    config: BrokerConfig
    known_network: float | None = None

    @cached_property
    def manager(self) -> ManagerKind:
        return manager_in_force(self.config)

    @cached_property
    def shedder(self) -> str:
        """The short name of the shedding strategy in force; "" if shedding is switched off, or if the configuration
        names no valid strategy.
        """
        config = self.config
        if not (config.load_balancer_enabled and config.load_balancer_shedding_enabled):
            return ""
        try:
            return shedder_name(config)
        except StrategyError:
            return ""

    @cached_property
    def placer(self) -> str:
        try:
            return placer_name(self.config)
        except StrategyError:
            return ""

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """The weights of the resources in the load manager's usage: CPU, direct memory, inbound and outbound bandwidth;
        with the extensible load manager also memory, which is the last.
        """
        config = self.config
        weights = resource_weights(config)
        extensible = self.manager is ManagerKind.EXTENSIBLE
        return (*weights, config.load_balancer_memory_resource_weight) if extensible else weights

    @cached_property
    def full(self) -> float:
        """The usage that the load manager computes for a broker whose resources are all used completely: the largest
        weight. A usage is a fraction, times the weight of the resource.
        """
        return max(self.weights)

    @cached_property
    def network(self) -> float | None:
        """The capacity of a broker's network, bytes/s in + out; None if it is unknown."""
        each_way = self.known_network
        speed, nics = (
            self.config.load_balancer_override_broker_nic_speed_gbps,
            self.config.load_balancer_override_broker_nics,
        )
        if each_way is None and speed is not None and nics:
            each_way = speed * len(nics) * 1e9 / 8
        return None if each_way is None else 2 * each_way

    def advise(self, attribute: str, sentence: str, mend: str, severity: Severity = Severity.WARNING) -> Advice:
        """Return advice on the configuration key that belongs to the attribute `attribute` of `BrokerConfig`:
        `sentence` is the effect of the key's value, `mend` is what the operator should do.
        """
        value = format_value(getattr(self.config, attribute))
        return Advice(key_name(attribute), value, severity, sentence, mend)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: if the function `holds` returns True for a configuration, the rule gives advice on the key of
    `attribute`. The advice says the effect (`sentence`) and what to do (`mend`).
    """

    attribute: str
    holds: Callable[[Facts], bool]
    sentence: str
    mend: str
    severity: Severity = Severity.WARNING
