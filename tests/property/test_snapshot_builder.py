"""Snapshots built one after the other, with unchanged parts kept, equal those that are built again."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    SystemResourceUsage,
    with_stats,
)
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.reports.windows import LiveFold
from pulsar_barycenter.load.snapshot.builder import SnapshotBuilder, build_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.snapshot.simple_snapshot import SimpleSnapshotBuilder, build_simple_snapshot
from support.load_cases import bundle_name
from support.short_forms import examples
from support.snapshot_cases import assert_same_snapshot

BROKERS = ("a:1", "b:1", "c:1")
bundles = st.sampled_from([*(bundle_name(number) for number in range(8)), "pulsar/a:1/0x0_0x1", "u/other/0x0_0x1"])
stats = st.dictionaries(
    bundles, st.builds(NamespaceBundleStats, msg_rate_in=st.integers(0, 99).map(float), topics=st.integers(0, 3))
)
reports = st.tuples(st.sampled_from(BROKERS), stats, st.frozensets(bundles, max_size=2))
histories = st.lists(
    st.one_of(
        reports,
        st.sampled_from(BROKERS).map(lambda broker: ("leaves", broker)),
        bundles.map(lambda bundle: ("is forgotten", bundle)),
        st.frozensets(bundles).map(lambda names: ("unloaded", names)),
    ),
    max_size=12,
)


def rows_of(snapshot: LoadSnapshot) -> list[tuple[str, int, str]]:
    table = snapshot.bundles
    namespaces = [snapshot.namespaces[place] for place in table.namespace]
    return list(zip(table.names, table.owner.tolist(), namespaces, strict=True))


@given(histories)
@settings(max_examples=examples(200))
def test_a_builder_that_saw_everything_builds_what_a_new_one_does(history: list[Any]) -> None:
    builder, fold, recently = SnapshotBuilder(), LiveFold(), frozenset[str]()
    for sequence, event in enumerate(history, 1):
        match event:
            case ("leaves", broker):
                fold.reports.pop(broker, None)
            case ("is forgotten", bundle):
                fold.forget(bundle)
            case ("unloaded", names):
                recently = names
            case (broker, figures, listed):
                report = with_stats(LocalBrokerData(sequence=sequence), figures)
                report = msgspec.structs.replace(report, bundles=tuple(sorted({*report.bundles, *listed})))
                fold.accept(broker, report)
        built = builder.build(fold.reports, fold.bundles, fold.averages(), recently_unloaded=recently)
        fresh = build_snapshot(fold.reports, fold.bundles, fold.averages(), recently_unloaded=recently)
        assert_same_snapshot(built, fresh)
        assert rows_of(built) == sorted(
            (name, built.brokers.index[broker], name.rpartition("/")[0])
            for broker, report in fold.reports.items()
            for name in {*report.bundles, *report.last_stats}
        )
        flagged = {
            name for name, flag in zip(built.bundles.names, built.bundles.recently_unloaded, strict=True) if flag
        }
        assert flagged == recently.intersection(built.bundles.names)
        for broker, report in fold.reports.items():
            assert not builder.prepare(broker, report, fold.bundles), "nothing is left to do"


@given(st.lists(st.tuples(st.sampled_from(BROKERS), stats, st.booleans()), max_size=12))
def test_a_builder_for_the_simple_manager_does_likewise(history: list[Any]) -> None:
    builder = SimpleSnapshotBuilder()
    known: dict[str, LoadReport] = {}
    for broker, figures, leaves in history:
        usage = SystemResourceUsage(cpu=ResourceUsage(len(figures), 100))
        known[broker] = complete(LoadReport(name=broker, bundle_stats=figures, system_resource_usage=usage))
        if leaves:
            del known[broker]
        built = builder.build(known, recently_unloaded=figures, taken_at_ms=7)
        assert_same_snapshot(built, build_simple_snapshot(known, recently_unloaded=figures, taken_at_ms=7))
