"""`barycenter monitor-brokers` on brokers with their REST, and on the content of their store."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.ask.monitor_brokers import changed_lines
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, TimeAverageBrokerData, encode_report
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.status.broker_tables import MonitoredBroker
from support.rest_cluster import RestCluster


async def run(*words: str) -> Result:
    with capture_logs():  # of brokers in this process
        return await asyncio.to_thread(CliRunner().invoke, main, ["monitor-brokers", "--once", *words])


@pytest.mark.parametrize(
    ("manager", "row"),
    [
        ("SimpleLoadManagerImpl", "||ALLOC SYSTEM"),
        ("ModularLoadManagerImpl", "||LONG"),
        ("ExtensibleLoadManagerImpl", "||LATEST"),
    ],
)
async def test_brokers_of_every_load_manager_are_asked(tmp_path: Path, manager: str, row: str) -> None:
    cluster = RestCluster()
    try:
        broker = await cluster.add(
            load_manager_factory(manager), barycenter_data_dir=str(tmp_path), load_manager_class_name=manager
        )
        if manager.startswith("Extensible"):
            async with asyncio.timeout(30):
                while "||" not in (result := await run("--connect-string", str(broker.urls.web_url))).stdout:
                    assert "no broker" in result.stderr
                    await asyncio.sleep(0.1)  # each answer takes as much time of the processor as the report awaited
        else:
            result = await run("--connect-string", str(broker.urls.web_url))
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines[0] == f"Gained broker: {broker.broker_id}"
        assert any(line.startswith(row) for line in lines)
        assert lines[-2].startswith("||TOTAL")
        assert ("||SHORT" in result.stdout) is manager.startswith("Modular")
    finally:
        await cluster.close()


async def test_a_store_tells_what_brokers_wrote_there(tmp_path: Path) -> None:
    file = tmp_path / "metadata.sqlite"
    store = await open_store(f"sqlite:{file}", clock=SystemClock())
    await store.put("/loadbalance/brokers/b1:8080", encode_report(LocalBrokerData(msg_rate_in=4.0)))
    average = TimeAverageBrokerData(long_term_msg_rate_in=2.5)
    await store.put("/loadbalance/broker-time-average/b1:8080", msgspec.json.encode(average))
    await store.put("/loadbalance/brokers/b2:8080", b"{not a report")
    await store.close()
    result = await run("--connect-string", f"sqlite:{file}", "--extensions")
    assert result.exit_code == 0, result.output
    assert "Gained broker: b1:8080" in result.stdout
    assert "b2" not in result.stdout
    lines = result.stdout.splitlines()
    (title,) = [place for place, line in enumerate(lines) if line.startswith("||LONG")]
    assert lines[title + 1].count("2.50") == 2, "in, and in all"


@pytest.mark.parametrize("place", ["sqlite:/nowhere/at.all", "http://127.0.0.1:9", "etcd:", "oxia:"])
async def test_who_cannot_be_asked_is_said(place: str) -> None:
    result = await run("--connect-string", place)
    assert (result.exit_code, bool(result.stderr)) == (1, True), result.output


def test_only_what_changed_is_told_again() -> None:
    one, other = (MonitoredBroker(name, LocalBrokerData()) for name in ("b1", "b2"))
    changed = MonitoredBroker("b2", LocalBrokerData(num_topics=1))
    assert changed_lines({}, {"b1": one})[0] == "Gained broker: b1"
    assert changed_lines({"b1": one}, {"b1": one}) == []
    lines = changed_lines({"b1": one, "b2": other}, {"b2": changed})
    assert lines[0] == "Lost broker: b1"
    assert lines[1] == "Broker Data for b2:"
