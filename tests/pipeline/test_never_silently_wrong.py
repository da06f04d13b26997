"""Histories of reports in any order, cut into runs of any size, with kills: the tables are right, or the run says not.

What is right is computed report by report by `support.pipeline_oracles`, and by DuckDB over the files of reports.
"""

import json
import os
import random
import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import msgspec
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, Kind
from pulsar_barycenter.cluster_logs.load_report_log import report_file_name
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_report
from pulsar_barycenter.pipeline.reports import decision_files
from pulsar_barycenter.pipeline.reports.quarantine import Refused
from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings
from pulsar_barycenter.pipeline.tables.files import files_of_date, live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.load_history import START_MS, make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.pipeline_runs import rows_of, write_reports

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(4)]

STEP_MS = 7_000


def run_once(spark: SparkSession, layout: PipelineLayout, *, max_files: int = 500, now_ms: int = 0) -> dict[str, int]:
    """Run the pipeline once; return why its tables fall short."""
    settings = JobSettings(once=True, stream=StreamSettings(max_files=max_files))
    job = PipelineJob(spark, layout, settings, clock_ms=lambda: now_ms)
    job.run(threading.Event())
    return job.shortcomings


def write(layout: PipelineLayout, reports: Iterable[LocalBrokerData], *, name: str = "{}") -> list[Path]:
    """Write the files of reports, under names made of those that they have."""
    files = []
    for report in reports:
        write_reports(layout, [report])
        (file,) = layout.report_log.glob(f"*/{report_file_name(report)}")
        files.append(file.rename(file.with_name(name.format(file.name))))
    return files


def date(files: Sequence[Path], *, begin_s: float = 1_800_000_000) -> None:
    """Give files times of modification in their present order."""
    for number, file in enumerate(files):
        os.utime(file, (begin_s + number,) * 2)


def decide(layout: PipelineLayout, count: int) -> dict[int, str]:
    """Log decisions every four seconds; return kind by time."""
    kinds: list[Kind] = ["unload", "split", "shed"]
    log, decided = DecisionLog("127.0.0.1:8080", layout.decisions), {}
    for number in range(count):
        at = START_MS + 4_000 * number
        log.record(at, kinds[number % 3], Reason(code=Code.ADMIN))
        decided[at] = kinds[number % 3]
    return decided


def crash_once(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let a state not be written, once: what a killed process leaves after it wrote the tables of a batch."""
    write_state, left = StateFolder.write, iter(range(after + 1))

    def crash(self: StateFolder, *args: object) -> None:
        if next(left, None) == after:
            raise OSError("no state is written")
        write_state(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(StateFolder, "write", crash)


def test_a_copied_log_is_folded_in_the_order_of_its_reports(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files dated in the order of their names, 30 a batch; half of them are there twice; one batch fails.

    A run that has nothing to read changes nothing. DuckDB counts as many reports in the files as in the table.
    """
    reports = make_history(31, reports=100, step_ms=STEP_MS)
    files = write(layout, reports)
    copies = [Path(shutil.copy(file, file.with_name(f"copy-of-{file.name}"))) for file in files[::2]]
    date(sorted([*files, *copies]), begin_s=1_700_000_000)
    decided = decide(layout, 200)
    ((count, rate),) = duckdb.sql(
        "select count(distinct (brokerId, incarnation, sequence)), sum(msgRateIn)"
        f" from read_json('{layout.report_log}/*/127*.json')"
    ).fetchall()
    crash_once(monkeypatch, after=2)
    assert run_once(spark, layout, max_files=30) == {}
    assert run_once(spark, layout, max_files=30) == {}
    assert_tables_follow(spark, layout, PipelineOracle(reports), decided)
    assert not list(layout.report_log.rglob("*.json"))
    tables = list(map(str, live_files(layout.tables, "load_reports")))
    found = duckdb.sql("select count(*), sum(msg_rate_in) from read_parquet($files)", params={"files": tables})
    assert found.fetchall() == [(count, pytest.approx(rate))]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_log_cut_into_runs_of_any_size_is_folded_as_one(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Runs that each have the next reports, in files dated at random, with a failure in one of them."""
    rng = random.Random(seed)
    reports = make_history(32 + seed, reports=90, step_ms=STEP_MS)
    decided = decide(layout, 160)
    cuts = sorted(rng.sample(range(1, 90), 2))
    crash_once(monkeypatch, after=rng.randrange(4))
    for first, last in zip([0, *cuts], [*cuts, 90], strict=True):
        files = write(layout, reports[first:last])
        rng.shuffle(files)
        date(files)
        assert run_once(spark, layout, max_files=rng.choice([10, 40])) == {}
    assert_tables_follow(spark, layout, PipelineOracle(reports), decided)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", [3, 4])
def test_what_comes_in_runs_out_of_order_is_said(spark: SparkSession, layout: PipelineLayout, seed: int) -> None:
    """Any part of the reports first, the others in a second run: each stands in the tables of reports once, and the
    run that brings what others have passed says so, with the range to fold anew, as the next process still does."""
    rng = random.Random(seed)
    reports = make_history(36 + seed, reports=60, step_ms=STEP_MS)
    later = set(rng.sample(range(60), 25))
    date(write(layout, [report for number, report in enumerate(reports) if number not in later]))
    run_once(spark, layout, max_files=20)
    date(write(layout, [reports[number] for number in later]))
    short = run_once(spark, layout, max_files=20)
    assert short.keys() & {"late_reports", "overdue_reports"}
    rows = sorted(PipelineOracle(reports).load_reports(), key=str)
    assert sorted(rows_of(read_table(spark, layout, "load_reports")), key=str) == rows
    refold = StateFolder(layout).newest_progress().refold
    assert refold is not msgspec.UNSET
    assert refold.reports == sum(short.get(name, 0) for name in ("late_reports", "overdue_reports"))
    assert reports[min(later)].last_update <= refold.since < refold.until == reports[-1].last_update
    status = json.loads(layout.status.read_bytes())
    assert status["refold"] == msgspec.to_builtins(refold)
    assert run_once(spark, layout) == {}
    assert json.loads(layout.status.read_bytes())["refold"] == status["refold"]


def test_decisions_are_read_before_the_intervals_they_belong_to_are_settled(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of many pieces beside the reports of one batch; those after the last report are in the table, too.

    A log that comes later is said to be overdue.
    """
    monkeypatch.setattr(decision_files, "READ_BYTES", 2_000)
    reports = make_history(41, reports=60, step_ms=STEP_MS)
    write(layout, reports)
    decided = decide(layout, 200)
    assert run_once(spark, layout) == {}
    assert_tables_follow(spark, layout, PipelineOracle(reports), decided)
    assert read_table(spark, layout, "decisions").count() == len(decided)
    other = DecisionLog("127.0.0.1:8081", layout.decisions)
    other.record(START_MS + 65_000, "unload", Reason(code=Code.ADMIN))
    assert run_once(spark, layout) == {"overdue_decisions": 1}
    refold = StateFolder(layout).newest_progress().refold
    assert refold is not msgspec.UNSET
    assert (refold.since, refold.reports, refold.decisions) == (START_MS + 65_000, 0, 1)


def test_reports_that_no_table_can_hold_are_named_and_others_count_once(
    spark: SparkSession, layout: PipelineLayout
) -> None:
    """Rates and usages beyond numbers, an empty file, a bundle twice in a report, and files three days older than the
    newest."""
    reports = make_history(42, reports=30, step_ms=STEP_MS)
    files = write(layout, reports)
    date(files[:10], begin_s=1_800_000_000 - 3 * 86_400)
    date(files[10:])
    victim = next(report for report in reports if report.last_stats)
    bundle = next(iter(victim.last_stats))
    content = encode_report(victim)
    (file,) = layout.report_log.glob(f"*/{report_file_name(victim)}")
    entry = json.dumps({bundle: {"msgRateIn": 12345.0, "topics": 3}})[1:-1].encode()
    file.write_bytes(content.replace(b'"lastStats":{', b'"lastStats":{' + entry + b",", 1))
    os.utime(file, (1_800_000_000,) * 2)
    spoiled = {
        "rate": content.replace(b'"msgRateIn":', b'"msgRateIn":1e999,"before":', 1),
        "rate-of-a-bundle": content.replace(b'"lastStats":{"', b'"lastStats":{"x/y/z":{"msgRateOut":-1e999},"', 1),
        "usage": content.replace(b'"usage":', b'"usage":1e39,"before":', 1),
        "empty": b"",
        "nan": content.replace(b'"usage":', b'"usage":NaN,"before":', 1),
    }
    for name, line in spoiled.items():
        made = file.with_name(f"{name}.json")
        made.write_bytes(line)
        os.utime(made, (1_800_000_000,) * 2)
    assert run_once(spark, layout) == {"corrupt_reports": len(spoiled)}
    assert_tables_follow(spark, layout, PipelineOracle(reports))
    (listed,) = layout.quarantine.glob("*.jsonl")
    refused = {each.file: each.reason for each in msgspec.json.Decoder(Refused).decode_lines(listed.read_bytes())}
    assert {name.removesuffix(".json"): reason[:20] for name, reason in refused.items()} == {
        "rate": "Number out of range ",
        "rate-of-a-bundle": "Number out of range ",
        "usage": "usage, limit and per",
        "empty": "the file is empty",
        "nan": "JSON is malformed: i",
    }


def test_a_run_leaves_few_files_and_no_old_ones(spark: SparkSession, layout: PipelineLayout) -> None:
    """Of a date that is over one file a table, without the small ones it stands for; the archive is cleaned by age."""
    reports = make_history(43, reports=40, step_ms=STEP_MS)
    date(write(layout, reports), begin_s=1_700_000_000)
    archived = layout.archive / "load-reports" / "2023-11-11"
    archived.mkdir(parents=True)
    os.utime(archived, (START_MS / 1000 - 3 * 86_400,) * 2)
    now_ms = START_MS + 86_400_000
    assert run_once(spark, layout, max_files=5, now_ms=now_ms) == {}
    assert not archived.exists()
    settings = CompactionSettings()
    for name in TABLES:
        folders = sorted((layout.tables / name).glob("date=*"))
        for folder in folders:
            files = files_of_date(layout, folder.relative_to(layout.data).as_posix())
            assert len(files) <= (settings.run if folder == folders[-1] else 1)
            assert [file.path for file in files] == [
                path.relative_to(layout.data).as_posix()
                for path in live_files(layout.tables, name, dates=[folder.name.removeprefix("date=")])
            ]
    assert_tables_follow(spark, layout, PipelineOracle(reports))
