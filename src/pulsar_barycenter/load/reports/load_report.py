"""The load report of the modular load manager, and the records of averages in the metadata store and the log.

Needs no numpy: every broker reads and writes these, even if it never leads. Rates are in msg/s, throughput in bytes/s,
times are epoch ms. Field names in JSON are Pulsar's (camel case); unknown fields are ignored on reading.

Source: Pulsar's `ResourceUsage`, `SystemResourceUsage`, `NamespaceBundleStats`, `LocalBrokerData`,
`TimeAverageMessageData`, `BundleData`, `TimeAverageBrokerData`, `ResourceQuota`.
"""

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

LOAD_REPORT_TOPIC: Final = "persistent://pulsar/system/load-reports"
"""Where brokers publish their reports if `barycenterLoadReportTopicEnabled` is set."""

SHORT_SAMPLES: Final = 10
LONG_SAMPLES: Final = 1000
DEFAULT_MESSAGE_RATE: Final = 50.0
DEFAULT_MESSAGE_THROUGHPUT: Final = 50_000.0
THROUGHPUT_RESOLUTION: Final = 100_000
RATE_RESOLUTION: Final = 100
COUNT_RESOLUTION: Final = 500
CACHE_RESOLUTION: Final = 100_000

_FLOAT32 = struct.Struct("<f")
_LONG_MAX = 2**63 - 1


def narrow_to_float32(value: float) -> float:
    """Return the 32-bit float that is nearest to `value`, as a Python float; infinite if `value` is out of the range of
    32 bits, as with a cast in Java.
    """
    try:
        return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def percent_usage(usage: float, limit: float) -> float:
    """Return 100 × usage / limit in 32-bit arithmetic, 0 for a limit that is not positive; never clamped.

    Both operands are narrowed before the division and the quotient and product are 32-bit floats, so that 1/3 is
    33.33333587646484. The result may be negative, above 100, or NaN when an operand is.
    Source: Pulsar's `ResourceUsage.percentUsage`.
    """
    if not limit > 0:
        return 0.0
    narrow_limit = narrow_to_float32(limit)
    if narrow_limit == 0:
        narrow_usage = narrow_to_float32(usage)
        quotient = math.nan if narrow_usage == 0 or math.isnan(usage) else math.copysign(math.inf, usage)
    else:
        quotient = narrow_to_float32(narrow_to_float32(usage) / narrow_limit)
    return narrow_to_float32(quotient * 100)


class ResourceUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of one resource of a broker: the amount used and the capacity, in the same unit; (-1, -1) means
    unknown.
    """

    usage: float = 0.0
    limit: float = 0.0

    @property
    def percent(self) -> float:
        """The usage in percent of the limit, 0 to 100 or more; see `percent_usage`."""
        return percent_usage(self.usage, self.limit)


UNKNOWN_USAGE: Final = ResourceUsage(-1.0, -1.0)

RESOURCES: Final = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
"""The resources of a broker, by the fields of reports, in the order of all tables that have a row or column of each."""


class HasResources(Protocol):
    """A load report or a measurement, which has a field for each resource in RESOURCES."""

    @property
    def cpu(self) -> ResourceUsage: ...
    @property
    def memory(self) -> ResourceUsage: ...
    @property
    def direct_memory(self) -> ResourceUsage: ...
    @property
    def bandwidth_in(self) -> ResourceUsage: ...
    @property
    def bandwidth_out(self) -> ResourceUsage: ...


def resources_of(used: HasResources) -> tuple[ResourceUsage, ...]:
    """Return the usage of each resource in `used`, in the order of RESOURCES."""
    return used.cpu, used.memory, used.direct_memory, used.bandwidth_in, used.bandwidth_out


class SystemResourceUsage(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """One measurement of a machine's resources. `cpu` in percent of one core, memories in MiB, bandwidths in kbit/s."""

    bandwidth_in: ResourceUsage = UNKNOWN_USAGE
    bandwidth_out: ResourceUsage = UNKNOWN_USAGE
    cpu: ResourceUsage = UNKNOWN_USAGE
    memory: ResourceUsage = UNKNOWN_USAGE
    direct_memory: ResourceUsage = UNKNOWN_USAGE


class NamespaceBundleStats(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The load of one bundle at one moment: sums over its loaded topics."""

    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    consumer_count: int = 0
    producer_count: int = 0
    topics: int = 0
    cache_size: int = 0


class AdvertisedListener(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The URLs of a broker on one of its advertised listeners."""

    broker_service_url: str | None = None
    broker_service_url_tls: str | None = None
    broker_http_url: str | None = None
    broker_https_url: str | None = None


class ResourceWeights(NamedTuple):
    """The weights of resources in the usage of a broker with the modular load manager (`weighted_resource_usage`); as
    in Pulsar 4.x, memory has no weight.
    """

    cpu: float = 1.0
    direct_memory: float = 0.0
    bandwidth_in: float = 1.0
    bandwidth_out: float = 1.0


DEFAULT_WEIGHTS: Final = ResourceWeights()


class LocalBrokerData(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The load report of one broker: the value at /loadbalance/brokers/<id> and one entry of the load-report log.

    `bundles` are the keys of `last_stats`; gains and losses are the bundles that came and left since the last written
    report; all three are sorted. In addition to Pulsar's fields it has `incarnation` (new at each start of the process)
    and `sequence` (1, 2, 3, ... within one incarnation), which together with the broker id identify a report.
    `only_assigns` is set by a broker without numpy: such a broker assigns bundles, but does not shed or split them.
    """

    broker_id: str | None = None
    web_service_url: str | None = None
    web_service_url_tls: str | None = None
    pulsar_service_url: str | None = None
    pulsar_service_url_tls: str | None = None
    persistent_topics_enabled: bool = True
    non_persistent_topics_enabled: bool = True
    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    direct_memory: ResourceUsage = ResourceUsage()
    bandwidth_in: ResourceUsage = ResourceUsage()
    bandwidth_out: ResourceUsage = ResourceUsage()
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    last_update: int = 0
    last_stats: dict[str, NamespaceBundleStats] = {}
    num_topics: int = 0
    num_bundles: int = 0
    num_consumers: int = 0
    num_producers: int = 0
    bundles: tuple[str, ...] = ()
    last_bundle_gains: tuple[str, ...] = ()
    last_bundle_losses: tuple[str, ...] = ()
    broker_version_string: str | None = None
    protocols: dict[str, str] = {}
    advertised_listeners: dict[str, AdvertisedListener] = {}
    load_manager_class_name: str | None = None
    start_timestamp: int = 0
    max_resource_usage: float = 0.0
    """Derived, as written by the broker. Readers compute it again with `max_resource_usage`."""
    load_report_type: str = "LocalBrokerData"
    incarnation: str = ""
    sequence: int = 0
    only_assigns: bool | msgspec.UnsetType = msgspec.UNSET


def system_usage(report: LocalBrokerData) -> SystemResourceUsage:
    """Return the usage of a broker's resources, which its load report contains."""
    return SystemResourceUsage(
        cpu=report.cpu,
        memory=report.memory,
        direct_memory=report.direct_memory,
        bandwidth_in=report.bandwidth_in,
        bandwidth_out=report.bandwidth_out,
    )


class TimeAverageMessageData(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """One window of a bundle, that is, averages over the bundle's last samples; see
    `pulsar_barycenter.load.reports.windows`.
    """

    max_samples: int = 0
    num_samples: int = 0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0


class BundleData(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The short-term and the long-term window of a bundle: the value at /loadbalance/bundle-data/<bundle>."""

    short_term_data: TimeAverageMessageData
    long_term_data: TimeAverageMessageData
    topics: int = 0


class TimeAverageBrokerData(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The time averages of a broker, which are the sums of the windows of its bundles: the value at
    /loadbalance/broker-time-average/<broker>.
    """

    short_term_msg_throughput_in: float = 0.0
    short_term_msg_throughput_out: float = 0.0
    short_term_msg_rate_in: float = 0.0
    short_term_msg_rate_out: float = 0.0
    long_term_msg_throughput_in: float = 0.0
    long_term_msg_throughput_out: float = 0.0
    long_term_msg_rate_in: float = 0.0
    long_term_msg_rate_out: float = 0.0


class ResourceQuota(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The quota at /loadbalance/resource-quota/namespace/<bundle>; bandwidths in bytes/s, memory in MiB."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bandwidth_in: float = 0.0
    bandwidth_out: float = 0.0
    memory: float = 0.0
    dynamic: bool = True


QUOTA_FIGURES: Final = ("msg_rate_in", "msg_rate_out", "bandwidth_in", "bandwidth_out", "memory")
"""The values of a quota, in this order."""

INITIAL_QUOTA: Final = ResourceQuota(
    msg_rate_in=40.0, msg_rate_out=120.0, bandwidth_in=100_000.0, bandwidth_out=300_000.0, memory=80.0
)
"""The quota of an unknown bundle, unless the metadata store holds another default."""


DEFAULT_STATS: Final = NamespaceBundleStats(
    msg_rate_in=DEFAULT_MESSAGE_RATE,
    msg_rate_out=DEFAULT_MESSAGE_RATE,
    msg_throughput_in=DEFAULT_MESSAGE_THROUGHPUT,
    msg_throughput_out=DEFAULT_MESSAGE_THROUGHPUT,
)
"""The load that an unknown bundle counts with."""


def default_bundle_data() -> BundleData:
    """Return the data with which strategies count a bundle of unknown load: default values, and no samples in either
    window. So the first sample of the bundle replaces these values.
    """
    return _bundle_data_of(DEFAULT_STATS, 0, 0)


def bundle_data_of_quota(quota: ResourceQuota) -> BundleData:
    """Return the data of a bundle of which only the resource quota is known. The averages of both windows are the
    quota, and both windows count as full: a later sample changes them by its normal share, and does not replace them.
    """
    stats = NamespaceBundleStats(
        msg_rate_in=quota.msg_rate_in,
        msg_rate_out=quota.msg_rate_out,
        msg_throughput_in=quota.bandwidth_in,
        msg_throughput_out=quota.bandwidth_out,
    )
    return _bundle_data_of(stats, SHORT_SAMPLES, LONG_SAMPLES)


def _bundle_data_of(stats: NamespaceBundleStats, short_samples: int, long_samples: int) -> BundleData:
    def window(max_samples: int, num_samples: int) -> TimeAverageMessageData:
        return TimeAverageMessageData(
            max_samples=max_samples,
            num_samples=num_samples,
            msg_throughput_in=stats.msg_throughput_in,
            msg_throughput_out=stats.msg_throughput_out,
            msg_rate_in=stats.msg_rate_in,
            msg_rate_out=stats.msg_rate_out,
        )

    return BundleData(
        short_term_data=window(SHORT_SAMPLES, short_samples), long_term_data=window(LONG_SAMPLES, long_samples)
    )


def max_resource_usage(data: LocalBrokerData | SystemResourceUsage) -> float:
    """Return the largest percentage of CPU, direct memory and the two bandwidths, as a fraction (memory is left out).

    It is a 32-bit float, widened: 80 % is 0.800000011920929. NaN percentages are ignored; if all are NaN, the result is
    minus infinity.
    Source: `LocalBrokerData.getMaxResourceUsage` of Pulsar 3.0 and newer.
    """
    percents = (data.cpu.percent, data.direct_memory.percent, data.bandwidth_in.percent, data.bandwidth_out.percent)
    return narrow_to_float32(largest(percents) / 100)


def weighted_resource_usage(data: LocalBrokerData | SystemResourceUsage, weights: ResourceWeights) -> float:
    """Return the largest product of a resource's usage (CPU, direct memory, one of the two bandwidths) and its weight,
    as a fraction; not clamped, so it may exceed 1.0.

    A weight of 0 makes the maximum at least 0. NaN terms are ignored; if all are NaN, the result is minus infinity.

    Source: `LocalBrokerData.getMaxResourceUsageWithWeight` of Pulsar 3.0 and newer.
    """
    terms = (
        data.cpu.percent * weights.cpu,
        data.direct_memory.percent * weights.direct_memory,
        data.bandwidth_in.percent * weights.bandwidth_in,
        data.bandwidth_out.percent * weights.bandwidth_out,
    )
    return largest(terms) / 100


def largest(terms: Iterable[float]) -> float:
    """Return the largest term that is not NaN (minus infinity if all are); of 0 and -0 the first, as in Pulsar."""
    return max((term for term in terms if not math.isnan(term)), default=-math.inf)


def percent_change(old: float, new: float) -> float:
    """Return the change in percent, 100 × |old - new| / |old|; infinite if only `old` is 0, and 0 if both are 0."""
    if old == 0:
        return 0.0 if new == 0 else math.inf
    return 100.0 * abs((old - new) / old)


def exact_sum(values: Iterable[float]) -> float:
    """Return the sum of the values, rounded only once, so that their order does not matter; a plain sum if a partial
    sum overflows.
    """
    items = list(values)
    try:
        return math.fsum(items)
    except (OverflowError, ValueError):  # overflow, or infinities of both signs
        return sum(items)


def sum_stats(stats: Iterable[NamespaceBundleStats]) -> NamespaceBundleStats:
    """Return the sums of all fields over `stats`; sums of floats are rounded only once, so that the order does not
    matter.
    """
    items = list(stats)
    return NamespaceBundleStats(
        msg_rate_in=exact_sum(s.msg_rate_in for s in items),
        msg_throughput_in=exact_sum(s.msg_throughput_in for s in items),
        msg_rate_out=exact_sum(s.msg_rate_out for s in items),
        msg_throughput_out=exact_sum(s.msg_throughput_out for s in items),
        consumer_count=sum(s.consumer_count for s in items),
        producer_count=sum(s.producer_count for s in items),
        topics=sum(s.topics for s in items),
        cache_size=sum(s.cache_size for s in items),
    )


def with_stats(data: LocalBrokerData, stats: Mapping[str, NamespaceBundleStats]) -> LocalBrokerData:
    """Return `data` with `stats`, the new loads of the broker's bundles, as its bundles: the sums and counts are
    computed from `stats`. Bundles that came or left are added to the gains and losses that `data` already has.

    A bundle that left and came back since the last written report is in both the gains and the losses, as in Pulsar.
    Source: `LocalBrokerData.update`.
    """
    before, now = set(data.bundles), set(stats)
    total = sum_stats(stats.values())
    return msgspec.structs.replace(
        data,
        msg_rate_in=total.msg_rate_in,
        msg_rate_out=total.msg_rate_out,
        msg_throughput_in=total.msg_throughput_in,
        msg_throughput_out=total.msg_throughput_out,
        num_topics=total.topics,
        num_consumers=total.consumer_count,
        num_producers=total.producer_count,
        num_bundles=len(now),
        last_stats={name: stats[name] for name in sorted(stats)},
        bundles=tuple(sorted(now)),
        last_bundle_gains=tuple(sorted({*data.last_bundle_gains, *(now - before)})),
        last_bundle_losses=tuple(sorted({*data.last_bundle_losses, *(before - now)})),
    )


def _steps(value: float, resolution: int) -> int:
    """Return `value` / `resolution` as a whole number: truncated toward zero and bounded to 64 bits, with NaN as 0, as
    by a cast in Java.
    """
    quotient = value / resolution
    if math.isnan(quotient):
        return 0
    return int(max(-_LONG_MAX - 1, min(_LONG_MAX, quotient))) if math.isinf(quotient) else int(quotient)


def _nearest_steps(value: float, resolution: int) -> int:
    """Return `value` / `resolution` as a whole number: rounded, halves upward, and bounded to 64 bits, with NaN as 0,
    as by Java's `Math.round`.
    """
    quotient = value / resolution
    if not math.isfinite(quotient):
        return _steps(value, resolution)
    whole = math.floor(quotient)
    return max(-_LONG_MAX - 1, min(_LONG_MAX, whole + (quotient - whole >= 0.5)))


def stats_rank(stats: NamespaceBundleStats) -> tuple[int, int, int, int, int]:
    """Return a sort key that orders bundles by load as Pulsar 4.x does (larger = more loaded).

    The key compares first throughput in, then throughput out, message rate in + out, the sum of topics, consumers and
    producers, and last the bytes of cache. Each value is compared in steps: of 100 000 bytes/s, 100 msg/s, 500 (topics,
    consumers and producers), or 100 000 bytes of cache. Throughput and rate are rounded to the nearest step, the other
    values down. Values in the same step are equal.

    Source: `NamespaceBundleStats.compareTo` (4.2).
    """
    return (
        _nearest_steps(stats.msg_throughput_in, THROUGHPUT_RESOLUTION),
        _nearest_steps(stats.msg_throughput_out, THROUGHPUT_RESOLUTION),
        _nearest_steps(stats.msg_rate_in + stats.msg_rate_out, RATE_RESOLUTION),
        _steps(stats.topics + stats.consumer_count + stats.producer_count, COUNT_RESOLUTION),
        _steps(stats.cache_size, CACHE_RESOLUTION),
    )


def bundle_data_rank(data: BundleData) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return a sort key that orders bundles by load, larger for more load: by the short-term window, then by the
    long-term window. Source: `BundleData.compareTo`.
    """
    return _window_rank(data.short_term_data), _window_rank(data.long_term_data)


def _window_rank(window: TimeAverageMessageData) -> tuple[int, int, int]:
    return (
        _steps(window.msg_throughput_in, THROUGHPUT_RESOLUTION),
        _steps(window.msg_throughput_out, THROUGHPUT_RESOLUTION),
        _steps(window.msg_rate_in + window.msg_rate_out, RATE_RESOLUTION),
    )


def encode_without_none(data: msgspec.Struct) -> bytes:
    """Return the JSON of `data`, without fields that are None or not set, as Pulsar writes its records."""
    fields = zip(data.__struct_encode_fields__, data.__struct_fields__, strict=True)
    values = ((key, getattr(data, name)) for key, name in fields)
    return msgspec.json.encode(
        {key: value for key, value in values if value is not None and value is not msgspec.UNSET}
    )


def encode_report(data: LocalBrokerData) -> bytes:
    """Return the JSON of `data`, without fields that are None."""
    return encode_without_none(data)


_DECODER = msgspec.json.Decoder(LocalBrokerData)


def decode_report(document: bytes) -> LocalBrokerData:
    """Return the report in `document`.

    Raises:
        msgspec.DecodeError: it is not JSON in UTF-8, is nested too deeply, or a field has the wrong type.
    """
    try:
        return _DECODER.decode(document)
    except (UnicodeDecodeError, RecursionError) as error:  # msgspec does not make errors of its own of these
        raise msgspec.DecodeError(str(error)) from error
