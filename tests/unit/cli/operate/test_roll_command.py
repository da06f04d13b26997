"""`barycenter roll` on brokers with their REST: its plan, its refusals, and what it says when it stops."""

import asyncio
import errno
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.operations.journal_file import JournalFile
from pulsar_barycenter.operations.own_balancing import PAUSED_KEYS, SHEDDING
from pulsar_barycenter.operations.rolling.progress import RollEntry
from support.rest_cluster import RestCluster

OK, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals are where a command is typed."""
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def two_brokers(folder: Path) -> AsyncIterator[tuple[RestCluster, str]]:
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(configured_load_manager, barycenter_data_dir=str(folder), broker_shutdown_timeout_ms=0)
        await cluster.create_namespace(bundles=4)
        for number in range(16):
            await cluster.owner(f"persistent/public/ns/any-{number}")
        yield cluster, str(cluster.brokers[0].urls.web_url)
    finally:
        await cluster.close()


async def roll(url: str, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["roll", "--url", url, *words])


async def in_force(cluster: RestCluster) -> dict[str, str]:
    values: dict[str, str] = (await cluster.expect(200, "GET", "/admin/v2/brokers/configuration/runtime")).json
    return {key: values[key] for key in PAUSED_KEYS}


async def test_a_plan_is_shown_and_nothing_is_done(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        shown = await roll(url, "--yes", "--dry-run", "--wait-for-me")
        assert shown.exit_code == OK, shown.output
        assert "at most" in shown.stdout
        assert "nothing is done without --yes" in shown.stdout
        told = await roll(url, "--json")
        (plan,) = [json.loads(line) for line in told.stdout.splitlines() if line.startswith('{"kind":"plan"')]
        leader = next(broker.broker_id for broker in cluster.brokers if broker.leadership.is_leader())
        assert plan["order"]["batches"][-1] == [leader]
        assert plan["moves"] == sum(len(step["moves"]) for step in plan["steps"]) + len(plan["refill"])
        assert not Path("roll.journal").exists()
        assert await in_force(cluster) == dict.fromkeys(PAUSED_KEYS, "true")


async def test_a_hook_that_fails_stops_the_roll_and_an_abort_restores_the_settings(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        words = ("--restart-with", "echo no such pod; exit 3", "--yes", "--per-minute", "6000")
        for _ in range(2):
            stopped = await roll(url, *words)
            assert stopped.exit_code == FAILED
            assert "failed with status 3" in stopped.stderr
            assert "(it printed: no such pod)" in stopped.stderr
            assert "shedding and splitting are off; done with 0 of 2 brokers; the restart of" in stopped.stderr
        assert await in_force(cluster) == dict.fromkeys(PAUSED_KEYS, "false")
        aborted = await roll(url, "--abort")
        assert aborted.exit_code == OK, aborted.output
        assert "shedding and splitting are restored" in aborted.stdout
        assert await in_force(cluster) == dict.fromkeys(PAUSED_KEYS, "true")
        assert (await cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values")).json == {}
        again = await roll(url, *words)
        assert (again.exit_code, "name a new file with --journal" in again.stderr) == (FAILED, True)
        assert "no roll is under way" in (await roll(url, "--abort")).stderr


async def test_a_journal_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        await roll(url, "--restart-with", "false", "--yes", "--per-minute", "6000")
        journal = JournalFile(Path("roll.journal"), RollEntry)
        first, *_ = journal.read()
        for changes, said in (
            ({"cluster": "other"}, "belongs to the cluster other"),
            ({"batches": (("x:1",),)}, "none of the brokers in the journal is among those of this cluster"),
        ):
            other = msgspec.structs.replace(first, order=msgspec.structs.replace(first.order, **changes))
            Path("other.journal").write_bytes(msgspec.json.encode(other) + b"\n")
            for way in (("--restart-with", "true", "--yes"), ("--abort",)):
                told = await roll(url, *way, "--journal", "other.journal")
                assert (told.exit_code, said in told.stderr) == (FAILED, True)
        assert (await in_force(cluster))[SHEDDING] == "false"
        with journal.held():
            told = await roll(url, "--restart-with", "true", "--yes")
            assert (told.exit_code, "Ctrl-C or SIGTERM stops that process" in told.stderr) == (FAILED, True)
            cancelled = CliRunner().invoke(main, ["cancel", "--journal", "roll.journal"])
            assert (cancelled.exit_code, "is not a journal" in cancelled.stderr) == (FAILED, True)
            assert not list(Path().glob("*.cancel"))


async def test_a_disk_that_is_full_stops_the_roll_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_brokers(tmp_path) as (_, url):
        words = ("--restart-with", "false", "--yes", "--per-minute", "6000", "--json")
        append = JournalFile.append

        def full(self: JournalFile[Any], entry: Any) -> None:
            if "moves" in self.file.name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))
            append(self, entry)

        monkeypatch.setattr(JournalFile, "append", full)
        stopped = await roll(url, *words)
        assert stopped.exit_code == FAILED, stopped.output
        assert "stopped: roll.moves.journal: No space left on device" in stopped.stderr
        assert "shedding and splitting are off" in stopped.stderr
        assert json.loads(stopped.stdout.splitlines()[-1])["state"] == "stopped"
        monkeypatch.setattr(JournalFile, "append", append)
        assert "failed with status 1" in (await roll(url, *words)).stderr


async def test_a_second_journal_is_told_that_another_roll_may_be_under_way(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (_, url):
        words = ("--restart-with", "false", "--yes", "--per-minute", "6000")
        assert "off already" not in (await roll(url, *words)).stdout
        shown = await roll(url, "--journal", "second.journal")
        assert f"{' and '.join(PAUSED_KEYS)} are off already" in shown.stdout
        assert "off already" in (await roll(url, *words, "--journal", "second.journal")).stdout


async def test_a_rollback_goes_on_as_a_rollback_only_and_does_not_begin_again_once_it_has_ended(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        words = ("--restart-with", "false", "--yes", "--per-minute", "6000")
        await roll(url, *words)
        assert "failed with status 1" in (await roll(url, *words, "--rollback")).stderr
        forward = await roll(url, *words)
        assert (forward.exit_code, "is being rolled back; give --rollback" in forward.stderr) == (FAILED, True)
        assert "a roll is under way" in (await roll(url, "--rollback")).stdout
        assert "the rollback goes on" in (await roll(url, *words, "--rollback")).stdout
        assert (await roll(url, "--abort")).exit_code == OK
        again = await roll(url, *words, "--rollback")
        assert (again.exit_code, "is the journal of a roll that is aborted" in again.stderr) == (FAILED, True)
        assert await in_force(cluster) == dict.fromkeys(PAUSED_KEYS, "true")


async def test_ctrl_c_stops_and_says_in_which_condition_the_cluster_is(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        words = ("roll", "--url", url, "--wait-for-me", "--yes", "--per-minute", "6000")
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pulsar_barycenter", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert running.stdout is not None
        async with asyncio.timeout(60):
            while b" now: it serves no bundles" not in await running.stdout.readline():
                assert running.returncode is None
            running.send_signal(signal.SIGINT)
            _, said = await running.communicate()
        assert running.returncode == INTERRUPTED, said
        assert b"was requested, and it has not been seen in service since" in said
        assert b"shedding and splitting are off" in said
        assert b"the same command goes on" in said
        assert await in_force(cluster) == dict.fromkeys(PAUSED_KEYS, "false")


async def test_a_drained_broker_gets_no_bundles(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        drained = cluster.brokers[1].broker_id
        await cluster.expect(200, "POST", f"/admin/v2/brokers/configuration/barycenterDrainedBrokers/{drained}")
        told = await roll(url, "--json")
        (plan,) = [json.loads(line) for line in told.stdout.splitlines() if line.startswith('{"kind":"plan"')]
        moves = [move for step in plan["steps"] for move in step["moves"]] + plan["refill"]
        assert all(move["destination"] != drained for move in moves)
        assert any(step["stay"] for step in plan["steps"])


async def refused(url: str, *words: str) -> str:
    told = await roll(url, *words)
    assert told.exit_code == FAILED, told.output
    assert not Path("roll.journal").exists() or not Path("roll.journal").read_bytes()
    return told.stderr


@pytest.mark.parametrize("words", [("--abort",), ("--rollback", "--restart-with", "true", "--yes")])
async def test_a_roll_without_a_journal_cannot_be_ended(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with two_brokers(tmp_path) as (_, url):
        assert "there is no journal roll.journal" in await refused(url, *words)
    assert not Path("roll.journal").exists()


async def test_what_cannot_be_rolled_is_refused_before_anything_changes(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (cluster, url):
        hook = ("--restart-with", "true", "--yes")
        assert "there is no broker x:1" in await refused(url, *hook, "--broker", "x:1")
        assert "cannot restart at once" in await refused(url, *hook, "--batch", "2")
        assert "the journal has no roll" in await refused(url, *hook, "--rollback")
        assert "no answer" in await refused("http://127.0.0.1:9", *hook)
        assert await in_force(cluster) == dict.fromkeys(PAUSED_KEYS, "true")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--yes",), "give either --restart-with"),
        (("--yes", "--restart-with", "true", "--wait-for-me"), "give either --restart-with"),
        (("--abort", "--rollback"), "exclude each other"),
        (("--second-pool", "a:1, a:1"), "names a broker twice"),
        (("--url", "ftp://x"), "web address"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["roll", "--url", "http://127.0.0.1:9", *words])
    assert (result.exit_code, said in result.stderr) == (WRONG, True)


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "strange").write_text('{"a":1}\n')
    words: list[Any] = ["roll", "--url", "http://127.0.0.1:9", "--journal", "strange"]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "strange is not a journal" in result.stderr) == (FAILED, True)
