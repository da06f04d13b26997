"""`barycenter pipeline refold --from-logs`: all tables anew, beside those that a running pipeline recorded."""

from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.batch.from_logs import refold_logs
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.data_of_before import copied

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(2)]

WAITS = Path("2023-11-15") / "127.0.0.1_8080-0000-7.json"
"""The report of the stored data folder that is in no table yet."""


@pytest.fixture(autouse=True)
def session_of_the_tests(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command works with the session of the tests, and does not end it."""
    monkeypatch.setattr("pulsar_barycenter.cli.pipeline.refold.create_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


def asked(layout: PipelineLayout, *more: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "refold", "--from-logs", "--check", "--data", str(layout.data), *more])


def test_all_tables_are_computed_from_the_logs_and_agree_with_those_recorded(tmp_path: Path) -> None:
    """Each has rows, and what is written has the columns of the table."""
    layout, out = copied(tmp_path / "cluster"), tmp_path / "out"
    (layout.report_log / WAITS).unlink()
    done = asked(layout, "--out", str(out))
    assert done.exit_code == 0, done.output
    for name, table in TABLES.items():
        written = pq.read_table(out / f"{name}.parquet")
        assert f"{name:<12} agrees: {len(written)} of {len(written)} computed rows" in done.output
        assert len(written) > 0
        assert written.schema.names == table.schema.names
        assert written.schema.types == table.arrow_schema.types


def test_what_the_logs_tell_of_and_the_tables_do_not_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that waits for the one before it; the first table is enough to end with 1."""
    monkeypatch.setattr(
        "pulsar_barycenter.cli.pipeline.refold.refold_logs", lambda *a, **b: islice(refold_logs(*a, **b), 1)
    )
    done = asked(copied(tmp_path / "cluster"))
    assert done.exit_code == 1
    assert done.stdout.splitlines() == ["load_reports DIFFERS: 17 of 18 computed rows are recorded, all values equal"]


def test_without_reports_there_is_nothing_to_compute_from(tmp_path: Path) -> None:
    layout = PipelineLayout.of(tmp_path)
    layout.create()
    done = asked(layout)
    assert done.exit_code == 1
    assert f"no reports in {layout.report_log}" in done.output
