"""`top`, `status` and the dashboard show the same load of a broker: they are made of the same reported load."""

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.dashboard.loads_after import bundle_counts
from pulsar_barycenter.dashboard.overview import Shares
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import RESOURCES, LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.load.snapshot.reported import reported_load, users_bundles
from pulsar_barycenter.status.board import board_of
from pulsar_barycenter.status.cluster_status import BrokerStatus, with_load

BROKER = "b:8080"
OWN = f"pulsar/{BROKER}/0x00000000_0xffffffff"
USERS = tuple(f"t/n/0x{number}0000000_0x{number + 1}0000000" for number in range(8))
rates = st.floats(0, 1e9)
usage = st.builds(ResourceUsage, st.floats(-1, 1e6) | st.just(math.nan), st.sampled_from([-1.0, 0.0, 100.0]))
usages = st.fixed_dictionaries(dict.fromkeys(RESOURCES, usage))


@st.composite
def documents(draw: st.DrawFn) -> SnapshotDocument:
    """Return the snapshot of a broker with some bundles, of the modular or the extensible load manager."""
    names = [*draw(st.lists(st.sampled_from(USERS), unique=True)), *draw(st.sampled_from([[], [OWN]]))]
    load = {
        **draw(usages),
        "msg_rate_in": draw(rates),
        "msg_rate_out": draw(rates),
        "msg_throughput_in": draw(rates),
        "msg_throughput_out": draw(rates),
    }
    topics, at_ms = draw(st.integers(0, 1000)), draw(st.integers(0, 2**40))
    if draw(st.booleans()):
        stats = dict.fromkeys(names, NamespaceBundleStats(topics=1))
        report = LocalBrokerData(last_stats=stats, num_bundles=len(names), num_topics=topics, last_update=at_ms, **load)
        return SnapshotDocument(taken_at=2**40, brokers={BROKER: report})
    extensible = ExtensibleDocument(
        loads={BROKER: BrokerLoadData(bundle_count=len(names), topics=topics, reported_at=at_ms, **load)},
        top_bundles={},
        owners=dict.fromkeys(names, BROKER),
    )
    return SnapshotDocument(taken_at=2**40, brokers={}, extensible=extensible)


@given(documents())
def test_the_same_load_is_shown_everywhere(document: SnapshotDocument) -> None:
    [row] = board_of(document).brokers
    [share] = Shares().of(document, ())
    shown = {name: round(percent, 1) for name in RESOURCES if (percent := getattr(row, name)) is not None}
    assert shown == share.usage
    assert row.max_usage == max((getattr(row, name) for name in share.usage), default=None)
    assert (row.bundles, row.topics) == (share.bundles, share.topics)
    assert share.msg_rate == round(row.load_rate or 0.0, 2)
    assert share.msg_throughput == round(row.load_bytes or 0.0, 1)
    assert row.reported_s_ago == ((document.taken_at - share.reported_at) / 1000 if share.reported_at else None)


@given(documents())
def test_the_brokers_own_bundles_are_nowhere(document: SnapshotDocument) -> None:
    names = [bundle for _, bundle, _ in users_bundles(document)]
    assert OWN not in names
    assert names == [row.bundle for row in board_of(document).bundles]
    assert bundle_counts(document).get(BROKER, 0) == len(names)


@given(documents())
def test_a_status_has_what_was_reported_and_keeps_a_count_that_the_broker_itself_gave(
    document: SnapshotDocument,
) -> None:
    loads = document.brokers or (document.extensible and document.extensible.loads) or {}
    load = reported_load(loads[BROKER])
    bare, counted = (with_load(BrokerStatus(broker=BROKER, bundles=known), loads[BROKER], 0) for known in (None, 7))
    assert (bare.bundles, counted.bundles) == (load.bundles, 7)
    assert msgspec.structs.replace(bare, bundles=7) == counted
