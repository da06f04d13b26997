"""Loads over time over REST: present ones from memory, past ones from tables, within bounds, with the reason if
empty."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.broker.rest.dashboard import load_answers
from pulsar_barycenter.load.reports.load_over_time import BrokerLoad, LoadQuestion, RecordedLoad
from support.known_roles import ASKED, ROOT, as_role
from support.rest_cluster import RestCluster

PATH = "/barycenter/v1/load-history"
MINUTE = 60_000
BUNDLE = "public/ns/0x00000000_0x80000000"


class Tables:
    """Answers each question with one load a step, of a broker that is gone, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[LoadQuestion] = []
        self.failure: OSError | None = None
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, question: LoadQuestion) -> RecordedLoad:
        self.asked.append(question)
        self.threads.add(threading.current_thread().name)
        assert self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        begins = range(question.since_ms, question.until_ms, question.step_ms)
        return RecordedLoad({at: [BrokerLoad("gone:1", 50.0, 1.0, 2.0, 3)] for at in begins}, question.since_ms)


async def started(folder: Path, tables: Tables | None, **settings: Any) -> RestCluster:
    cluster = RestCluster(tables)
    await cluster.add(
        configured_load_manager, broker_shutdown_timeout_ms=0, barycenter_data_dir=str(folder), **settings
    )
    return cluster


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.fixture
async def cluster(tmp_path: Path, tables: Tables) -> AsyncIterator[RestCluster]:
    cluster = await started(tmp_path, tables)
    try:
        yield cluster
    finally:
        await cluster.close()


async def told(cluster: RestCluster, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await cluster.expect(200, "GET", PATH, **query)).json
    return found


async def test_what_no_broker_remembers_is_from_tables_read_in_a_thread(cluster: RestCluster, tables: Tables) -> None:
    await cluster.expect(200, "GET", "/barycenter/v1/overview")
    [moment] = (await told(cluster))["moments"]
    found = await told(cluster, since=moment["at"] - 10 * MINUTE, until=moment["at"] + 1, step=MINUTE)
    [question] = tables.asked
    assert question.until_ms <= moment["at"]
    assert question.since_ms <= found["since"]
    assert threading.main_thread().name not in tables.threads
    names = [[load[0] for load in each["brokers"]] for each in found["moments"]]
    assert names[:-1] == [["gone:1"]] * (len(names) - 1)
    assert names[-1] == [cluster.brokers[0].broker_id]
    assert (found["step"], found["note"], found["wholeSince"]) == (MINUTE, "", found["since"])


async def test_the_same_question_is_read_once(cluster: RestCluster, tables: Tables) -> None:
    answers = await asyncio.gather(*(told(cluster, since=0, until=10 * MINUTE) for _ in range(5)))
    assert len(tables.asked) == 1
    assert all(each == answers[0] for each in answers)


async def test_who_comes_when_too_many_wait_is_told_to_try_again(cluster: RestCluster, tables: Tables) -> None:
    tables.gate.clear()
    asked = [
        asyncio.create_task(cluster.call("GET", PATH, since=0, until=minutes * MINUTE))
        for minutes in range(1, load_answers.MOST_WAITING + 2)
    ]
    [refused], waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    tables.gate.set()
    assert (await refused).status == 503
    assert {(await each).status for each in waiting} == {200}


async def test_a_bundle_and_a_broker_are_asked_for_by_name(cluster: RestCluster, tables: Tables) -> None:
    await told(cluster, bundle=BUNDLE, until=600 * MINUTE, since=1)
    await told(cluster, broker="b:1", until=600 * MINUTE, since=1)
    assert [(each.bundle, each.broker) for each in tables.asked] == [(BUNDLE, ""), ("", "b:1")]


@pytest.mark.parametrize(
    "query",
    [
        "since=2&until=1",
        "since=0&until=2678400001",
        "since=0&until=3600000&step=1",
        "since=0&until=86400000&step=10000",
        "since=-1",
        "since=x",
        "until=253402214400001",
        "step=86400001",
        "broker=b&bundle=public/ns/0x00000000_0xffffffff",
    ],
)
async def test_questions_out_of_bounds_are_refused(cluster: RestCluster, tables: Tables, query: str) -> None:
    assert (await cluster.call("GET", f"{PATH}?{query}")).status == 400
    assert tables.asked == []


async def test_tables_that_cannot_be_read_are_told_of_without_what_the_log_says(
    cluster: RestCluster, tables: Tables
) -> None:
    tables.failure = PermissionError(13, "no", "/secret/place")
    found = await told(cluster, since=0, until=10 * MINUTE)
    assert found["moments"] == []
    assert found["note"] == "The pipeline's tables cannot be read; this broker's log has the reason."


async def test_where_nothing_reads_tables_the_answer_says_so(tmp_path: Path) -> None:
    cluster = await started(tmp_path, None)
    try:
        found = await told(cluster, since=0, until=10 * MINUTE)
        assert (found["moments"], found["wholeSince"]) == ([], found["until"])
        assert "reads no tables" in found["note"]
    finally:
        await cluster.close()


async def test_loads_over_time_are_for_super_users(tmp_path: Path, tables: Tables) -> None:
    cluster = await started(tmp_path, tables, **ASKED)
    try:
        for role, status in (("", 401), ("somebody", 403), (ROOT, 200)):
            assert (await cluster.call("GET", f"{PATH}?since=1&until=60000", headers=as_role(role))).status == status
    finally:
        await cluster.close()
