"""Rows of a snapshot of either kind, and how they are ordered and filtered."""

from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    TimeAverageMessageData,
    default_bundle_data,
)
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.status.board import arranged, board_of

A, B = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
WHOLE = "0x00000000_0xffffffff"
STATS = NamespaceBundleStats(msg_rate_in=3.0, msg_throughput_out=7.0, topics=2, consumer_count=1)


def test_bundles_of_load_reports_with_their_windows_and_where_they_go() -> None:
    long = TimeAverageMessageData(msg_rate_in=5.0, msg_rate_out=6.0)
    snapshot = SnapshotDocument(
        taken_at=5_000,
        brokers={"b1:1": LocalBrokerData(last_stats={A: STATS, B: STATS}, num_bundles=2, last_update=3_000)},
        bundle_data={A: BundleData(short_term_data=TimeAverageMessageData(), long_term_data=long)},
        preallocated={"b2:1": {B: default_bundle_data()}},
    )
    board = board_of(snapshot)
    first, second = board.bundles
    assert (first.bundle, first.broker, first.going_to, first.long_rate) == (A, "b1:1", "", 11.0)
    assert (first.msg_rate_in, first.msg_throughput_out, first.topics, first.consumers) == (3.0, 7.0, 2, 1)
    assert (second.going_to, second.long_rate) == ("b2:1", None)
    assert [(each.broker, each.bundles, each.reported_s_ago) for each in board.brokers] == [("b1:1", 2, 2.0)]


def test_bundles_of_the_extensible_manager_are_known_by_owner_and_the_heaviest_by_figures() -> None:
    extensible = ExtensibleDocument(
        loads={"b1:1": BrokerLoadData(bundle_count=2, topics=4)},
        top_bundles={"b1:1": TopBundlesLoadData((BundleLoadData(A, STATS),))},
        owners={A: "b1:1", B: "b1:1"},
    )
    board = board_of(SnapshotDocument(brokers={}, extensible=extensible))
    assert [(each.bundle, each.is_known, each.topics) for each in board.bundles] == [(A, True, 2), (B, False, 0)]
    assert [(each.broker, each.topics) for each in board.brokers] == [("b1:1", 4)]


def test_bundles_of_brokers_themselves_are_neither_shown_nor_counted() -> None:
    own = {f"pulsar/b1:1/{WHOLE}": STATS, f"pulsar/standalone/b1:1/{WHOLE}": STATS}
    modular = SnapshotDocument(brokers={"b1:1": LocalBrokerData(last_stats={A: STATS, **own}, num_bundles=3)})
    extensible = ExtensibleDocument(
        loads={"b1:1": BrokerLoadData(bundle_count=3)}, owners={A: "b1:1", **dict.fromkeys(own, "b1:1")}
    )
    for snapshot in (modular, SnapshotDocument(brokers={}, extensible=extensible)):
        board = board_of(snapshot)
        assert [each.bundle for each in board.bundles] == [A]
        assert [each.bundles for each in board.brokers] == [1]


def test_rows_are_ordered_with_what_is_unknown_last_and_filtered_by_all_words() -> None:
    rows = [("One two", 1), ("two", None), ("TWO three", 3)]

    def names(words: str = "", *, descending: bool = False) -> list[str]:
        found = arranged(rows, lambda row: row[1], descending=descending, words=words, text=lambda row: row[0])
        return [name for name, _ in found]

    assert names() == ["One two", "TWO three", "two"]
    assert names(descending=True) == ["TWO three", "One two", "two"]
    assert names("two THREE") == ["TWO three"]
    assert names("four") == []
