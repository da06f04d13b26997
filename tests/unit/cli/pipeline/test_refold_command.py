"""`barycenter pipeline refold`: who folds, Spark or the command itself, and what it writes."""

from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.folds.live_windows import fold_samples, no_bundles
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES, TABLES

_ROWS = 60
_START_US = 1_790_000_000_000_000


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise OSError("Spark was asked for")

    monkeypatch.setattr("pulsar_barycenter.cli.pipeline.refold.create_session", refuse)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with samples of three bundles, and the averages that the running pipeline made of them."""
    columns: dict[str, Any] = {
        "bundle": [f"t/n/{row % 3}" for row in range(_ROWS)],
        "broker": ["a:1"] * _ROWS,
        "incarnation": ["1"] * _ROWS,
        "sequence": [1 + row // 3 for row in range(_ROWS)],
        "reported_at": pa.array([_START_US + row // 3 * 1_000_000 for row in range(_ROWS)], pa.timestamp("us", "UTC")),
    }
    columns |= {name: [row % 7 for row in range(_ROWS)] for name in BUNDLE_SAMPLES.names if name not in columns}
    samples = pa.table(columns).select(BUNDLE_SAMPLES.names).cast(BUNDLE_SAMPLES.arrow)
    tables = Tables(PipelineLayout.of(tmp_path / "data"))
    tables.write("bundle_samples", 0, samples)
    tables.write("bundle_data", 0, fold_samples(no_bundles(), samples, history_gap_ms=3_600_000)[1])
    return tmp_path / "data"


def refold(data: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "refold", "--data", str(data), *words])


def test_a_small_history_is_folded_without_spark(data: Path, tmp_path: Path) -> None:
    found = refold(data, "--out", str(tmp_path / "out"))
    assert found.exit_code == 0, found.output
    assert "3 bundles and 1 broker as of 2026-09-21 14:13:39 UTC, from 1 file in" in found.stdout
    assert found.stdout.splitlines()[0].endswith(", without Spark")
    assert "bundle_data  agrees: 3 of 3 computed rows are recorded" in found.stdout
    assert found.stdout.splitlines()[-1] == f"written      {tmp_path / 'out'}"
    for name, rows in (("bundle_data", 3), ("broker_data", 1)):
        written = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert (len(written), written.schema.types) == (rows, TABLES[name].arrow_schema.types)


@pytest.mark.parametrize("words", [["--spark"], ["--master", "local[2]"], ["--conf", "spark.x=y"], ["--from-logs"]])
def test_spark_folds_where_an_option_asks_for_it(data: Path, words: list[str]) -> None:
    found = refold(data, *words)
    assert found.exit_code == 1
    assert "Spark was asked for" in found.stderr


def test_spark_folds_a_large_history_unless_it_is_forbidden(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_barycenter.pipeline.batch.refold.SMALL_HISTORY", _ROWS)
    assert refold(data).exit_code == 0
    monkeypatch.setattr("pulsar_barycenter.pipeline.batch.refold.SMALL_HISTORY", _ROWS - 1)
    assert "Spark was asked for" in refold(data).stderr
    assert refold(data, "--no-spark").exit_code == 0


@pytest.mark.parametrize("words", [["--master", "local[2]"], ["--conf", "spark.x=y"], ["--from-logs"]])
def test_what_needs_spark_is_refused_without_it(data: Path, words: list[str]) -> None:
    found = refold(data, "--no-spark", *words)
    assert found.exit_code == 2
    assert f"--no-spark: {words[0]}" in found.stderr
    assert "needs Spark" in found.stderr


def test_a_damaged_file_is_named(data: Path) -> None:
    (file,) = data.glob("tables/bundle_samples/*/*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    found = refold(data)
    assert found.exit_code == 1
    assert str(file) in found.stderr.replace("\n", "")
