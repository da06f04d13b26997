"""Collecting load from clusters of each load manager, into the log that the pipeline reads."""

import asyncio
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.observer.collected_snapshot import collected_snapshot, keep_snapshot
from pulsar_barycenter.observer.collector import (
    CollectError,
    Collector,
    OwnershipUnreadableError,
    Round,
    admin_urls,
)
from pulsar_barycenter.observer.report_numbers import ReportNumbers
from pulsar_barycenter.snapshots.snapshot_file import read_snapshot_file
from support.foreign_cluster import ForeignCluster
from support.report_log import MemoryReportLog
from support.rest_cluster import rest_cluster

BUNDLE = "t/n/0x00000000_0x40000000"
UNLISTED = "t/n/0x40000000_0x80000000"
STATS = {"msgRateIn": 5.0, "msgThroughputIn": 500.0, "topics": 2, "consumerCount": 1, "producerCount": 1}


class PublishedLoad:
    def __init__(self, broker: str) -> None:
        stats = NamespaceBundleStats(msg_rate_in=9.0)
        self.loads = {broker: BrokerLoadData(cpu=ResourceUsage(30.0, 100.0), msg_rate_in=70.0, bundle_count=12)}
        self.tops = {broker: TopBundlesLoadData((BundleLoadData(BUNDLE, stats),))}
        self.records = {BUNDLE: broker, UNLISTED: broker, "t/n/0x80000000_0xffffffff": "gone:1"}
        self.is_read = 0

    def owners(self) -> Mapping[str, str]:
        self.is_read += 1
        if not self.records:
            raise OwnershipUnreadableError("the topic cannot be read")
        return self.records


async def collected(
    cluster: ForeignCluster, folder: Path, rounds: int = 1, **options: Any
) -> tuple[list[LocalBrokerData], Round]:
    """Collect `rounds` times, one second apart by the clock, each time with a new collector."""
    log, client, now = MemoryReportLog(), AdminClient(), 1_000_000
    await cluster.server.start_server()
    try:
        for number in range(rounds):
            numbers = ReportNumbers(folder / "collect.json", now_ms=now + number)
            collector = Collector(
                admin_urls(str(cluster.server.make_url(""))),
                client,
                log,
                numbers,
                clock_ms=partial(int, now + number * 1000),
                **options,
            )
            found = await collector.collect()
    finally:
        await client.close()
        await cluster.server.close()
    return log.reports, found


async def test_a_modular_report_is_dated_by_the_moment_of_asking(tmp_path: Path) -> None:
    """Pulsar's report has the time of its last write to the store; two rounds are two samples nevertheless."""
    report = {"lastUpdate": 7, "startTimestamp": 5, "lastStats": {BUNDLE: STATS}, "bundles": [BUNDLE], "unheard": 1}
    reports, found = await collected(ForeignCluster([report, report]), tmp_path, rounds=2)
    assert [(each.last_update, each.sequence) for each in reports] == [(1_000_000, 1), (1_001_000, 2)]
    assert reports[0].last_stats[BUNDLE].msg_rate_in == 5.0
    assert (found.brokers, found.bundles, found.failed) == (1, 1, {})


async def test_numbers_go_on_when_the_collector_restarts_and_begin_anew_with_a_broker(tmp_path: Path) -> None:
    """The pipeline waits for a missing number and drops one it has seen: none is left out, none is given twice."""
    lives = [5, 5, 8, 8, 8]
    answers: list[Any] = [{"startTimestamp": life, "lastStats": {}} for life in lives]
    reports, _ = await collected(ForeignCluster([*answers[:3], 503, *answers[3:]]), tmp_path, rounds=6)
    assert [each.sequence for each in reports] == [1, 2, 1, 2, 3]
    incarnations = [each.incarnation for each in reports]
    assert [name == incarnations[0] for name in incarnations] == [True, True, False, False, False]
    (tmp_path / "collect.json").write_text("torn")
    numbers = ReportNumbers(tmp_path / "collect.json", now_ms=77)
    assert numbers.take("b", "started-8") == ("started-8-4d", 1)


async def test_a_simple_managers_report_becomes_one_of_the_common_kind(tmp_path: Path) -> None:
    """The host's values and the bundles are where the pipeline reads them; the broker is the queried one."""
    report = {
        "name": "elsewhere:1",
        "loadReportType": "LoadReport",
        "timestamp": 3,
        "systemResourceUsage": {"cpu": {"usage": 50.0, "limit": 100.0}},
        "bundleStats": {BUNDLE: STATS},
    }
    cluster = ForeignCluster([report])
    (found,), _ = await collected(cluster, tmp_path)
    assert found.broker_id == cluster.broker
    assert (found.cpu.usage, found.num_topics, list(found.last_stats)) == (50.0, 2, [BUNDLE])


async def test_brokers_of_the_extensible_manager_are_read_from_their_topics(tmp_path: Path) -> None:
    """Without a load report to request, the topics have the host and the top bundles."""
    cluster = ForeignCluster([None])
    (found,), _ = await collected(
        cluster, tmp_path, extensible=lambda: PublishedLoad(f"127.0.0.1:{cluster.server.port}")
    )
    assert (found.cpu.usage, found.msg_rate_in, found.num_bundles, list(found.last_stats)) == (30.0, 70.0, 12, [BUNDLE])
    assert found.bundles == (BUNDLE, UNLISTED), "all that it owns by the channel"


CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
PLACE = "loadManagerServiceUnitStateTableViewClassName"


async def snapshot_of(
    folder: Path, configuration: Any, *, unreadable: bool = False
) -> tuple[SnapshotDocument, Round, PublishedLoad, LocalBrokerData]:
    """Collect once from a broker of the extensible load manager; return the snapshot that is kept."""
    cluster, kept = ForeignCluster([None]), list[SnapshotDocument]()
    cluster.configuration = configuration
    published: list[PublishedLoad] = []

    def opened() -> PublishedLoad:
        published.append(PublishedLoad(f"127.0.0.1:{cluster.server.port}"))
        if unreadable:
            published[0].records.clear()
        return published[0]

    (report,), found = await collected(cluster, folder, extensible=opened, keep_snapshot=kept.append)
    return kept[0], found, published[0], report


@pytest.mark.parametrize("configuration", [{}, {PLACE: f"{CHANNEL}.ServiceUnitStateTableViewImpl"}])
async def test_the_snapshot_names_the_owners_of_all_bundles_by_the_channel(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    """Including one in no list of top bundles; a version with only one location has it in the topic."""
    document, found, published, _ = await snapshot_of(tmp_path, configuration)
    known = document.extensible
    assert known is not None
    assert known.owners == published.records
    assert (known.loads, known.top_bundles) == (published.loads, published.tops)
    assert known.lookups.keys() == published.loads.keys()
    assert (found.owned, found.ownership, document.taken_at) == (3, "", 1_000_000)
    snapshot = document.snapshot()
    assert list(snapshot.bundles.names) == [BUNDLE, UNLISTED]
    assert snapshot.extensible is not None
    assert (snapshot.extensible.owned.tolist(), snapshot.extensible.top.tolist()) == ([True, True], [0, -1])


@pytest.mark.parametrize(
    ("configuration", "is_read", "why"),
    [
        (
            {PLACE: f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl"},
            0,
            "ownership is in the metadata store",
        ),
        ({PLACE: "com.example.Own"}, 0, "ownership is stored by Own"),
        (web.json_response({"reason": "no super-user"}, status=401), 0, "set BARYCENTER_TOKEN to the token"),
        (["no map"], 1, "the topic cannot be read"),
        ({}, 1, "the topic cannot be read"),
    ],
    ids=["store", "unknown", "refused", "no map", "unreadable"],
)
async def test_where_ownership_cannot_be_read_it_is_said_and_lists_tell_it(
    tmp_path: Path, configuration: Any, is_read: int, why: str
) -> None:
    """The topic is left alone where it is not known to be the place: reading one that there is not would make it."""
    document, found, published, report = await snapshot_of(tmp_path, configuration, unreadable=True)
    assert document.extensible is not None
    assert document.extensible.owners == dict.fromkeys([BUNDLE], next(iter(published.loads)))
    assert (found.owned, why in found.ownership, published.is_read) == (None, True, is_read)
    assert "a bundle counts for the broker that lists it among its heaviest" in found.ownership
    assert report.bundles == (BUNDLE,)


async def test_a_snapshot_that_cannot_be_kept_ends_the_round(tmp_path: Path) -> None:
    def full(_document: SnapshotDocument) -> None:
        raise OSError(28, "No space left on device")

    cluster = ForeignCluster([None])
    options: dict[str, Any] = {"extensible": lambda: PublishedLoad("b"), "keep_snapshot": full}
    with pytest.raises(CollectError, match="cannot write the snapshot"):
        await collected(cluster, tmp_path, **options)


def test_a_kept_snapshot_replaces_the_one_before_as_a_whole(tmp_path: Path) -> None:
    for taken_at in (1, 2):
        addresses = {"a:1": "http://a:1"}
        keep_snapshot(
            tmp_path / "out" / "snapshot.json", collected_snapshot(addresses, {}, {}, None, taken_at_ms=taken_at)
        )
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["snapshot.json"]
    found = read_snapshot_file(tmp_path / "out" / "snapshot.json")
    assert (found.snapshot.taken_at_ms, found.snapshot.brokers.names) == (2, ("a:1",))


async def test_an_answer_that_is_too_large_is_none(tmp_path: Path) -> None:
    cluster = ForeignCluster([{"lastStats": {}, "unheard": "x" * 100_000}])
    await cluster.server.start_server()
    client, log = AdminClient(most_bytes=100_000), MemoryReportLog()
    numbers = ReportNumbers(tmp_path / "n", now_ms=1)
    collector = Collector(admin_urls(str(cluster.server.make_url(""))), client, log, numbers, clock_ms=lambda: 1)
    found = await collector.collect()
    await client.close()
    await cluster.server.close()
    (why,) = found.failed.values()
    assert "the answer has more than 100,000 bytes" in why
    assert log.reports == []


async def test_a_list_of_too_many_brokers_is_none(tmp_path: Path) -> None:
    cluster = ForeignCluster([])
    cluster.told = [f"b{number}:1" for number in range(10_001)]
    with pytest.raises(CollectError, match="is not the web service of a broker"):
        await collected(cluster, tmp_path)


async def test_a_broker_that_published_nothing_yet_is_named_with_how_long_that_may_take(tmp_path: Path) -> None:
    """An idle broker of Pulsar publishes its load each 15 minutes."""
    _, found = await collected(ForeignCluster([None]), tmp_path, extensible=lambda: PublishedLoad("another:1"))
    (why,) = found.failed.values()
    assert "loadBalancerReportUpdateMaxIntervalMinutes" in why


def failure_of_pulsar(exception: str) -> web.Response:
    """The answer of Pulsar for an unexpected exception: with the stack."""
    head = "\n --- An unexpected error occurred in the server ---\n\nMessage: null\n\nStacktrace:\n\n"
    text = f"{head}{exception}\n\tat a.B.c\n"
    return web.json_response({"reason": text}, status=500)


OWN_WORDS = "The extensible load manager makes no load report. Read its load data instead, at /barycenter/v1/snapshot"


@pytest.mark.parametrize(
    "answer",
    [
        failure_of_pulsar("java.lang.UnsupportedOperationException"),
        web.json_response({"reason": OWN_WORDS}, status=500),
    ],
    ids=["Pulsar", "Barycenter"],
)
async def test_a_broker_that_says_it_has_no_report_is_read_from_its_topics(
    answer: web.Response, tmp_path: Path
) -> None:
    """Pulsar 4.2 says so by an exception, and ours as well; it is not a failing broker."""
    cluster = ForeignCluster([answer])
    (found,), _ = await collected(
        cluster, tmp_path, extensible=lambda: PublishedLoad(f"127.0.0.1:{cluster.server.port}")
    )
    assert found.num_bundles == 12


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failure_of_pulsar("java.lang.NullPointerException"), "500: java.lang.NullPointerException"),
        (
            web.Response(text="<html><title>Error 404\nNot Found</title>x</html>", status=404),
            "404: Error 404 Not Found;",
        ),
        (
            web.json_response({"reason": "no super-user"}, status=401),
            "no super-user; set BARYCENTER_TOKEN to the token",
        ),
    ],
    ids=["stack", "page", "token"],
)
async def test_what_a_broker_says_instead_of_a_report_is_told_in_a_line(
    answer: web.Response, told: str, tmp_path: Path
) -> None:
    """Neither a stack trace nor a page of HTML is for an operator; what to do about it is."""
    _, found = await collected(ForeignCluster([answer]), tmp_path)
    (why,) = found.failed.values()
    assert told in why
    assert "\n" not in why


async def test_another_broker_tells_who_there_is_when_the_one_at_the_address_is_gone(tmp_path: Path) -> None:
    """One known from the rounds before."""
    gone, cluster = ForeignCluster([]), ForeignCluster([{"lastStats": {}}, {"lastStats": {}}])
    gone.told, client, log = cluster, AdminClient(), MemoryReportLog()
    for each in (gone, cluster):
        await each.server.start_server()
    urls = admin_urls(str(gone.server.make_url("")))
    collector = Collector(urls, client, log, ReportNumbers(tmp_path / "n", now_ms=1), clock_ms=lambda: 1)
    await collector.collect()
    await gone.server.close()
    await collector.collect()
    assert [report.sequence for report in log.reports] == [1, 2]
    await client.close()
    await cluster.server.close()


async def test_an_address_of_something_else_is_told(tmp_path: Path) -> None:
    """Whose answer is JSON, but no list."""
    cluster = ForeignCluster([])
    cluster.told = {"swagger": "2.0"}
    with pytest.raises(CollectError, match="is not the web service of a broker"):
        await collected(cluster, tmp_path)


def test_addresses_are_named_as_for_pulsars_tools() -> None:
    assert admin_urls("http://a:8080/,b:8080") == ("http://a:8080", "http://b:8080")
    assert admin_urls("http://a:8080,https://b:8443/") == ("http://a:8080", "https://b:8443")
    assert admin_urls("https://proxy.example/pulsar/") == ("https://proxy.example/pulsar",)


@pytest.mark.parametrize(
    "text", ["a:8080", "pulsar://a:6650", "http://", "http://a:8080,", "http://a:b", "http://a,pulsar://b"]
)
def test_what_is_no_web_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a web address|begins with http"):
        admin_urls(text)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(None, "--service-url"), (503, "not now"), ({"lastStats": 4}, "cannot be read"), ([], "extensible")],
)
async def test_a_broker_without_a_usable_report_is_named_with_the_reason(answer: Any, why: str, tmp_path: Path) -> None:
    """The round goes on, and nothing of that broker is logged."""
    reports, found = await collected(ForeignCluster([answer]), tmp_path)
    assert reports == []
    assert [why in reason for reason in found.failed.values()] == [True]


async def test_topics_that_cannot_be_opened_end_the_round(tmp_path: Path) -> None:
    """Nothing of it is logged, also not of brokers that did answer."""

    def refused() -> PublishedLoad:
        raise CollectError("cannot read the load topics")

    with pytest.raises(CollectError, match="cannot read the load topics"):
        await collected(ForeignCluster([None]), tmp_path, extensible=refused)


async def test_old_clusters_are_asked_by_name(tmp_path: Path) -> None:
    """Before 2.10 the live brokers of a cluster are listed under its name."""
    reports, _ = await collected(ForeignCluster([{"lastStats": {}}], names_cluster=True), tmp_path)
    assert len(reports) == 1


async def test_an_admin_address_that_does_not_answer_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """The message names the address."""
    client = AdminClient(timeout_s=2)
    numbers = ReportNumbers(tmp_path / "collect.json", now_ms=1)
    collector = Collector(["http://127.0.0.1:1"], client, MemoryReportLog(), numbers, clock_ms=lambda: 1)
    with pytest.raises(CollectError, match=r"cannot list the brokers: GET http://127\.0\.0\.1:1"):
        await collector.collect()
    await client.close()


async def test_a_barycenter_cluster_is_collected_by_the_command(tmp_path: Path) -> None:
    """Two rounds over two real brokers: four files, reported as JSON, none of them counted twice."""
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.owner("persistent/public/ns/topic")
        url = cluster.brokers[0].urls.web_url
        out = await run_command(
            ["--admin-url", url, "--out", str(tmp_path), "--interval", "1", "--rounds", "2", "--json"]
        )
    rounds = [msgspec.json.decode(line, type=Round) for line in out.splitlines()]
    assert [(each.brokers, each.failed) for each in rounds] == [(2, {})] * 2
    files = sorted((tmp_path / "load-reports").rglob("*.json"))
    decoded = [msgspec.json.decode(file.read_bytes(), type=LocalBrokerData) for file in files]
    assert sorted(each.sequence for each in decoded) == [1, 1, 2, 2]
    assert sum(len(each.last_stats) for each in decoded) == sum(each.bundles for each in rounds)


async def test_a_token_goes_with_every_request_and_into_no_output(tmp_path: Path) -> None:
    """The admin API of a secured cluster requires it; no output shows it."""
    cluster = ForeignCluster([{"lastStats": {}}])
    await cluster.server.start_server()
    options = ["--admin-url", str(cluster.server.make_url("")), "--out", str(tmp_path), "--rounds", "1"]
    out = await run_command(options, BARYCENTER_TOKEN="sesame")
    await cluster.server.close()
    assert [headers.get("Authorization") for headers in cluster.headers] == ["Bearer sesame"] * 2
    assert "1 broker," in out
    assert "sesame" not in out


async def run_command(options: list[str], **environment: str) -> str:
    """Run `barycenter collect`; return what it printed, on either stream."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "collect", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
