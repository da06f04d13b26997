"""What a split algorithm is asked, and when it refuses."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pulsar_barycenter.naming.bundle import BundleRange

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

MEBIBYTE: Final = 1_048_576


class SplitRefusedError(ValueError):
    """The algorithm cannot be applied to what was given; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """What one loaded topic carries, in + out: `rate` in msg/s, `throughput` in bytes/s."""

    hash: int
    rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """What a bundle may carry, msg/s and bytes/s, and by which fraction it has to exceed that to be worth a cut."""

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
    """`hashes` are those of the topics loaded in the bundle, in any order; `positions` those an administrator named.

    `loads` are the figures of the topics that have any, in any order, and `limits` what they are held against.
    """

    range: BundleRange
    hashes: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    loads: tuple[TopicLoad, ...] = ()
    limits: TrafficLimits = TrafficLimits()


def can_divide(bundle_range: BundleRange) -> bool:
    """Tell whether the range holds more than one hash to part. Source: `NamespaceBundleFactory.canSplitBundle`."""
    return bundle_range.upper - bundle_range.lower > 1
