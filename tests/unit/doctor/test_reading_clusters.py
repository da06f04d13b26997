"""The requests to brokers: ours, others with fewer answers, and some with invalid answers."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.doctor.catalogue import diagnose
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.doctor.reading import cluster
from pulsar_barycenter.doctor.reading.cluster import ClusterUnreadableError, read_cluster
from pulsar_barycenter.load.snapshot.document import encode_snapshot
from support.doctor_pictures import snapshot
from support.rest_cluster import rest_cluster

BOUNDARIES = ["0x00000000", "0x80000000", "0xffffffff"]
FIRST = "t/n/0x00000000_0x80000000"
RUNTIME = {"clusterName": "c", "loadManagerClassName": "x.ModularLoadManagerImpl"}


class Foreign:
    """A web server that answers as a broker of Apache Pulsar does; `answers` are by path."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {
            "/admin/v2/brokers/leaderBroker": {"serviceUrl": "http://ME"},
            "/admin/v2/brokers/configuration": ["dynamicKey"],
            "/admin/v2/brokers/configuration/values": {"dynamicKey": "1"},
            "/admin/v2/brokers/configuration/runtime": RUNTIME,
            "/admin/v2/brokers/c/ME/ownedNamespaces": {FIRST: {"broker_assignment": "shared", "is_active": True}},
            "/admin/v2/tenants": ["t"],
            "/admin/v2/namespaces/t": ["t/n"],
            "/admin/v2/namespaces/t/n": {"bundles": {"boundaries": BOUNDARIES, "numBundles": 2}},
            "/admin/v2/namespaces/t/n/bundles": {"boundaries": BOUNDARIES, "numBundles": 2},
            **answers,
        }
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self.server = TestServer(app)
        self.broker = ""

    async def start(self) -> None:
        await self.server.start_server()
        self.broker = f"127.0.0.1:{self.server.port}"

    async def close(self) -> None:
        for answer in self.answers.values():
            if isinstance(answer, asyncio.Event):
                answer.set()
        await self.server.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.replace(self.broker, "ME")
        self.asked.append(path)
        answer = self.answers.get(path, [self.broker] if path == "/admin/v2/brokers" else None)
        if answer is None:
            return web.Response(status=404, text="<html><title>Error 404 Not Found</title></html>")
        if isinstance(answer, web.Response):
            return answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        if isinstance(answer, Mapping):
            answer = {
                key: text.replace("ME", self.broker) if isinstance(text, str) else text for key, text in answer.items()
            }
        return web.json_response(answer)


async def look(foreign: Foreign, **options: Any) -> Picture:
    client = AdminClient(timeout_s=0.5, **options)
    await foreign.start()
    try:
        return await read_cluster([f"http://{foreign.broker}"], client, now_ms=lambda: 1_000)
    finally:
        await client.close()
        await foreign.close()


@pytest.mark.parametrize("kind", ["LocalBrokerData", "LoadReport"])
async def test_a_broker_of_apache_pulsar_tells_its_version_and_its_load(kind: str) -> None:
    stats = {FIRST: {"topics": 5}}
    told = {"loadReportType": kind, "numTopics": 5, "bundleStats": stats, "lastStats": stats}
    path = "/admin/v2/broker-stats/load-report"
    picture = await look(Foreign(**{path: told, "/admin/v2/brokers/version": web.Response(text="4.2.4")}))
    (broker,) = picture.answering
    assert broker.version == "4.2.4"
    assert broker.report is not None
    assert (broker.report.num_topics, broker.report.broker_id) == (5, broker.broker)
    extensible = await look(Foreign(**{path: web.Response(status=500, text="UnsupportedOperationException")}))
    assert extensible.answering[0].report is None
    assert not any("load report" in each.what for each in extensible.unseen)


async def test_of_apache_pulsar_what_can_be_had_is_and_the_rest_is_told() -> None:
    foreign = Foreign()
    picture = await look(foreign)
    (broker,) = picture.answering
    assert (broker.leader, broker.leads) == (foreign.broker, None)
    assert broker.owned == {FIRST: True}
    assert broker.boundaries == {"t/n": tuple(BOUNDARIES)}
    assert broker.clock_ms is not None
    assert picture.snapshot is None
    told = {each.what: each.why for each in picture.unseen}
    assert "404" in told[f"whether it leads, and the leader's load data, of {foreign.broker}"]
    severities = {each.severity for each in diagnose(picture).findings}
    assert severities <= {Severity.INFO}
    assert "preallocation" in {each.what for each in diagnose(picture).unseen}


async def test_topics_are_counted_by_bundle_where_nobody_serves_one() -> None:
    """Of a namespace whose bundles are all served they are not asked for."""
    topics = "/admin/v2/persistent/t/n"
    foreign = Foreign(**{topics: ["persistent://t/n/a", "persistent://t/n/b", "nonsense"]})
    (namespace,) = (await look(foreign)).namespaces or ()
    assert namespace.topics is not None
    assert sum(namespace.topics.values()) == 2
    assert {bundle.rpartition("/")[0] for bundle in namespace.topics} == {"t/n"}
    served = {f"t/n/{lower}_{upper}": {"is_active": True} for lower, upper in pairwise(BOUNDARIES)}
    foreign = Foreign(**{topics: [], "/admin/v2/brokers/c/ME/ownedNamespaces": served})
    (namespace,) = (await look(foreign)).namespaces or ()
    assert (namespace.topics, topics in foreign.asked) == (None, False)


async def test_nothing_is_looked_up_which_would_give_bundles_owners() -> None:
    foreign = Foreign()
    await look(foreign)
    assert [path for path in foreign.asked if "lookup" in path] == []


@pytest.mark.parametrize(
    ("path", "answer", "what"),
    [
        ("/admin/v2/brokers/configuration/runtime", ["no map"], "settings"),
        ("/admin/v2/brokers/configuration/runtime", web.Response(status=401), "settings"),
        ("/admin/v2/brokers/c/ME/ownedNamespaces", {"x": 1}, "owned bundles"),
        ("/admin/v2/brokers/leaderBroker", [], "leader"),
        ("/barycenter/v1/snapshot", {"format": "another"}, "whether it leads, and the leader's load data,"),
        ("/admin/v2/namespaces/t/n", {"bundles": 3}, "policies"),
        ("/admin/v2/brokers/configuration/values", asyncio.Event(), "dynamic configuration"),
    ],
)
async def test_an_answer_that_is_not_understood_or_does_not_come_is_told(path: str, answer: Any, what: str) -> None:
    foreign = Foreign(**{path: answer})
    picture = await look(foreign)
    assert f"{what} of {foreign.broker}" in {each.what for each in picture.unseen}


@pytest.mark.parametrize(
    ("published", "in_use", "lag", "lag_s", "is_told"),
    [
        (None, "0.0", "90.0", 90.0, True),
        ("1.0", "0.0", "90.0", 90.0, True),
        ("0.0", "0.0", "90.0", None, True),  # there is no pipeline
        (None, "1.0", "2.0", None, True),
        (None, "0.0", None, None, True),  # the extensible load manager, where no pipeline is asked for
        (None, None, None, None, True),
        (None, "0.0", "late", None, False),
    ],
)
async def test_how_late_the_pipeline_is_comes_from_the_leaders_figures(
    published: str | None, in_use: str | None, lag: str | None, lag_s: float | None, is_told: bool
) -> None:
    told = {"published": published, "in_use": in_use, "lag_seconds": lag}
    figures = [f'barycenter_pipeline_{name}{{cluster="c"}} {value}' for name, value in told.items() if value]
    decided = msgspec.json.decode(encode_snapshot(snapshot()))
    foreign = Foreign(**{"/barycenter/v1/snapshot": decided, "/metrics": web.Response(text="\n".join(figures))})
    picture = await look(foreign)
    assert picture.snapshot is not None
    assert picture.pipeline_lag_s == lag_s
    assert (f"metrics of {foreign.broker}" not in {each.what for each in picture.unseen}) == is_told


@pytest.mark.parametrize(
    ("told", "silent_s"),
    [
        ({"in_use": "1.0", "lag_seconds": "0.0", "silent_seconds": "340.5"}, 340.5),
        ({"published": "0.0", "in_use": "0.0", "lag_seconds": "0.0", "silent_seconds": "90"}, 90.0),
        ({"in_use": "1.0", "lag_seconds": "0.0", "silent_seconds": "0.0"}, 0.0),
        ({"in_use": "0.0"}, None),  # the extensible load manager, where no pipeline is asked for
    ],
)
async def test_how_long_the_pipeline_is_silent_comes_from_the_leaders_metrics(
    told: dict[str, str], silent_s: float | None
) -> None:
    lines = [f'barycenter_pipeline_{name}{{cluster="c"}} {value}' for name, value in told.items()]
    decided = msgspec.json.decode(encode_snapshot(snapshot()))
    foreign = Foreign(**{"/barycenter/v1/snapshot": decided, "/metrics": web.Response(text="\n".join(lines))})
    assert (await look(foreign)).pipeline_silent_s == silent_s


async def test_a_broker_that_does_not_tell_its_cluster_is_not_taken_to_own_nothing() -> None:
    foreign = Foreign(**{"/admin/v2/brokers/configuration/runtime": {"x": "y"}})
    picture = await look(foreign)
    assert picture.answering[0].owned is None
    assert f"owned bundles of {foreign.broker}" in {each.what for each in picture.unseen}


async def test_an_answer_that_is_too_large_is_told() -> None:
    foreign = Foreign(**{"/admin/v2/brokers/configuration/runtime": {"clusterName": "c", "x": "x" * 10_000}})
    picture = await look(foreign, most_bytes=5_000)
    assert any("more than 5,000 bytes" in each.why for each in picture.unseen)


async def test_namespaces_whose_bundles_no_broker_tells_are_found() -> None:
    foreign = Foreign(**{"/admin/v2/namespaces/t/n/bundles": web.json_response({"reason": "a hole"}, status=500)})
    picture = await look(foreign)
    (finding,) = diagnose(picture, ["tiling"]).findings
    assert "a hole" in finding.sentence


@pytest.mark.parametrize(("status", "is_told"), [(404, False), (401, True), (503, True)])
async def test_bundles_that_are_gone_or_not_told_are_no_hole(status: int, is_told: bool) -> None:
    foreign = Foreign(**{"/admin/v2/namespaces/t/n/bundles": web.json_response({"reason": "no"}, status=status)})
    picture = await look(foreign)
    assert diagnose(picture, ["tiling"]).findings == ()
    told = {each.what for each in picture.unseen}
    assert (f"the bundles of namespaces of {foreign.broker}" in told) == is_told


async def test_more_namespaces_than_are_compared_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "MAX_POLICY_REQUESTS", 1)
    monkeypatch.setattr(cluster, "MAX_NAMESPACES", 2)
    whole = {"boundaries": BOUNDARIES, "numBundles": 2}
    foreign = Foreign(**{"/admin/v2/namespaces/t": ["t/n", "t/o", "t/p"], "/admin/v2/namespaces/t/o/bundles": whole})
    picture = await look(foreign)
    assert {"caches", "namespaces"} <= {each.what for each in picture.unseen}
    assert len(picture.namespaces or ()) == 2
    assert set(picture.answering[0].boundaries) == {"t/n"}


async def test_a_registered_broker_that_is_gone_is_silent_and_the_others_are_read() -> None:
    foreign = Foreign()
    await foreign.start()
    foreign.answers["/admin/v2/brokers"] = [foreign.broker, "127.0.0.1:9"]
    client = AdminClient(timeout_s=0.5)
    picture = await read_cluster([f"http://{foreign.broker}"], client, now_ms=lambda: 1_000)
    await client.close()
    await foreign.close()
    assert {broker.broker: broker.answers for broker in picture.brokers or ()} == {
        foreign.broker: True,
        "127.0.0.1:9": False,
    }


@pytest.mark.parametrize("answer", [{"no": "list"}, web.Response(status=500), web.Response(text="<html>")])
async def test_where_no_broker_tells_which_there_are_there_is_no_picture(answer: Any) -> None:
    with pytest.raises(ClusterUnreadableError):
        await look(Foreign(**{"/admin/v2/brokers": answer}))


async def test_brokers_of_ours_tell_all() -> None:
    async with rest_cluster(2) as brokers:
        client = AdminClient(timeout_s=5)
        urls = [str(brokers.brokers[1].urls.web_url)]
        try:
            picture = await read_cluster(urls, client, now_ms=lambda: 1_000)
        finally:
            await client.close()
        ids = {broker.urls.broker_id for broker in brokers.brokers}
        assert {broker.broker for broker in picture.answering} == ids
        assert sorted(broker.leads or False for broker in picture.answering) == [False, True]
        assert len({broker.leader for broker in picture.answering}) == 1
        for broker in picture.answering:
            assert broker.registered == ids
            assert any("pulsar/" in bundle for bundle in broker.owned or {}), "its own namespaces"
