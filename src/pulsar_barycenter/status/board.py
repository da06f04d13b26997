"""What the leader decides upon as rows to look at: brokers and bundles, sorted and filtered; and topics."""

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
    """One bundle: rates are msg/s, throughput bytes/s.

    `broker` owns it; `going_to` is where the leader sent it and nobody reported it from yet, else blank. `long_rate` is
    in + out over the long window, None if no window is known, as with the extensible load manager, whose brokers tell
    the figures of their heaviest bundles alone: `is_known` is whether there are any.
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
    """One topic: rates are msg/s, throughput bytes/s, `backlog` messages of all subscriptions, `storage_size` bytes.

    `broker` serves its `bundle`. Where it tells nothing of the topic, as of one that nobody uses, `is_known` is false.
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
    """Return the row of a topic; `stats` is what a broker says at `…/stats`, None if it says nothing.

    Raises:
        msgspec.ValidationError: it is nothing of the kind.
    """
    if stats is None:
        return TopicRow(topic=topic, bundle=bundle, broker=broker, is_known=False)
    told = msgspec.convert(stats, _TopicStats, strict=False)
    return TopicRow(
        topic=topic,
        bundle=bundle,
        broker=broker,
        msg_rate_in=told.msg_rate_in,
        msg_rate_out=told.msg_rate_out,
        msg_throughput_in=told.msg_throughput_in,
        msg_throughput_out=told.msg_throughput_out,
        backlog=sum(each.msg_backlog for each in told.subscriptions.values()),
        storage_size=told.storage_size,
        subscriptions=len(told.subscriptions),
        producers=len(told.publishers),
        consumers=sum(len(each.consumers) for each in told.subscriptions.values()),
    )


def heaviest(bundles: Iterable[BundleRow], topics: int, most: int) -> list[BundleRow]:
    """Return the bundles with the most msg/s, until they have so many `topics` or are `most`; of those without figures
    nobody knows how many topics they have."""
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
    """A snapshot as rows, in no order; `taken_at_ms` is when the leader took it.

    The brokers' own bundles (heartbeat, SLA monitor) are left out, of rows and of counts.
    """

    taken_at_ms: int
    brokers: tuple[BrokerStatus, ...]
    bundles: tuple[BundleRow, ...]


def board_of(snapshot: SnapshotDocument) -> Board:
    """Return the rows of a snapshot; ages count from when it was taken."""
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
        figures = _NO_STATS if stats is None else stats
        data = windows.get(bundle)
        long = None if data is None else data.long_term_data
        yield BundleRow(
            bundle=bundle,
            broker=broker,
            going_to=going.get(bundle, ""),
            is_known=stats is not None,
            topics=figures.topics,
            producers=figures.producer_count,
            consumers=figures.consumer_count,
            msg_rate_in=figures.msg_rate_in,
            msg_rate_out=figures.msg_rate_out,
            msg_throughput_in=figures.msg_throughput_in,
            msg_throughput_out=figures.msg_throughput_out,
            long_rate=None if long is None else long.msg_rate_in + long.msg_rate_out,
        )


def arranged(
    rows: Iterable[T], key: Callable[[T], Any], *, descending: bool, words: str = "", text: Callable[[T], str]
) -> Sequence[T]:
    """Return the rows whose `text` has all of the `words`, upper and lower case alike, by `key`; None comes last."""
    wanted = words.lower().split()
    found = [row for row in rows if all(word in text(row).lower() for word in wanted)]
    known = [row for row in found if key(row) is not None]
    known.sort(key=key, reverse=descending)
    return [*known, *(row for row in found if key(row) is None)]
