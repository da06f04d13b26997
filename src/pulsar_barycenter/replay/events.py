"""What happens to a cluster while it is replayed, each at a time (epoch ms), in force from the step it falls in."""

from dataclasses import dataclass
from typing import TypeAlias

from pulsar_barycenter.replay.capacity import LIKE_MOST, Capacity


@dataclass(frozen=True, slots=True)
class BrokerAdded:
    """A broker joins, without bundles; one that had left comes back."""

    at_ms: int
    broker: str
    capacity: Capacity = LIKE_MOST


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    """A broker is shut down in order: it gives its bundles up, and clients look them up at once."""

    at_ms: int
    broker: str


@dataclass(frozen=True, slots=True)
class BrokerCrashed:
    """A broker dies: nobody serves its bundles until its session has ended."""

    at_ms: int
    broker: str


@dataclass(frozen=True, slots=True)
class BrokerSlowed:
    """From now on a broker takes `factor` times the CPU for the same traffic; 1 is its normal speed."""

    at_ms: int
    broker: str
    factor: float


@dataclass(frozen=True, slots=True)
class ReportsLost:
    """A broker serves, but nobody hears its reports until `until_ms`, exclusive."""

    at_ms: int
    broker: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """A key of broker.conf gets another value, as by dynamic configuration."""

    at_ms: int
    key: str
    value: str


Event: TypeAlias = BrokerAdded | BrokerRemoved | BrokerCrashed | BrokerSlowed | ReportsLost | SettingChanged
