"""The output and the exit codes of `barycenter doctor`."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.doctor.catalogue import CHECKS
from pulsar_barycenter.metadata.open import open_store
from support.rest_cluster import RestCluster

BOUNDARIES = ["0x00000000", "0x80000000"]
LOCK = "/namespace/t/n/0x00000000_0x80000000"


@pytest.fixture
async def stopped(tmp_path: Path) -> str:
    """The URL of a store with a gap in the boundaries and a lock without an owner."""
    url = f"sqlite:{tmp_path}/metadata.sqlite"
    store = await open_store(url)
    await store.put("/admin/local-policies/t/n", msgspec.json.encode({"bundles": {"boundaries": BOUNDARIES}}))
    await store.put(LOCK, msgspec.json.encode({"brokerId": "gone:8080"}))
    await store.close()
    return url


def run(*words: str, color: bool = False) -> Result:
    return CliRunner().invoke(main, ["doctor", *words], color=color)


def test_findings_have_severity_subject_and_mend_in_eighty_columns(stopped: str) -> None:
    result = run("--store", stopped)
    assert result.exit_code == 1
    assert re.search(r"^critical tiling  t/n$", result.output, re.MULTILINE)
    assert re.search(r"^error    owner-gone  t/n/0x00000000_0x80000000$", result.output, re.MULTILINE)
    assert re.search(r"^    → \S", result.output, re.MULTILINE)
    assert "not checked: silent-broker, registration, " in result.output
    assert result.output.endswith("0 brokers, 1 namespace, 0 bundles: 1 critical, 1 error\n")
    assert [line for line in result.output.splitlines() if len(line) > 80 and " " in line.strip()] == []
    assert "\x1b" not in result.output
    assert "\x1b[" in run("--store", stopped, color=True).output


async def test_what_a_key_says_does_not_steer_the_terminal(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/metadata.sqlite"
    store = await open_store(url)
    await store.put("/admin/configuration", msgspec.json.encode({"\x1b[2Jkey": "\x1b]0;title\x07"}))
    await store.close()
    result = await asyncio.to_thread(run, "--store", url, color=True)
    assert "�[2Jkey" in result.output
    assert [each for each in ("\x07", "\x1b[2J", "\x1b]") if each in result.output] == []


def test_json_is_a_line_each(stopped: str) -> None:
    lines = [msgspec.json.decode(line) for line in run("--store", stopped, "--json").output.splitlines()]
    found = [line for line in lines if line["kind"] == "finding"]
    assert [(line["check"], line["severity"], line["subject"]) for line in found] == [
        ("tiling", "critical", "t/n"),
        ("owner-gone", "error", "t/n/0x00000000_0x80000000"),
    ]
    assert {line["kind"] for line in lines} == {"finding", "notLookedAt"}
    assert all(line["what"] and line["why"] for line in lines if line["kind"] == "notLookedAt")


def test_it_ends_by_the_worst_finding_of_the_checks_that_are_made(stopped: str) -> None:
    assert run("--store", stopped, "--check", "owner-gone", "--fail-at", "critical").exit_code == 0
    assert run("--store", stopped, "--check", "owner-gone", "--fail-at", "error").exit_code == 1
    assert run("--store", stopped, "--check", "few-bundles").exit_code == 0


def test_where_nothing_can_be_looked_at_it_ends_with_two(tmp_path: Path, stopped: str) -> None:
    result = run("--store", f"sqlite:{tmp_path}/none")
    assert (result.exit_code, "does not exist; check the path in the URL" in result.output) == (2, True)
    assert run("--url", "http://127.0.0.1:9").exit_code == 2
    assert run("--url", "ftp://x").exit_code == 2


def test_brokers_that_are_down_beside_a_store_are_told_and_the_store_is_looked_at(stopped: str) -> None:
    result = run("--url", "http://127.0.0.1:9", "--store", stopped, "--check", "tiling")
    assert result.exit_code == 1
    assert "not checked: the brokers:" in result.output


@pytest.mark.parametrize("words", [("--url", "127.0.0.1:9"), ()])
def test_the_variable_names_the_brokers_beside_a_store_too(
    stopped: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store alone is looked at where nothing names brokers."""
    if not words:
        monkeypatch.setenv("BARYCENTER_URL", "http://127.0.0.1:9")
    result = run(*words, "--store", stopped, "--check", "tiling")
    assert "not checked: the brokers:" in result.output
    assert "http://127.0.0.1:9" in result.output
    monkeypatch.delenv("BARYCENTER_URL", raising=False)
    assert "give --url to query them" in " ".join(run("--store", stopped, "--check", "tiling").output.split())


def test_the_catalogue_is_listed_and_a_misspelt_check_is_answered_with_the_nearest() -> None:
    listed = run("--list").output
    assert all(re.search(rf"^{check.name} ", listed, re.MULTILINE) for check in CHECKS)
    assert max(map(len, listed.splitlines())) <= 80
    lines = [msgspec.json.decode(line) for line in run("--list", "--json").output.splitlines()]
    assert [line["check"] for line in lines] == [check.name for check in CHECKS]
    result = run("--check", "tilling")
    assert (result.exit_code, "did you mean tiling?" in result.output) == (2, True)


def test_a_data_folder_in_place_of_its_ledgers_is_wrong_usage(stopped: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "ledgers").mkdir(parents=True)
    result = run("--store", stopped, "--ledgers", str(data), "--check", "ledgers-folder")
    told = " ".join(result.output.split())
    assert (result.exit_code, f"not a folder of ledgers: give {data / 'ledgers'}" in told) == (2, True), told
    assert [each.name for each in data.iterdir()] == ["ledgers"], "nothing is tried in it"
    fine = run("--store", stopped, "--ledgers", str(data / "ledgers"), "--check", "ledgers-folder")
    assert fine.exit_code == 0, fine.output


@pytest.mark.parametrize(
    ("given", "told"),
    [((), "--ledgers and --config"), (("--ledgers",), "--config"), (("--ledgers", "--config"), "")],
)
def test_the_last_line_names_only_options_that_were_not_given(
    stopped: str, tmp_path: Path, given: tuple[str, ...], told: str
) -> None:
    (tmp_path / "ledgers").mkdir()
    (tmp_path / "broker.conf").write_text("")
    places = {"--ledgers": str(tmp_path / "ledgers"), "--config": str(tmp_path / "broker.conf")}
    words = [word for option in given for word in (option, places[option])]
    result = run("--store", stopped, *words, "--check", "few-bundles")
    sentence = " ".join(result.output.split()).rpartition("--verbose shows what ")[2]
    assert result.exit_code == 0, result.output
    assert sentence == f"{told} would check" if told else "--verbose" not in result.output, result.output


async def test_a_healthy_cluster_reads_healthy_in_one_line_and_verbose_says_what_options_add() -> None:
    """New, with bundles that no client has used yet, and without a pipeline."""
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(load_manager_factory("ModularLoadManagerImpl"), broker_shutdown_timeout_ms=0)
        await cluster.create_namespace(bundles=16)
        url = str(cluster.brokers[0].urls.web_url)
        short, whole, status = [
            await asyncio.to_thread(CliRunner(env={"COLUMNS": "200"}).invoke, main, [*words, "--url", url])
            for words in (("doctor",), ("doctor", "--verbose"), ("status",))
        ]
    finally:
        await cluster.close()
    assert (short.exit_code, len(short.stdout.splitlines())) == (0, 1), short.stdout
    assert re.match(r"2 brokers, \d+ namespaces, \d+ bundles: healthy;", short.stdout)
    assert short.stdout.endswith("; --verbose shows what --store, --ledgers and --config would check\n")
    assert whole.stdout.count("not checked:") == 4, "one for each option, and one for all checks that need them"
    assert "broker.conf: give --config" in whole.stdout
    told = " ".join(whole.stdout.split())
    assert "not read: the locks or records of owners, the metadata store, broker.conf and the ledger folder" in told
    assert status.stdout.splitlines()[-1] == "healthy: doctor found no problems"
