"""A balancer whose cluster cannot be used: one clear sentence, and no request that changes anything."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner

from pulsar_barycenter.balancer.facts import FactsError, answering
from pulsar_barycenter.balancer.options import Mode, Wanted
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.balancer.running import BalanceError, balance_until
from pulsar_barycenter.cli.asking.client import asking_client, asking_conf, why_headers
from pulsar_barycenter.cli.main import main

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def log_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets the log of its process, which is that of all tests here."""
    monkeypatch.setattr("pulsar_barycenter.cli.balance.command.configure_logging", lambda **_: None)


BUNDLE = "t/n/0x00000000_0x80000000"
REPORT = {
    "lastStats": {BUNDLE: {"msgRateIn": 5.0, "topics": 1}},
    "bundles": [BUNDLE],
    "cpu": {"usage": 10.0, "limit": 100.0},
}


def now_ms() -> int:
    return round(datetime.now(UTC).timestamp() * 1000)


class Broker:
    """A web server that answers as the one broker of a cluster; `changed` are the requests that were not GETs."""

    def __init__(self, *, store: str = "zk:1", ahead: timedelta = timedelta(0), report: Any = REPORT) -> None:
        self.store = store
        self.ahead = ahead
        self.report = report
        self.status = 200
        self.holds: asyncio.Event | None = None
        self.changed: list[str] = []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method != "GET":
            self.changed.append(f"{request.method} {request.path}")
        if self.holds is not None:
            await self.holds.wait()
        headers = {"Date": format_datetime(datetime.now(UTC) + self.ahead, usegmt=True)}
        status, body = self._content(request.path.removeprefix("/admin/v2/"))
        if self.status != 200:
            status, body = self.status, {"reason": "not allowed"}
        return web.json_response(body, status=status, headers=headers)

    def _content(self, path: str) -> tuple[int, Any]:
        answers: dict[str, Callable[[], Any]] = {
            "brokers": lambda: [f"127.0.0.1:{self.server.port}"],
            "brokers/configuration/runtime": lambda: {"clusterName": "c1", "loadBalancerSheddingEnabled": "true"},
            "brokers/internal-configuration": lambda: {"metadataStoreUrl": self.store},
            "brokers/version": lambda: "4.2.4",
            "broker-stats/load-report": lambda: self.report,
        }
        if path in answers and answers[path]() is not None:
            return 200, answers[path]()
        return 404, {"reason": f"nothing at {path}"}


@asynccontextmanager
async def serving(*brokers: Broker) -> AsyncIterator[None]:
    for broker in brokers:
        await broker.server.start_server()
    try:
        yield
    finally:
        for broker in brokers:
            await broker.server.close()
            assert broker.changed == []


async def observed(state: Path, *urls: str, mode: Mode = Mode.OBSERVE) -> list[RoundRecord | str]:
    told: list[RoundRecord | str] = []
    wanted = Wanted(urls=urls, state=state, mode=mode, rounds=1)
    await balance_until(asyncio.Event(), asking_client, asking_conf(), wanted, told.append, why_headers)
    return told


async def test_a_cluster_of_one_broker_is_observed_and_there_is_nothing_to_balance(tmp_path: Path) -> None:
    broker = Broker()
    async with serving(broker):
        told, record = await observed(tmp_path, broker.url)
    assert isinstance(told, str)
    assert "c1 (metadata in zk:1)" in told
    assert isinstance(record, RoundRecord)
    assert (record.brokers, record.bundles, record.decided) == (1, 1, ())
    assert "1 broker with a current report" in record.held_up


async def test_acting_needs_the_address_for_the_lease_before_anything_else(tmp_path: Path) -> None:
    broker = Broker()
    async with serving(broker):
        with pytest.raises(BalanceError, match="--service-url"):
            await observed(tmp_path, broker.url, mode=Mode.ACT)


async def test_no_rights_name_the_request_and_the_token(tmp_path: Path) -> None:
    broker = Broker()
    broker.status = 403
    async with serving(broker):
        with pytest.raises(FactsError, match=r"403: not allowed; set BARYCENTER_TOKEN"):
            await observed(tmp_path, broker.url)
    assert not (tmp_path / "cluster.json").exists()


async def test_brokers_without_load_reports_are_said(tmp_path: Path) -> None:
    broker = Broker(report=None)
    async with serving(broker):
        with pytest.raises(BalanceError, match=r"no broker returned its load.*load-report: 404"):
            await observed(tmp_path, broker.url)


@pytest.mark.parametrize(("ahead", "said"), [(HOUR, "s ahead of"), (-HOUR, "s behind")])
async def test_a_clock_that_is_off_by_an_hour_is_said(tmp_path: Path, ahead: timedelta, said: str) -> None:
    broker = Broker(ahead=ahead)
    async with serving(broker):
        with pytest.raises(BalanceError, match=rf"3,\d\d\d {said}.*NTP"):
            await observed(tmp_path, broker.url)


async def test_two_clusters_are_told_apart_by_addresses_and_by_the_folder(tmp_path: Path) -> None:
    one, other = Broker(), Broker(store="zk:2")
    async with serving(one, other):
        with pytest.raises(FactsError, match=r"zk:1.*zk:2.*one cluster"):
            await observed(tmp_path, one.url, other.url)
        await observed(tmp_path, one.url)
        with pytest.raises(FactsError, match=r"zk:1.*zk:2.*--state"):
            await observed(tmp_path, other.url)


async def test_a_named_broker_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    broker = Broker()
    async with serving(broker):
        assert len(await observed(tmp_path, "http://127.0.0.1:1", broker.url)) == 2


async def test_a_broker_that_takes_requests_and_says_nothing_is_passed_over() -> None:
    silent, broker = Broker(), Broker()
    silent.holds = asyncio.Event()
    client = asking_client()
    async with serving(silent, broker):
        assert await answering(client, (silent.url, broker.url), now_ms, within_s=0.05) == (broker.url, "")
        with pytest.raises(FactsError, match=r"no answer within 0.05 s"):
            await answering(client, (silent.url,), now_ms, within_s=0.05)
        silent.holds.set()
    await client.close()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--url", "http://127.0.0.1:1", "--state", "{state}"), 1, "no server listens at http://127.0.0.1:1"),
        (("--url", "broker", "--state", "{state}"), 1, "cannot"),
        (("--url", "ftp://broker", "--state", "{state}"), 2, "http"),
        (("--url", "http://127.0.0.1:1"), 2, "--state"),
        (("--url", "http://127.0.0.1:1", "--state", "{state}", "--strategy", "Best"), 2, "LeastDisturbance"),
        (("--url", "http://127.0.0.1:1", "--state", "{state}", "--set", "noSuchKey=1"), 2, "noSuchKey"),
        (("--url", "http://127.0.0.1:1", "--state", "{state}", "--per-hour", "0"), 2, "--per-hour"),
        (("approve", "--state", "{here}"), 1, "no round waits"),
        (("approve", "--state", "{here}", "--yes", "--reject"), 2, "not both"),
        (("restore", "--state", "{here}", "--yes"), 0, "left no setting to put back"),
    ],
)
def test_wrong_words_end_with_a_sentence(tmp_path: Path, words: tuple[str, ...], status: int, said: str) -> None:
    places = {"{state}": str(tmp_path / "state"), "{here}": str(tmp_path)}
    done = CliRunner().invoke(main, ["balance", *(places.get(word, word) for word in words)])
    assert (done.exit_code, said in done.output) == (status, True), done.output
    assert "Traceback" not in done.output
