"""Table rows of brokers, bundles and topics, from the load data on which the leader decides; sorted and filtered."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from pulsar_barycenter.load.policies import DRAINED_KEY, drained_names
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, loads_of
from pulsar_barycenter.load.snapshot.reported import users_bundles
from pulsar_barycenter.status.cluster_status import BrokerStatus, with_load

_NO_STATS: Final = NamespaceBundleStats()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRow:
    """A row of the table of bundles: rates are in msg/s, throughput in bytes/s.

    `broker` is the owner. `going_to` is the broker to which the leader has assigned the bundle, until that broker
    reports it; otherwise it is blank. `long_rate` is in + out over the long window, None if no window is known. Brokers
    with the extensible load manager publish the load of their heaviest bundles only: `is_known` is False for the
    others, whose rates are then 0.
    """

    bundle: str
    broker: str = ""
    going_to: str = ""
    is_known: bool = True
    topics: int = 0
    producers: int = 0
    consumers: int = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    long_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A row of the table of topics: rates are in msg/s, throughput in bytes/s; `backlog` is in messages of all
    subscriptions, `storage_size` in bytes.

    `broker` serves its `bundle`. `is_known` is false if the broker has no stats of the topic: no client uses it.
    """

    topic: str
    bundle: str
    broker: str = ""
    is_known: bool = True
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    backlog: int = 0
    storage_size: int = 0
    subscriptions: int = 0
    producers: int = 0
    consumers: int = 0


class _Subscription(msgspec.Struct, rename="camel"):
    msg_backlog: int = 0
    consumers: list[Any] = []


class _TopicStats(msgspec.Struct, rename="camel"):
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    storage_size: int = 0
    publishers: list[Any] = []
    subscriptions: dict[str, _Subscription] = {}


def topic_row(topic: str, bundle: str, broker: str, stats: Any) -> TopicRow:
    """Return the row of a topic; `stats` is a broker's answer to the request for the topic's stats, None if the broker
    has no stats of the topic.

    Raises:
        msgspec.ValidationError: the answer has an unexpected form.
    """
    if stats is None:
        return TopicRow(topic=topic, bundle=bundle, broker=broker, is_known=False)
    known = msgspec.convert(stats, _TopicStats, strict=False)
    return TopicRow(
        topic=topic,
        bundle=bundle,
        broker=broker,
        msg_rate_in=known.msg_rate_in,
        msg_rate_out=known.msg_rate_out,
        msg_throughput_in=known.msg_throughput_in,
        msg_throughput_out=known.msg_throughput_out,
        backlog=sum(subscription.msg_backlog for subscription in known.subscriptions.values()),
        storage_size=known.storage_size,
        subscriptions=len(known.subscriptions),
        producers=len(known.publishers),
        consumers=sum(len(subscription.consumers) for subscription in known.subscriptions.values()),
    )


def heaviest(bundles: Iterable[BundleRow], topics: int, most: int) -> list[BundleRow]:
    """Return the bundles with the highest rate (msg/s, in + out), the highest first. The list ends as soon as its
    bundles have `topics` topics together, or if it has `most` bundles.

    Bundles without topics are left out. A bundle whose load is not known is included; its topics are counted as 0.
    """
    found: list[BundleRow] = []
    count = 0
    for row in sorted(bundles, key=lambda row: (-(row.msg_rate_in + row.msg_rate_out), row.bundle)):
        if count >= topics or len(found) == most:
            break
        if row.topics or not row.is_known:
            found.append(row)
            count += row.topics
    return found


@dataclass(frozen=True, slots=True)
class Board:
    """The rows of a table of brokers and of a table of bundles, made from a snapshot, unsorted; `taken_at_ms` (epoch
    ms) is when the leader took the snapshot.

    Rows and counts leave out the brokers' own bundles (heartbeat, SLA monitor).
    """

    taken_at_ms: int
    brokers: tuple[BrokerStatus, ...]
    bundles: tuple[BundleRow, ...]


def board_of(snapshot: SnapshotDocument) -> Board:
    """Return the rows of brokers and bundles of a snapshot; the age of a broker's report is the time from the report to
    the snapshot.
    """
    drained = drained_names(snapshot.configuration.get(DRAINED_KEY, ""))
    bundles = tuple(_bundles(snapshot))
    counts = Counter(row.broker for row in bundles)
    brokers = tuple(
        with_load(
            BrokerStatus(broker=broker, is_drained=broker in drained, bundles=counts[broker]), report, snapshot.taken_at
        )
        for broker, report in loads_of(snapshot).items()
    )
    return Board(snapshot.taken_at, brokers, bundles)


def _bundles(snapshot: SnapshotDocument) -> Iterator[BundleRow]:
    going = {bundle: broker for broker, bundles in snapshot.preallocated.items() for bundle in bundles}
    windows = snapshot.bundle_data or {}
    for broker, bundle, stats in users_bundles(snapshot):
        values = _NO_STATS if stats is None else stats
        data = windows.get(bundle)
        long = None if data is None else data.long_term_data
        yield BundleRow(
            bundle=bundle,
            broker=broker,
            going_to=going.get(bundle, ""),
            is_known=stats is not None,
            topics=values.topics,
            producers=values.producer_count,
            consumers=values.consumer_count,
            msg_rate_in=values.msg_rate_in,
            msg_rate_out=values.msg_rate_out,
            msg_throughput_in=values.msg_throughput_in,
            msg_throughput_out=values.msg_throughput_out,
            long_rate=None if long is None else long.msg_rate_in + long.msg_rate_out,
        )


def arranged(
    rows: Iterable[T], key: Callable[[T], Any], *, descending: bool, words: str = "", text: Callable[[T], str]
) -> Sequence[T]:
    """Return the rows whose `text` contains each of the `words` (separated by blanks), ignoring case. They are sorted
    by `key`; rows for which it returns None come last, also if `descending` is True.
    """
    wanted = words.lower().split()
    found = [row for row in rows if all(word in text(row).lower() for word in wanted)]
    known = [row for row in found if key(row) is not None]
    known.sort(key=key, reverse=descending)
    return [*known, *(row for row in found if key(row) is None)]
