"""The contract of a split algorithm: the request, and the error with which it refuses one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pulsar_barycenter.naming.bundle import BundleRange

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

MEBIBYTE: Final = 1_048_576


class SplitRefusedError(ValueError):
    """A split algorithm cannot be applied to a request, because the request lacks something; the text says what."""


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """The load of one loaded topic, in + out: `rate` in msg/s, `throughput` in bytes/s."""

    hash: int
    rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """The maximum traffic of a bundle, in msg/s and bytes/s. A bundle is split when its traffic is above this by at
    least the fraction `difference`.
    """

    max_rate: float = 30_000
    max_bandwidth: float = 100 * MEBIBYTE
    difference: float = 0.1

    @staticmethod
    def of(config: "BrokerConfig") -> "TrafficLimits":
        return TrafficLimits(
            max_rate=config.load_balancer_namespace_bundle_max_msg_rate,
            max_bandwidth=config.load_balancer_namespace_bundle_max_bandwidth_mbytes * MEBIBYTE,
            difference=config.flow_or_qps_difference_threshold_percentage / 100.0,
        )


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A bundle to split, given by its hash `range`, and what a split algorithm may need: `hashes` are the hashes of its
    loaded topics, in any order; `positions` are hashes that an administrator requested.

    `loads` are the loads of those topics that have load, in any order. They are compared with `limits`.
    """

    range: BundleRange
    hashes: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    loads: tuple[TopicLoad, ...] = ()
    limits: TrafficLimits = TrafficLimits()


def can_divide(bundle_range: BundleRange) -> bool:
    """Return whether the range of a bundle has more than one hash, so that the bundle can be split. Source:
    `NamespaceBundleFactory.canSplitBundle`.
    """
    return bundle_range.upper - bundle_range.lower > 1
