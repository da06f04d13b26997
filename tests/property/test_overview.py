"""The picture of a cluster is small, and loses nothing: what is not listed is summed."""

import math

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.dashboard.overview import MOST_BUNDLES, Shares
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument

figures = st.floats(0, 1e9)
stats = st.builds(
    NamespaceBundleStats,
    msg_rate_in=figures,
    msg_throughput_in=figures,
    msg_throughput_out=figures,
    topics=st.integers(0, 100),
)
bundles = st.dictionaries(st.integers(0, 10_000).map(lambda n: f"t/n/{n:05}"), stats, max_size=150)


def report(of: dict[str, NamespaceBundleStats]) -> LocalBrokerData:
    return LocalBrokerData(last_stats=of, last_update=1, num_bundles=len(of))


@given(st.dictionaries(st.sampled_from([f"b{n}:8080" for n in range(9)]), bundles))
def test_listed_and_summed_bundles_are_all_there_are_the_heaviest_listed(
    cluster: dict[str, dict[str, NamespaceBundleStats]],
) -> None:
    shares = Shares().of(SnapshotDocument(brokers={name: report(of) for name, of in cluster.items()}), ())
    assert [each.broker for each in shares] == sorted(cluster)
    assert sum(len(each.top) for each in shares) <= MOST_BUNDLES
    for each in shares:
        own = cluster[each.broker]
        assert each.bundles == len(own) == len(each.top) + each.others
        carried = {name: one.msg_throughput_in + one.msg_throughput_out for name, one in own.items()}
        listed = {share.bundle for share in each.top}
        assert listed <= own.keys()
        assert math.isclose(
            sum(share.msg_throughput for share in each.top) + each.others_throughput,
            math.fsum(carried.values()),
            rel_tol=1e-6,
            abs_tol=10,
        )
        lightest = min((carried[name] for name in listed), default=0.0)
        assert all(carried[name] <= lightest for name in own.keys() - listed)


@given(bundles, bundles)
def test_a_row_follows_its_report(
    before: dict[str, NamespaceBundleStats], after: dict[str, NamespaceBundleStats]
) -> None:
    """Rows are kept while a report is the same: another report must not get the row of the first."""
    kept = Shares()
    for of in (before, after):
        document = SnapshotDocument(brokers={"b:1": report(of)})
        assert kept.of(document, ()) == Shares().of(document, ()) == kept.of(document, ())


@given(bundles, st.integers(0, 20))
def test_bundles_whose_figures_nobody_tells_are_counted(known: dict[str, NamespaceBundleStats], unknown: int) -> None:
    names = [f"t/m/{n}" for n in range(unknown)]
    extensible = ExtensibleDocument(
        loads={"b:1": BrokerLoadData(bundle_count=len(known) + unknown)},
        top_bundles={"b:1": TopBundlesLoadData(tuple(BundleLoadData(name, one) for name, one in known.items()))},
        owners=dict.fromkeys([*known, *names], "b:1"),
    )
    [share] = Shares().of(SnapshotDocument(brokers={}, extensible=extensible), ())
    assert (share.bundles, share.unknown) == (len(known) + unknown, unknown)
    assert len(share.top) + share.others == len(known)


def test_a_broker_without_a_report_is_there_and_figures_that_are_no_numbers_are_not() -> None:
    odd = NamespaceBundleStats(msg_rate_in=math.nan, msg_throughput_in=math.inf, msg_throughput_out=5.0, topics=1)
    document = SnapshotDocument(brokers={"b:1": report({"t/n/1": odd})}, preallocated={"b:1": {}})
    with_report, without = Shares().of(document, ["c:1"])
    assert (without.broker, without.reported_at, without.bundles) == ("c:1", 0, 0)
    assert with_report.top[0].msg_throughput == 0.0
    assert with_report.msg_rate == 0.0
