"""Events of a replayed cluster. An event has a time (epoch ms), and takes effect in the step that contains it."""

from dataclasses import dataclass
from typing import TypeAlias

from pulsar_barycenter.replay.capacity import LIKE_MOST, Capacity


@dataclass(frozen=True, slots=True)
class BrokerAdded:
    """A broker joins the cluster at `at_ms`, without bundles. A broker that left before can join again."""

    at_ms: int
    broker: str
    capacity: Capacity = LIKE_MOST


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    """A broker is shut down in order at `at_ms`: it releases its bundles, and they can get other owners at once."""

    at_ms: int
    broker: str


@dataclass(frozen=True, slots=True)
class BrokerCrashed:
    """A broker crashes at `at_ms`: its bundles have no owner until its session has expired."""

    at_ms: int
    broker: str


@dataclass(frozen=True, slots=True)
class BrokerSlowed:
    """From `at_ms` on, a broker takes `factor` times the CPU for the same traffic; 1 is its normal speed."""

    at_ms: int
    broker: str
    factor: float


@dataclass(frozen=True, slots=True)
class ReportsLost:
    """From `at_ms`, inclusive, to `until_ms`, exclusive, a broker sends no reports, but serves its bundles."""

    at_ms: int
    broker: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """The leader is lost at `at_ms`. Until `until_ms`, exclusive, there is no round and no split. The next leader has
    all load reports and averages, but the memories of the shedder and of the splitter are empty.
    """

    at_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """At `at_ms`, the key `key` of broker.conf gets the value `value` on running brokers, as by dynamic
    configuration.
    """

    at_ms: int
    key: str
    value: str


Event: TypeAlias = (
    BrokerAdded | BrokerRemoved | BrokerCrashed | BrokerSlowed | ReportsLost | LeaderLost | SettingChanged
)
