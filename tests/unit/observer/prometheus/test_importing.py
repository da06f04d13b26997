"""Importing metrics: the reports are those that a collector would have recorded; what cannot be used is refused."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.load.reports.load_report import UNKNOWN_USAGE, LocalBrokerData
from pulsar_barycenter.observer.prometheus.export_files import ExportFiles, text_series
from pulsar_barycenter.observer.prometheus.http_api import TRIES, PrometheusApi, bearer
from pulsar_barycenter.observer.prometheus.importing import (
    MOST_STEPS,
    Boundaries,
    Options,
    Outcome,
    import_metrics,
    next_steps,
)
from pulsar_barycenter.observer.prometheus.reports import Hardware
from pulsar_barycenter.observer.prometheus.series import ImportRefusedError, MetricsSource, Series
from support.stored_metrics import BEGIN_MS, BROKERS, BUNDLES, NAMESPACE, STEP_MS, FakePrometheus, Load, steady

LATER_MS = BEGIN_MS + 10**10


async def imported(source: MetricsSource, out: Path, **changes: Any) -> Outcome:
    options = Options("p", out, 0, LATER_MS, STEP_MS, hardware=Hardware(cores=4))
    boundaries = Boundaries({str(NAMESPACE): BUNDLES})
    return await import_metrics(source, boundaries, replace(options, **changes), lambda done, whole: None)


async def from_server(fake: FakePrometheus, out: Path, *, token: Path | None = None, **changes: Any) -> Outcome:
    client = AdminClient(bears=bearer(token), most_bytes=1 << 20)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    back_off = BackOff(random.Random(1), 1, 30)
    source = PrometheusApi(fake.url, client, back_off=back_off, sleep=sleep, labels=changes.get("labels", ()))
    try:
        now_ms = await source.now_ms()
        return await imported(source, out, **{"since_ms": BEGIN_MS - STEP_MS, "until_ms": now_ms, **changes})
    finally:
        await client.close()


def stored(out: Path) -> list[LocalBrokerData]:
    files = (out / "load-reports").rglob("*.json")
    reports = [msgspec.json.decode(file.read_bytes(), type=LocalBrokerData) for file in files]
    return sorted(reports, key=lambda report: (report.last_update, str(report.broker_id)))


def compared(reports: Sequence[LocalBrokerData]) -> list[Any]:
    return [
        (
            r.broker_id,
            r.last_update,
            round(r.cpu.usage, 6),
            r.cpu.limit,
            {b: rounded(s) for b, s in r.last_stats.items()},
        )
        for r in reports
    ]


def rounded(stats: Any) -> dict[str, float]:
    return {name: round(value, 6) for name, value in msgspec.structs.asdict(stats).items()}


async def test_the_reports_are_those_of_a_collector(tmp_path: Path) -> None:
    load = steady()
    async with FakePrometheus(load.series()) as fake:
        outcome = await from_server(fake, tmp_path)
    assert compared(stored(tmp_path)) == compared(list(load.reports()))
    assert (outcome.brokers, outcome.bundles, outcome.reports) == (2, 4, 24)
    assert outcome.warnings == []
    assert outcome.missing == ["usage of the network", "memory and direct memory"]
    for broker in BROKERS:
        mine = [report for report in stored(tmp_path) if report.broker_id == f"{broker}:8080"]
        assert [report.sequence for report in mine] == list(range(1, 13))
        (incarnation,) = {report.incarnation for report in mine}
        assert incarnation.startswith("started-1789000000-")
        assert mine[0].memory == mine[0].bandwidth_in == UNKNOWN_USAGE


async def test_a_broker_that_started_again_has_another_incarnation(tmp_path: Path) -> None:
    load = steady()
    load.down = {(5, 0), (6, 0)}
    load.started = {0: [1_789_000_000] * 6 + [1_790_000_500] * 6}
    await imported(ExportFiles(load.series()), tmp_path)
    mine = [report for report in stored(tmp_path) if report.broker_id == "broker-a:8080"]
    assert [report.sequence for report in mine] == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
    assert len({report.incarnation for report in mine}) == 2


async def test_an_import_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    load = steady(steps=40)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    await imported(ExportFiles(load.series()), whole)
    for last in (7, 20, 20, 39):
        outcome = await imported(ExportFiles(load.series()), parts, until_ms=BEGIN_MS + last * STEP_MS)
    assert outcome.reports == 38
    assert sorted(f.relative_to(parts) for f in parts.rglob("*.json") if f.parent != parts) == sorted(
        f.relative_to(whole) for f in whole.rglob("*.json") if f.parent != whole
    )
    assert stored(parts) == stored(whole)


async def test_a_window_that_was_written_before_a_kill_is_written_again_as_it_was(tmp_path: Path) -> None:
    load = steady(steps=40)
    await imported(ExportFiles(load.series()), tmp_path, until_ms=BEGIN_MS + 9 * STEP_MS)
    progress = (tmp_path / "import.json").read_bytes()
    await imported(ExportFiles(load.series()), tmp_path)
    first = {file: file.read_bytes() for file in (tmp_path / "load-reports").rglob("*.json")}
    (tmp_path / "import.json").write_bytes(progress)
    await imported(ExportFiles(load.series()), tmp_path)
    assert {file: file.read_bytes() for file in (tmp_path / "load-reports").rglob("*.json")} == first


async def test_other_options_cannot_go_on(tmp_path: Path) -> None:
    source = ExportFiles(steady().series())
    await imported(source, tmp_path, since_ms=BEGIN_MS)
    with pytest.raises(ImportRefusedError, match="--step"):
        await imported(source, tmp_path, since_ms=BEGIN_MS, step_ms=2 * STEP_MS)
    with pytest.raises(ImportRefusedError, match="later --since"):
        await imported(source, tmp_path, since_ms=0)


async def test_a_folder_with_another_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "load-reports").mkdir()
    (tmp_path / "load-reports" / "a.json").write_text("{}")
    with pytest.raises(WrongFolderError, match="already has a history"):
        await imported(ExportFiles(steady().series()), tmp_path)


async def test_two_clusters_must_be_told_apart(tmp_path: Path) -> None:
    one, two = steady(), steady()
    two.cluster = "c2"
    async with FakePrometheus([*one.series(), *two.series()]) as fake:
        with pytest.raises(ImportRefusedError, match=r"2 clusters: 'c1', 'c2'; choose one with --cluster c1"):
            await from_server(fake, tmp_path)
        with pytest.raises(ImportRefusedError, match=r"no metrics of cluster c3 in that period; choose .*: c1, c2"):
            await from_server(fake, tmp_path, cluster="c3")
        assert list(tmp_path.iterdir()) == []
        outcome = await from_server(fake, tmp_path, cluster="c2")
    assert outcome.cluster == "c2"
    assert compared(stored(tmp_path)) == compared(list(two.reports()))


async def test_what_is_scraped_twice_must_be_told_apart(tmp_path: Path) -> None:
    one, two = steady(), steady()
    two.job = "again"
    async with FakePrometheus([*one.series(), *two.series()]) as fake:
        with pytest.raises(ImportRefusedError, match=r"has two values at 12 times.*job='pulsar' or 'again'.*--match"):
            await from_server(fake, tmp_path)
        await from_server(fake, tmp_path, labels=[("job", "again")])
    assert compared(stored(tmp_path)) == compared(list(one.reports()))


async def test_a_server_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    load = steady()
    async with FakePrometheus(load.series()) as fake:
        fake.first = [web.Response(status=429), web.Response(status=503, text="busy")]
        await from_server(fake, tmp_path)
        assert compared(stored(tmp_path)) == compared(list(load.reports()))
        fake.first = [web.Response(status=503, text="busy") for _ in range(TRIES)]
        with pytest.raises(ImportRefusedError, match=r"answered 503: busy; asked 6 times. Give the same command again"):
            await from_server(fake, tmp_path)


async def test_huge_answers_are_asked_for_in_parts(tmp_path: Path) -> None:
    load = steady(steps=9)
    async with FakePrometheus(load.series()) as fake:
        fake.most_points = 3
        await from_server(fake, tmp_path)
    assert compared(stored(tmp_path)) == compared(list(load.reports()))


async def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc.def\n")
    async with FakePrometheus(steady().series()) as fake:
        await from_server(fake, tmp_path / "out", token=token)
        assert fake.tokens == ["Bearer abc.def"]
        fake.first = [web.Response(status=401)]
        with pytest.raises(ImportRefusedError, match=r"401.*--token-file"):
            await from_server(fake, tmp_path / "other")
        token.write_text("two words")
        with pytest.raises(ImportRefusedError, match="does not have a bearer token"):
            await from_server(fake, tmp_path / "other", token=token)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (web.Response(text="<html>Grafana</html>", content_type="text/html"), "is not a Prometheus"),
        (web.Response(status=404, text="404 page not found"), "is not a Prometheus"),
        (web.json_response({"status": "success", "data": [1]}), "is not a Prometheus"),
        (web.json_response({"status": "error", "error": "no tenant"}, status=400), "refused the query.*no tenant"),
        (web.Response(status=302, headers={"Location": "http://elsewhere"}), "redirects"),
    ],
    ids=["page", "404", "form", "error", "redirect"],
)
async def test_what_is_no_prometheus_is_named(answer: web.Response, told: str, tmp_path: Path) -> None:
    async with FakePrometheus([]) as fake:
        fake.first = [answer]
        with pytest.raises(ImportRefusedError, match=told):
            await from_server(fake, tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_prometheus_without_pulsar_is_named(tmp_path: Path) -> None:
    async with FakePrometheus([Series({"__name__": "up"}, [(BEGIN_MS / 1000, "1")])]) as fake:
        with pytest.raises(ImportRefusedError, match="no metrics of Pulsar's brokers in that period"):
            await from_server(fake, tmp_path)


async def test_metrics_of_namespaces_only_are_refused(tmp_path: Path) -> None:
    load = steady()
    series = load.series()
    for each in series:
        each.metric.pop("topic", None)
    one = {each.metric["__name__"] + each.metric["instance"]: each for each in series}
    with pytest.raises(ImportRefusedError, match="exposeTopicLevelMetricsInPrometheus is false"):
        await imported(ExportFiles(one.values()), tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_gaps_are_told(tmp_path: Path) -> None:
    load = steady(steps=60)
    load.down = {(step, broker) for step in range(20, 50) for broker in range(2)}
    outcome = await imported(ExportFiles(load.series()), tmp_path)
    assert len(outcome.warnings) == 1
    assert "1 gap without any metric; the longest is 31 min" in outcome.warnings[0]


async def test_counters_and_values_that_are_no_rates_change_nothing(tmp_path: Path) -> None:
    """A counter that starts again, NaN, infinite and negative values."""
    load = steady()
    series = load.series()
    broken = next(each for each in series if each.metric["__name__"] == "pulsar_rate_in")
    topic = broken.metric["topic"]
    broken.values[:3] = [(at, text) for (at, _), text in zip(broken.values, ("NaN", "+Inf", "-3"), strict=False)]
    counter = [(load.at_s(step), str(1000 - 90 * step)) for step in range(12)]
    series.append(Series({**broken.metric, "__name__": "pulsar_in_messages_total"}, counter))
    await imported(ExportFiles(series), tmp_path)
    load.rates[topic][:3] = [0.0, 0.0, 0.0]
    expected = {(r.broker_id, r.last_update): r for r in load.reports()}
    for report in stored(tmp_path):
        known = expected[report.broker_id, report.last_update]
        for bundle, stats in report.last_stats.items():
            assert stats.msg_rate_in == pytest.approx(known.last_stats[bundle].msg_rate_in)


async def test_the_boundaries_of_a_namespace_that_is_gone_are_one_bundle(tmp_path: Path) -> None:
    app = web.Application()
    server = TestServer(app)
    await server.start_server()
    client = AdminClient()
    try:
        boundaries = Boundaries({}, client=client, url=f"http://127.0.0.1:{server.port}")
        options = Options("p", tmp_path, 0, LATER_MS, STEP_MS)
        outcome = await import_metrics(ExportFiles(steady().series()), boundaries, options, lambda done, whole: None)
    finally:
        await client.close()
        await server.close()
    assert "1 namespace no longer exist, such as shop/orders" in outcome.warnings[0]
    assert {bundle for report in stored(tmp_path) for bundle in report.last_stats} == {
        "shop/orders/0x00000000_0xffffffff"
    }


async def test_boundaries_that_nobody_knows_are_asked_for(tmp_path: Path) -> None:
    options = Options("p", tmp_path, 0, LATER_MS, STEP_MS)
    with pytest.raises(ImportRefusedError, match="1 namespace are not known: shop/orders; add these boundaries"):
        await import_metrics(ExportFiles(steady().series()), Boundaries({}), options, lambda done, whole: None)


async def test_metrics_of_bundles_need_no_boundaries(tmp_path: Path) -> None:
    load = steady(steps=4)
    labels = {"cluster": "c1", "instance": load.instance(0)}
    bundle = str(BUNDLES.bundles[1])
    points = [(load.at_s(step), "5") for step in range(4)]
    series = [
        Series({"__name__": "pulsar_broker_topics_count", **labels}, points),
        Series({"__name__": "pulsar_bundle_msg_rate_in", **labels, "bundle": bundle, "broker": "b"}, points),
        Series({"__name__": "pulsar_bundle_topics_count", **labels, "bundle": bundle, "broker": "b"}, points),
    ]
    options = Options("p", tmp_path, 0, LATER_MS, STEP_MS)
    await import_metrics(ExportFiles(series), None, options, lambda done, whole: None)
    (stats,) = {rates for report in stored(tmp_path) for rates in report.last_stats.values()}
    assert (stats.msg_rate_in, stats.topics) == (5.0, 5)


def test_text_with_times_is_read_as_json_is(tmp_path: Path) -> None:
    load = steady()
    lines = []
    for series in load.series():
        labels = dict(series.metric)
        name = labels.pop("__name__")
        told = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines += [f"{name}{{{told}}} {value} {at}" for at, value in series.values]
    found = text_series(["# TYPE x gauge", *lines, "other_metric 1 1790000000", "# EOF"], "export")
    assert sorted(found, key=str) == sorted(load.series(), key=str)
    dumped = text_series(['{__name__="pulsar_rate_in", topic="a\\"b"} 3 1790000040000'], "export")
    assert dumped == [Series({"__name__": "pulsar_rate_in", "topic": 'a"b'}, [(1790000040.0, "3")])]
    with pytest.raises(ImportRefusedError, match="export line 1 is not a sample with a time"):
        text_series(["pulsar_rate_in 3"], "export")


def test_windows_grow_by_what_answers_have() -> None:
    assert next_steps(30, 0) == 120
    assert next_steps(1_000, 100) == MOST_STEPS
    assert next_steps(100, 4_000_000) == 10
    assert next_steps(1, 10**9) == 1


def test_a_load_of_many_topics_is_of_the_same_form() -> None:
    assert asyncio.run(ExportFiles(Load({}, {}, 3, [[1.0] * 3] * 2).series()).extents(0, LATER_MS))[0].cluster == "c1"
