"""Events of a replayed cluster. An event has a time (epoch ms), and takes effect in the step that contains it."""

from dataclasses import dataclass
from typing import TypeAlias

from pulsar_barycenter.replay.capacity import LIKE_MOST, Capacity


@dataclass(frozen=True, slots=True)
class BrokerAdded:
    """A broker joins the cluster, without bundles. A broker that had left can join again."""

    at_ms: int
    broker: str
    capacity: Capacity = LIKE_MOST


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    """A broker is shut down gracefully: it releases its bundles, and clients look them up at once."""

    at_ms: int
    broker: str


@dataclass(frozen=True, slots=True)
class BrokerCrashed:
    """A broker crashes: no broker serves its bundles until its session has expired."""

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
    """A broker serves its bundles, but its reports are lost until `until_ms`, exclusive."""

    at_ms: int
    broker: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """The leader is lost: no round and no split until `until_ms`, exclusive. The next leader knows the last report of
    each broker, and has no other memory.
    """

    at_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """The value of a key of broker.conf changes while brokers run, as with dynamic configuration."""

    at_ms: int
    key: str
    value: str


Event: TypeAlias = (
    BrokerAdded | BrokerRemoved | BrokerCrashed | BrokerSlowed | ReportsLost | LeaderLost | SettingChanged
)
