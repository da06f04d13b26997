"""What the server of `watch` answers, and whom it refuses; live brokers, and input that cannot be shown."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.ask.top import is_foreign, watched
from pulsar_barycenter.cli.asking.client import asking_client, asking_conf
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.dashboard.timeline import BriefDecision
from pulsar_barycenter.watch.running import Wanted, Watching, opened, watch_until
from pulsar_barycenter.watch.sources.error import WatchError
from pulsar_barycenter.watch.watched_cluster import WatchedCluster
from support.recorded_cluster import BEGIN_MS, BUNDLES, BUSY, BY_HAND, MINUTE_MS, SHED, SPARE, record

MINUTES = 40


@asynccontextmanager
async def serving(wanted: Wanted) -> AsyncIterator[tuple[aiohttp.ClientSession, list[Any]]]:
    """Watch meanwhile; yield a client of the server, and what was told."""
    told: list[Any] = []
    began, stop = asyncio.Event(), asyncio.Event()

    def tell(found: Watching | BriefDecision | str) -> None:
        told.append(found)
        began.set()

    watching = asyncio.create_task(watch_until(stop, asking_client, asking_conf(), wanted, tell))
    waiting = asyncio.create_task(began.wait())
    await asyncio.wait((watching, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if watching.done():
        await watching
    try:
        async with aiohttp.ClientSession(told[0].url) as session:
            yield session, told
    finally:
        stop.set()
        await watching


async def asked(session: aiohttp.ClientSession, path: str, **query: Any) -> Any:
    async with session.get(f"/barycenter/v1/{path}", params=query) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


@pytest.fixture
def recording(tmp_path: Path) -> Wanted:
    record(tmp_path)
    return Wanted(data=tmp_path)


async def test_a_recording_is_shown_as_of_its_end(recording: Wanted) -> None:
    async with serving(recording) as (session, told):
        begin = told[0]
        assert (begin.cluster, begin.brokers, begin.bundles, begin.strategy) == ("orders", 2, 12, "UniformLoadShedder")
        overview = await asked(session, "overview")
        assert [broker["broker"] for broker in overview["brokers"]] == [BUSY, SPARE]
        assert overview["complaints"] == []
        assert overview["watched"]["isRecording"]
        async with session.get("/") as page:
            assert parsedate_to_datetime(page.headers["Date"]).timestamp() == overview["watched"]["asOf"] // 1000
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        loads = await asked(session, "load-history", since=BEGIN_MS, until=BEGIN_MS + MINUTES * MINUTE_MS, broker=BUSY)
        assert len(loads["moments"]) * loads["step"] == pytest.approx(MINUTES * MINUTE_MS, rel=0.1)


async def test_decisions_are_given_by_what_they_are_about_and_in_pages(recording: Wanted) -> None:
    async with serving(recording) as (session, _):
        everything = await asked(session, "timeline")
        [by_hand] = await asked(session, "timeline", bundle=BY_HAND)
        assert (by_hand["basis"], by_hand["agrees"]) == ("recomputed", False)
        of_broker = await asked(session, "timeline", broker=BUSY)
        assert [one for one in everything if one in of_broker] == of_broker
        assert {BUSY} < {name for one in of_broker for name in (one.get("source", BUSY), one.get("destination", BUSY))}
        paged: list[Any] = []
        before = ""
        while True:
            page = await asked(session, "decision-log", limit=4, before=before)
            paged = page["decisions"] + paged
            before = page["next"]
            if not before:
                break
        assert paged == everything


async def test_a_topic_and_a_bundle_are_explained(recording: Wanted) -> None:
    async with serving(recording) as (session, _):
        topic = await asked(session, "explanation", topic="persistent://shop/orders/a")
        assert topic["bundle"] in BUNDLES
        bundle = await asked(session, "explanation", bundle=SHED[0])
        assert (bundle["owner"], bundle["states"][0]["held"]) == (SPARE, "it was unloaded a short while ago")
        namespace = await asked(session, "explanation", namespace="shop/orders")
        assert namespace["bundleCount"] == len(BUNDLES)
        bundles = await asked(session, "bundles", broker=SPARE)
        assert bundles["count"] == len(bundles["bundles"]) == 7
        balance = await asked(session, "balance")
        assert balance["balance"]["state"] == "balanced"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/barycenter/v1/explanation", 400, "exactly one"),
        ("/barycenter/v1/explanation?bundle=x", 412, "x"),
        ("/barycenter/v1/explanation?broker=gone:1", 404, "not active"),
        ("/barycenter/v1/explanation?topic=persistent://a/b/c", 404, "No broker reports a bundle"),
        ("/barycenter/v1/load-history?since=-1", 400, "whole number"),
        ("/barycenter/v1/load-history?since=9&until=5", 400, "more than 0 ms"),
        ("/barycenter/v1/timeline?limit=1001", 400, "from 0 to 1000"),
        (f"/barycenter/v1/bundles?broker={'x' * 4_097}", 400, "4,096 characters"),
        ("/dashboard/../server.py", 404, "not served here"),
        ("/dashboard/other.js", 404, "no file"),
        ("/admin/v2/brokers", 404, "changes nothing"),
    ],
    ids=range(11),
)
async def test_bad_questions_get_a_sentence(recording: Wanted, path: str, status: int, said: str) -> None:
    async with serving(recording) as (session, _), session.get(path) as answer:
        assert answer.status == status
        assert said in (await answer.json())["reason"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 403),
        ({"Host": "a b"}, 403),
        ({"Origin": "http://other.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
async def test_pages_of_others_get_no_answer(recording: Wanted, headers: dict[str, str], status: int) -> None:
    async with serving(recording) as (session, _):
        async with session.get("/barycenter/v1/overview", headers=headers) as answer:
            assert answer.status == status
        async with session.put("/admin/v2/namespaces/a/b/unload", headers=headers) as answer:
            assert answer.status == (405 if status == 200 else status)


# ---- live ----


class Brokers:
    """A web server that answers as two brokers; `moved` puts the bundle on the second one."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.moved = False
        self.asked: list[str] = []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.servers = [TestServer(app), TestServer(app)]

    def ids(self) -> list[str]:
        return [f"127.0.0.1:{server.port}" for server in self.servers]

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        has_it = (request.host == self.ids()[1]) == self.moved
        bundle = "t/n/0x00000000_0xffffffff"
        stats = {bundle: {"msgRateIn": 5.0, "msgThroughputIn": 500.0, "topics": 1}} if has_it else {}
        answers: dict[str, Callable[[], Any]] = {
            "brokers": self.ids,
            "brokers/leaderBroker": lambda: {"serviceUrl": f"http://{self.ids()[0]}"},
            "brokers/configuration/runtime": lambda: {
                "clusterName": "live",
                "loadBalancerLoadSheddingStrategy": "ThresholdShedder",
                "brokerClientAuthenticationParameters": "secret",
            },
            "brokers/internal-configuration": lambda: {"metadataStoreUrl": self.store},
            "broker-stats/load-report": lambda: {
                "lastStats": stats,
                "bundles": list(stats),
                "cpu": {"usage": 10.0, "limit": 100.0},
            },
            "clusters": lambda: ["live"],
            "clusters/live/namespaceIsolationPolicies": dict,
            "clusters/live/failureDomains": dict,
        }
        found = answers.get(request.path.removeprefix("/admin/v2/"))
        return web.json_response(found() if found else {"reason": "none"}, status=200 if found else 404)


@asynccontextmanager
async def two_brokers(store: str = "zk:1") -> AsyncIterator[Brokers]:
    brokers = Brokers(store)
    for server in brokers.servers:
        await server.start_server()
    try:
        yield brokers
    finally:
        for server in brokers.servers:
            await server.close()
        assert set(brokers.asked) <= {"GET"}


async def test_running_brokers_are_shown_and_only_asked() -> None:
    async with two_brokers() as brokers:
        wanted = Wanted(urls=(f"http://{brokers.ids()[0]}",), interval_s=0.05)
        async with serving(wanted) as (session, told):
            assert (told[0].cluster, told[0].brokers, told[0].strategy) == ("live", 2, "ThresholdShedder")
            overview = await asked(session, "overview")
            assert overview["leader"] == brokers.ids()[0]
            assert not overview["watched"]["isRecording"]
            assert "secret" not in json.dumps(await asked(session, "settings"))
            brokers.moved = True
            while not (moves := [one for one in await asked(session, "timeline") if one["kind"] == "unload"]):
                await asyncio.sleep(0)
            [move] = moves
            assert (move["source"], move["destination"], move["agrees"]) == (*brokers.ids(), False)


# ---- input that cannot be shown ----


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["watch", *words], env={"BARYCENTER_URL": "", "COLUMNS": "300"})


@pytest.fixture(autouse=True)
def log_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets the log of its process, which is that of all tests here."""
    monkeypatch.setattr("pulsar_barycenter.cli.watch.configure_logging", lambda **_: None)


def test_wrong_folders_are_said(tmp_path: Path) -> None:
    missing = run("--data", str(tmp_path / "none"))
    assert (missing.exit_code, "there is no folder" in missing.stderr) == (1, True)
    empty = run("--data", str(tmp_path))
    assert (empty.exit_code, "is not a data folder" in empty.stderr) == (1, True)
    (tmp_path / "load-reports").mkdir()
    bare = run("--data", str(tmp_path))
    assert (bare.exit_code, "has no load reports: record some" in bare.stderr) == (1, True)


def test_wrong_words_are_said(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(2))
    for words, said in (
        ((), "Missing option '--url'"),
        (("--url", "ftp://x"), "a web address begins with http://"),
        (("--url", "http://127.0.0.1:1", "--data", str(tmp_path)), "not both"),
        (("--data", str(tmp_path), "--set", "loadBalancerSheddingEnable=true"), "there is no key"),
        (("--data", str(tmp_path), "--last", "soon"), "give a span"),
    ):
        found = run(*words)
        assert (found.exit_code, said in found.stderr) == (2, True), found.stderr


def test_an_unreachable_address_and_a_port_in_use_are_said(tmp_path: Path) -> None:
    nobody = run("--url", "http://127.0.0.1:9")
    assert (nobody.exit_code, "cannot read the cluster: GET http://127.0.0.1:9" in nobody.stderr) == (1, True)
    record(tmp_path, minutes=range(2))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = run("--data", str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert (used.exit_code, "address already in use" in used.stderr) == (1, True)


async def test_brokers_of_two_clusters_are_not_mixed() -> None:
    async with two_brokers() as one, two_brokers("zk:2") as other:
        wanted = Wanted(urls=(f"http://{one.ids()[0]}", f"http://{other.ids()[0]}"))
        with pytest.raises(WatchError, match=r"zk:1.*zk:2.*name brokers of one cluster"):
            await watch_until(asyncio.Event(), asking_client, asking_conf(), wanted, lambda _: None)


def test_the_moves_are_lines_and_objects(tmp_path: Path) -> None:
    record(tmp_path)
    lines = run("--data", str(tmp_path), "--port", "0", "--rounds", "1").stdout.splitlines()
    assert lines[0].startswith("cluster orders (2 brokers, 12 bundles, sheds by UniformLoadShedder), read from ")
    [by_hand] = [line for line in lines if BY_HAND in line]
    assert "[recomputed (does not agree)] UniformLoadShedder would not have moved it" in by_hand
    told = run("--data", str(tmp_path), "--port", "0", "--rounds", "1", "--json").stdout.splitlines()
    assert json.loads(told[0])["url"].startswith("http://127.0.0.1:")
    assert len(told) == len(lines)


def test_status_shows_a_recording_as_of_its_last_report(tmp_path: Path) -> None:
    record(tmp_path)
    told = CliRunner().invoke(main, ["status", "--data", str(tmp_path)], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.stderr
    head, *rest = told.stdout.splitlines()
    assert head.startswith(f"cluster orders, as recorded in {tmp_path} until 2026-02-02 03:19:00 UTC; led by {SPARE}; ")
    [row] = [line for line in rest if line.startswith(SPARE)]
    assert row.split()[1:3] == ["*", "7"]
    assert rest[-1] == "every broker reported its load"
    found = CliRunner().invoke(main, ["status", "--data", str(tmp_path), "--json"])
    status = json.loads(found.stdout)
    assert (status["strategy"], status["bundles"], len(status["brokers"])) == ("UniformLoadShedder", 12, 2)


def test_status_of_no_recording_is_said(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["status", "--data", str(tmp_path)])
    assert (told.exit_code, "is not a data folder" in told.stderr) == (2, True)


async def test_top_shows_the_moves_of_brokers_that_tell_no_decisions() -> None:
    async with two_brokers() as brokers:
        url = f"http://{brokers.ids()[0]}"
        assert await is_foreign(url)
        cluster = WatchedCluster()
        async with opened(asking_client, asking_conf(), Wanted(urls=(url,))) as source:
            assert [one.kind for one in (await watched(source, cluster)).decisions] == ["shed"]
            brokers.moved = True
            view = await watched(source, cluster)
        owner = brokers.ids()[1]
    assert "2 brokers, 1 bundle; " in view.about
    [move] = [one for one in view.decisions if one.kind == "unload"]
    assert move.decided_by == "recomputed, does not agree"
    assert [row.broker for row in view.board.bundles] == [owner]
