"""The output and the exit codes of `barycenter status`."""

import asyncio
import os
import time
from pathlib import Path

import msgspec
from click.testing import CliRunner, Result

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from support.rest_cluster import RestCluster, rest_cluster

WELL, SICK, BLIND = 0, 1, 2


def run(*words: str, columns: int = 120) -> Result:
    return CliRunner().invoke(main, ["status", *words], env={"COLUMNS": str(columns)})


async def test_a_running_cluster_on_one_screen_and_as_json() -> None:
    async with rest_cluster(2) as brokers:
        url = str(brokers.brokers[1].urls.web_url)
        ids = [broker.urls.broker_id for broker in brokers.brokers]
        told = await asyncio.to_thread(run, "--url", url, "--json")
        status = msgspec.json.decode(told.stdout)
        wide, narrow = [await asyncio.to_thread(run, "--url", url, columns=columns) for columns in (200, 60)]
    assert {each["broker"] for each in status["brokers"]} == set(ids)
    assert [each["broker"] for each in status["brokers"] if each.get("leads")] == [status["leader"]]
    assert not status["isApachePulsar"]
    is_well = status["worst"] is None or status["worst"]["severity"] == "info"
    assert told.exit_code == wide.exit_code == (WELL if is_well else SICK)
    lines = wide.stdout.splitlines()
    assert lines[0].startswith(f"cluster {status['cluster']}; led by {status['leader']}; ")
    rows = {line.split()[0]: line for line in lines if line.startswith(tuple(ids))}
    assert set(rows) == set(ids)
    assert rows[status["leader"]].split()[1] == "*"
    assert lines[-1].startswith("healthy: " if is_well else "doctor: ")
    assert all(broker in narrow.stdout for broker in ids)


async def test_a_broker_that_does_not_answer_is_told_and_makes_the_cluster_ill() -> None:
    async with rest_cluster(1) as brokers:
        await brokers.store.put("/loadbalance/brokers/127.0.0.1:9", b"{}")
        told = await asyncio.to_thread(run, "--url", str(brokers.brokers[0].urls.web_url), "--timeout", "1")
    assert told.exit_code == SICK
    assert "127.0.0.1:9 does not answer: " in told.stdout


def test_where_nobody_answers_it_ends_with_two() -> None:
    told = run("--url", "http://127.0.0.1:9")
    assert (told.exit_code, told.stdout) == (BLIND, "")
    assert "cannot query the cluster" in told.stderr
    assert run("--url", "ftp://x").exit_code == BLIND


async def test_a_pipeline_that_has_gone_silent_is_a_line_of_status_and_a_finding_of_doctor(tmp_path: Path) -> None:
    look_file = tmp_path / "pipeline/publication/looked"
    look_file.parent.mkdir(parents=True)
    cluster = RestCluster()

    async def told(command: str, seconds: int | None) -> Result:
        if seconds is not None:
            look_file.touch()
            os.utime(look_file, times=(time.time() - seconds, time.time() - seconds))
        await cluster.brokers[0].control.load_manager.write_report(force=True)
        words = [command, "--url", str(cluster.brokers[0].urls.web_url)]
        return await asyncio.to_thread(CliRunner().invoke, main, words, env={"COLUMNS": "400"})

    try:
        await cluster.add(
            load_manager_factory("ModularLoadManagerImpl"),
            broker_shutdown_timeout_ms=0,
            barycenter_data_dir=str(tmp_path),
        )
        for seconds in (None, 1):
            for each in (await told("status", seconds), await told("doctor", seconds)):
                assert (each.exit_code, "pipeline" in each.stdout) == (WELL, False), "none runs, or it looks"
        status, doctor = await told("status", 7_200), await told("doctor", 7_200)
    finally:
        await cluster.close()
    assert (status.exit_code, doctor.exit_code) == (SICK, SICK)
    assert "the pipeline has not looked for load reports for 7,2" in status.stdout.splitlines()[0]
    assert "warning  silent-pipeline  pipeline" in doctor.stdout
    assert "barycenter pipeline status --data FOLDER" in doctor.stdout
