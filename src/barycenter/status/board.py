"""What the leader decides upon as rows to look at: brokers and bundles, sorted and filtered."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barycenter.load.reports.load_report import NamespaceBundleStats
from barycenter.load.snapshot.document import SnapshotDocument, loads_of, owned_bundles
from barycenter.status.cluster_status import BrokerStatus, with_load

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


@dataclass(frozen=True, slots=True)
class Board:
    """A snapshot as rows, in no order; `taken_at_ms` is when the leader took it."""

    taken_at_ms: int
    brokers: tuple[BrokerStatus, ...]
    bundles: tuple[BundleRow, ...]


def board_of(snapshot: SnapshotDocument) -> Board:
    """Return the rows of a snapshot; ages count from when it was taken."""
    brokers = tuple(
        with_load(BrokerStatus(broker=broker), report, snapshot.taken_at)
        for broker, report in loads_of(snapshot).items()
    )
    return Board(snapshot.taken_at, brokers, tuple(_bundles(snapshot)))


def _bundles(snapshot: SnapshotDocument) -> Iterator[BundleRow]:
    going = {bundle: broker for broker, bundles in snapshot.preallocated.items() for bundle in bundles}
    windows = snapshot.bundle_data or {}
    for broker, bundle, stats in owned_bundles(snapshot):
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
