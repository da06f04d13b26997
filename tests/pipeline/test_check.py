"""`barycenter pipeline check`: the tables held against the logs, both ways, in a range of time."""

import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import live_files
from support.data_of_before import copied, logged

pytestmark = pytest.mark.pipeline

WAITS = Path("2023-11-15") / "127.0.0.1_8080-0000-7.json"
"""The report of the stored data folder that is in no table yet."""


@pytest.fixture(autouse=True)
def session_of_the_tests(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command works with the session of the tests, and does not end it."""
    monkeypatch.setattr("pulsar_barycenter.cli.pipeline.check.create_session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return copied(tmp_path / "cluster")


def asked(layout: PipelineLayout, *more: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "check", "--data", str(layout.data), *more])


@pytest.mark.full_form
def test_what_is_not_recorded_is_told_and_a_range_without_it_agrees(layout: PipelineLayout) -> None:
    """A report waits for the one before it: its row is missing. Before its time all tables agree."""
    done = asked(layout)
    assert done.exit_code == 3
    assert "load_reports   DIFFERS: 18 rows computed, 17 recorded, 17 in both" in done.output
    two_minutes_before = logged(layout)[-1].last_update // 1000 - 120  # its intervals were settled without it
    done = asked(layout, "--until", f"{_iso(two_minutes_before)}")
    assert done.exit_code == 0, done.output
    assert done.output.count(" agrees: ") == 6
    assert "bundle_data" not in done.output


@pytest.mark.drawn(1, of="all tables by several ways")
def test_all_tables_of_whole_logs_agree_and_a_row_too_many_is_told(layout: PipelineLayout) -> None:
    """A row that no report makes, as if one had been counted twice, is no less a difference than one that lacks."""
    (layout.report_log / WAITS).unlink()
    done = asked(layout)
    assert done.exit_code == 0, done.output
    assert done.output.count(" agrees: ") == 8
    file = live_files(layout.tables, "balance")[-1]
    rows = pq.read_table(file, partitioning=None)
    twice = rows.slice(0, 1).set_column(2, rows.schema.field(2), [[9]])
    pq.write_table(twice, file.with_name("batch-000000000009.parquet"))
    done = asked(layout)
    assert done.exit_code == 3
    assert [line.split()[0] for line in done.output.splitlines() if "DIFFERS" in line] == ["balance"]


@pytest.mark.full_form
def test_logs_that_begin_later_than_the_tables_are_not_held_against_them_before(layout: PipelineLayout) -> None:
    """The check begins an hour after their first report; here nothing is left to compare, and that is said."""
    first, *_ = logged(layout)
    for file in layout.data.rglob(f"*-{first.sequence}.json"):
        file.unlink()
    done = asked(layout)
    assert done.exit_code == 0, done.output
    assert "the logs begin later than the tables" in done.output
    assert "load_reports   agrees: 0 rows computed, 0 recorded" in done.output


def test_a_range_that_ends_before_it_begins_is_refused(layout: PipelineLayout) -> None:
    done = asked(layout, "--since", "1h", "--until", "2h")
    assert done.exit_code == 2


def _iso(at_s: int) -> str:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).isoformat()
