"""The rules of administrators that `collect` records beside the load, and who may record into a folder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.cli.asking.client import asking_client, asking_conf
from pulsar_barycenter.load.policies import AutoFailoverData, NamespaceIsolationData, stored_form
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, TopBundlesLoadData
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.observer.collecting import Collection, collect_rounds, locked_for_recording
from pulsar_barycenter.observer.collector import CollectError, Collector, Round, admin_urls
from pulsar_barycenter.observer.recorded_policies import POLICIES_FILE, PoliciesFile, read_policies
from pulsar_barycenter.observer.report_numbers import ReportNumbers
from pulsar_barycenter.operations.policies_read import RULES_MS, PoliciesOfCluster
from pulsar_barycenter.watch.sources.data_folder import DataFolder
from support.foreign_cluster import ForeignCluster
from support.report_log import MemoryReportLog

BUNDLE = "t/n/0x00000000_0x80000000"
HEARTBEAT = "pulsar/127.0.0.1:8080/0x00000000_0xffffffff"
BOUND = stored_form(
    NamespaceIsolationData(
        namespaces=("t/.*",),
        primary=("127.*",),
        secondary=(),
        auto_failover_policy=AutoFailoverData("min_available", {"min_limit": "1", "usage_threshold": "100"}),
    )
)
REPORT = {"lastStats": {BUNDLE: {"msgRateIn": 1.0}, HEARTBEAT: {}}, "bundles": [BUNDLE, HEARTBEAT]}


class Clock:
    """The time of the collector, which the test moves on."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@asynccontextmanager
async def serving(*reports: Any) -> AsyncIterator[ForeignCluster]:
    cluster = ForeignCluster(list(reports))
    await cluster.server.start_server()
    try:
        yield cluster
    finally:
        await cluster.server.close()


@asynccontextmanager
async def collecting(cluster: ForeignCluster, folder: Path, clock: Clock, **options: Any) -> AsyncIterator[Collector]:
    client = AdminClient()
    try:
        yield Collector(
            admin_urls(str(cluster.server.make_url(""))),
            client,
            MemoryReportLog(),
            ReportNumbers(folder / "collect.json", now_ms=1),
            clock_ms=clock,
            source_of_policies=PoliciesOfCluster(client),
            keep_policies=PoliciesFile(folder).note,
            **options,
        )
    finally:
        await client.close()


def recorded(folder: Path) -> list[tuple[int, PoliciesDocument]]:
    return [(record.at, record.policies) for record in read_policies(folder / POLICIES_FILE)]


async def test_rules_are_recorded_when_they_change(tmp_path: Path) -> None:
    clock = Clock()
    async with serving(*[REPORT] * 4) as cluster, collecting(cluster, tmp_path, clock) as collector:
        cluster.groups = {"t/n": "Pair"}
        for wait_ms, isolation in ((0, {}), (RULES_MS, {}), (RULES_MS, {"bound": BOUND}), (RULES_MS - 1, {})):
            clock.now_ms += wait_ms
            cluster.isolation = isolation
            assert (await collector.collect()).policies == ""
    assert [(at_ms, list(rules.isolation), rules.anti_affinity_groups) for at_ms, rules in recorded(tmp_path)] == [
        (1_000_000, [], {"t/n": "pair"}),
        (1_000_000 + 2 * RULES_MS, ["bound"], {"t/n": "pair"}),
    ]


async def test_a_round_without_its_rules_has_its_load_and_tells_why(tmp_path: Path) -> None:
    clock = Clock()
    async with serving(REPORT, REPORT, REPORT) as cluster, collecting(cluster, tmp_path, clock) as collector:
        cluster.isolation = None
        refused = await collector.collect()
        assert (refused.brokers, refused.failed) == (1, {})
        assert "no rights" in refused.policies
        cluster.isolation = {"p": {"namespaces": []}}
        assert "isolation policy 'p': namespaces is empty" in (await collector.collect()).policies
        assert recorded(tmp_path) == []
        cluster.isolation = {}
        assert (await collector.collect()).policies == ""
    assert recorded(tmp_path) == [(1_000_000, PoliciesDocument())]


async def test_a_broker_that_is_silent_for_a_round_keeps_its_namespaces(tmp_path: Path) -> None:
    """Otherwise the group would go and come in the recording."""
    async with serving(REPORT, 503, REPORT) as cluster, collecting(cluster, tmp_path, Clock()) as collector:
        cluster.groups = {"t/n": "pair"}
        rounds = [await collector.collect() for _ in range(3)]
    assert [len(found.failed) for found in rounds] == [0, 1, 0]
    assert len(recorded(tmp_path)) == 1


@pytest.mark.parametrize("answer", [[], {"webServicePort": "8080"}, {"clusterName": "c1"}])
async def test_rules_that_make_no_sense_do_not_end_the_round(answer: Any, tmp_path: Path) -> None:
    async with serving(REPORT) as cluster, collecting(cluster, tmp_path, Clock()) as collector:
        cluster.configuration = answer
        cluster.domains = {"d": 7}
        found = await collector.collect()
    assert found.brokers == 1
    assert found.policies


class Published:
    """What a broker with the extensible load manager has published."""

    def __init__(self, broker: str) -> None:
        self.loads = {broker: BrokerLoadData()}
        self.tops: dict[str, TopBundlesLoadData] = {}
        self.records = {BUNDLE: broker}

    def owners(self) -> dict[str, str]:
        return self.records


async def test_a_snapshot_of_the_extensible_load_manager_has_the_rules(tmp_path: Path) -> None:
    kept: list[SnapshotDocument] = []
    async with serving(None) as cluster:
        cluster.groups = {"t/n": "pair"}
        published = Published(f"127.0.0.1:{cluster.server.port}")
        keeps: dict[str, Any] = {"extensible": lambda: published, "keep_snapshot": kept.append}
        async with collecting(cluster, tmp_path, Clock(), **keeps) as collector:
            await collector.collect()
    assert [document.policies.anti_affinity_groups for document in kept] == [{"t/n": "pair"}]


async def test_watch_recomputes_a_collected_recording_with_its_rules(tmp_path: Path) -> None:
    async with serving(REPORT) as cluster:
        cluster.isolation = {"bound": BOUND}
        urls = admin_urls(str(cluster.server.make_url("")))
        told: list[Round | str] = []
        wanted = Collection(urls, tmp_path, 60.0, 1, 1.0, None)
        assert await collect_rounds(asking_client, asking_conf(), wanted, told.append, PoliciesOfCluster)
    (look,) = await DataFolder(tmp_path, span_ms=86_400_000).read()
    assert [policy.name for policy in look.beside.policies.isolation.policies] == ["bound"]


async def test_one_process_at_a_time_records_into_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "recorded"
    wanted = Collection(("http://127.0.0.1:1",), out, 60.0, 1, 1.0, None)
    with locked_for_recording(out), pytest.raises(CollectError, match="another process records into"):
        await collect_rounds(asking_client, asking_conf(), wanted, lambda _found: None, PoliciesOfCluster)
    with pytest.raises(CollectError, match="cannot list the brokers"):
        await collect_rounds(asking_client, asking_conf(), wanted, lambda _found: None, PoliciesOfCluster)
    with locked_for_recording(out):
        pass
