"""The pipeline where all of its data lies in HDFS or in an object store: real servers, and Hadoop's clients of them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_report
from pulsar_barycenter.pipeline.spark.session import INTERPRETED
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from support.daemon import daemon
from support.load_history import START_MS, make_history
from support.maven import PeerUnavailableError
from support.pipeline_runs import assert_tables_equal_history, wait_until, write_reports
from support.publications import decoded
from support.replayed_world import recorded
from support.store_session import StoreSession, store_session
from support.stores import STORES, Store, StoreFiles

pytestmark = [
    pytest.mark.peer,
    pytest.mark.pipeline,
    pytest.mark.xdist_group("stores"),
    pytest.mark.timeout(1800),
    pytest.mark.drawn_tests(2),
]

_DEADLINE_S = 240.0
_STEP_MS = 2000
_BATCH = re.compile(r'"event":\s*"pipeline_batch"')
_CASES_A_KILL = 10_000
_ALL_SERVE = 38
"""The seed of a history whose brokers all name bundles in the end: of others `refold` knows nothing."""


_SHORT_FORM = {
    "test_a_killed_pipeline_goes_on_there_and_loses_and_doubles_nothing": ("s3",),
    "test_tables_there_are_compacted_and_asked_and_old_ones_deleted": ("hdfs",),
}
"""The stores of the tests that take minutes, where few cases are asked for; all others have all stores."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_full = metafunc.config.getoption("--peer-cases") >= _CASES_A_KILL
    names = sorted(STORES) if is_full else _SHORT_FORM.get(metafunc.function.__name__, sorted(STORES))
    metafunc.parametrize("store", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with ExitStack() as running:
        try:
            started = running.enter_context(STORES[request.param](tmp_path_factory.mktemp(request.param)))
        except PeerUnavailableError as error:
            if request.config.getoption("--peer-required"):
                raise
            pytest.skip(str(error))
        yield started


@pytest.fixture
def files(store: Store, spark: SparkSession) -> StoreFiles:
    """By a session that need not reach the store."""
    return store.files(spark)


@pytest.fixture(scope="module")
def there(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSession]:
    """A session that reaches the store."""
    log = tmp_path_factory.mktemp("session") / "log"
    with store_session({**INTERPRETED, **store.conf}, environment(), log) as session:
        yield session


@pytest.fixture
def here(tmp_path: Path) -> PipelineLayout:
    """A data directory of this machine, with the same logs."""
    made = PipelineLayout.of(tmp_path / "here")
    made.create()
    return made


def environment() -> dict[str, str]:
    """That of a process with a Spark of its own."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}


def send(files: StoreFiles, data: str, reports: list[LocalBrokerData]) -> None:
    """Let reports appear in the log there, oldest first."""
    for report in reports:
        files.put(f"{log_folder(data, report)}/{report_name(report)}", encode_report(report))


def log_folder(data: str, report: LocalBrokerData) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime(report.last_update / 1000))
    return f"{data}/load-reports/{date}"


def report_name(report: LocalBrokerData) -> str:
    return f"{str(report.broker_id).replace(':', '_')}-{report.incarnation}-{report.sequence}.json"


def send_decisions(files: StoreFiles, data: str, here: PipelineLayout) -> None:
    """Log some decisions, here and there."""
    log = DecisionLog("127.0.0.1:8080", here.decisions)
    for number in range(6):
        log.record(START_MS + 9_000 * number, "unload", Reason(code=Code.ADMIN), bundle="a/b/c")
    for file in here.decisions.iterdir():
        files.put(f"{data}/decisions/{file.name}", file.read_bytes())


def fetch_tables(files: StoreFiles, data: str, here: PipelineLayout) -> list[str]:
    """Bring the tables of `data` here in place of those that are; return the paths of their files."""
    found = files.find(f"{data}/tables")
    for file in here.tables.rglob("*.parquet"):
        file.unlink()
    for path in found:
        target = here.root / Path(path).relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files.get(path))
    return found


def run_command(store: Store, data: str, *options: str) -> list[str]:
    words = ["run", "--data", f"{store.address}/{data}", "--trigger-seconds", "0.2", *options, *store.options]
    return [sys.executable, "-m", "pulsar_barycenter", "pipeline", *words]


def run_once(store: Store, data: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        run_command(store, data, "--once", *options),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )


def is_published(files: StoreFiles, data: str, report: LocalBrokerData) -> bool:
    published = decoded(files.get(f"{data}/pipeline/publication/latest.json")).last_sequence
    return published.get(str(report.broker_id)) == (report.incarnation, report.sequence)


def unfinished_batch(files: StoreFiles, data: str) -> bool:
    """A batch has written its first table and not yet its state."""
    tables = (re.search(r"/batch-(\d{12})\.parquet$", path) for path in files.find(f"{data}/tables/load_reports"))
    begun = {int(name[1]) for name in tables if name}
    ended = {
        int(Path(path).parent.name) for path in files.find(f"{data}/pipeline/state") if path.endswith("memory.json")
    }
    return bool(begun - ended)


@pytest.mark.drawn(1)
def test_files_appear_whole_and_are_written_over(store: Store, there: StoreSession) -> None:
    """What the pipeline builds on, also when eight write one file at once, or a writer breaks off."""
    told = there.ask("files", f"{store.address}/files")
    assert told.pop("replaced while it is read") in ("the first", "the second")
    (winner,), length = told.pop("race")
    assert (winner in "ABCDEFGH", length) == (True, 10_000)
    assert told == {
        "over": "and over",
        "part": "ov",
        "behind the end": "",
        "entries": [["b", True], ["file", False]],
        "size": 8,
        "no folder": [],
        "path": "a/b/file",
        "local": "and over",
        "broken off": False,
        "missing": True,
        "deleted": True,
    }


@pytest.mark.full_form
def test_a_killed_pipeline_goes_on_there_and_loses_and_doubles_nothing(
    spark: SparkSession,
    store: Store,
    files: StoreFiles,
    here: PipelineLayout,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    """SIGKILL between two writes of a batch; a second pipeline is refused before, and takes over afterwards.

    In the end the eight tables are those of one batch over the same logs in a local folder. The full form kills more.
    """
    kills = max(1, pytestconfig.getoption("--peer-cases") // _CASES_A_KILL)
    data = "killed"
    reports = make_history(31, reports=48 + 24 * kills, step_ms=_STEP_MS)
    write_reports(here, reports)
    send_decisions(files, data, here)
    send(files, data, reports[:24])
    torn = encode_report(reports[24])[:-40]
    files.put(f"{log_folder(data, reports[24])}/torn.json", torn)
    for kill in range(kills):
        with daemon(run_command(store, data), tmp_path / f"{kill}.log", environment()) as running:
            running.wait_for(_BATCH)
            if kill == 0:
                refused = run_once(store, data)
                assert refused.returncode == 1
                assert f"process {running.process.pid} of " in refused.stdout
                assert f"the pipeline of {store.address}/{data} is running in process" in refused.stdout
            batch = reports[24 * (kill + 1) : 24 * (kill + 2)]
            send(files, data, batch)
            wait_until(lambda: unfinished_batch(files, data), running.process, within_s=_DEADLINE_S)
            running.process.send_signal(signal.SIGKILL)
            running.process.wait(_DEADLINE_S)
        assert not is_published(files, data, batch[-1])
    send(files, data, reports[24 * (kills + 1) :])
    last = run_once(store, data)
    assert last.returncode == 0, last.stdout[-4000:] + last.stderr[-4000:]
    assert is_published(files, data, reports[-1])
    fetch_tables(files, data, here)
    expected = assert_tables_equal_history(spark, here)
    assert expected.balance.count() > 0
    assert expected.decisions.count() == 6
    assert files.get(f"{data}/quarantine/torn.json") == torn


def test_tables_there_are_compacted_and_asked_and_old_ones_deleted(
    spark: SparkSession,
    store: Store,
    files: StoreFiles,
    there: StoreSession,
    here: PipelineLayout,
    request: pytest.FixtureRequest,
) -> None:
    """Files of two batches each are merged; then every question is answered by the tables that are left."""
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes two minutes: with --peer-required")
    data, address = "kept", f"{store.address}/kept"
    reports = make_history(_ALL_SERVE, reports=40, step_ms=_STEP_MS)
    write_reports(here, reports)
    send_decisions(files, data, here)
    batches, size = 4, 10
    for batch in range(batches):
        send(files, data, reports[size * batch : size * (batch + 1)])
        assert there.ask("fold", address) == batch + 1
    newest = time.strftime("%Y-%m-%d", time.gmtime(reports[-1].last_update / 1000))
    for _ in range(2):  # the first round merges, the second deletes what was merged
        there.ask("house", address, newest, None, 2)
    merged = [path for path in fetch_tables(files, data, here) if re.search(r"batch-\d{12}-\d{12}", path)]
    assert merged
    assert len(files.find(f"{data}/tables/load_reports")) < batches
    assert_tables_equal_history(spark, here)

    code, told = there.ask("command", "pipeline", "status", "--data", address, "--json")
    status = json.loads(told)
    assert (code, status["state"], status["alive"], status["reports"]) == (0, "stopped", False, size)
    code, told = there.ask("command", "pipeline", "refold", "--data", address, "--check")
    assert (code, "bundle_data  agrees: " in told, "broker_data  agrees: " in told) == (0, True, True), told
    code, told = there.ask("command", "history", "top", "--data", address, "--format", "json", "--limit", "1000")
    assert code == 0, told
    named = {json.loads(line)["bundle"] for line in told.splitlines()}
    samples = pq.read_table(here.tables / "bundle_samples", columns=["bundle"])
    assert named == set(samples.column("bundle").to_pylist())

    dates = {Path(path).parent.name for path in files.find(f"{data}/tables")}
    assert len(dates) == 2
    assert there.ask("house", address, newest, 0, 2)["deleted_dates"] > 0
    assert {Path(path).parent.name for path in files.find(f"{data}/tables")} == {f"date={newest}"}


def test_a_data_folder_there_is_replayed_as_the_same_one_here(
    store: Store, files: StoreFiles, there: StoreSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By the driver's Java, with a grid on processes and with one on Spark."""
    if not request.config.getoption("--peer-required"):
        pytest.skip("four Sparks start for it: with --peer-required")
    data = recorded(tmp_path / "data")
    for file in data.rglob("*.parquet"):
        files.put(f"replayed/{file.relative_to(data)}", file.read_bytes())
    words = ("--strategy", "AvgShedder", "--strategy", "extensible", "--out")
    ways = {
        "here": (str(data), "--processes", "1"),
        "there": (f"{store.address}/replayed", "--processes", "2"),
        "there on Spark": (f"{store.address}/replayed", "--master", "local[2]"),
    }
    for name, way in ways.items():
        code, told = there.ask("command", "replay", "--input", *way, *words, str(tmp_path / name))
        assert code == 0, told
    results = {name: (tmp_path / name / "results.json").read_bytes() for name in ways}
    assert results["there"] == results["there on Spark"] == results["here"]
    code, told = there.ask("command", "replay", "--input", f"{store.address}/none", *words, str(tmp_path / "none"))
    assert (code, "there is no history yet" in told.replace("\n", " ")) == (1, True), told
