"""Questions and batch jobs on a server of Spark Connect, where no Java process and no SparkContext is in reach."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support import connect_driver
from support.connect_server import connect_server
from support.data_of_before import copied

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(3)]

WAITS = Path("2023-11-15") / "127.0.0.1_8080-0000-7.json"
"""The report of the stored data folder that is in no table yet."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("a server")) as address:
        yield address


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> PipelineLayout:
    """Logs, and the tables that the stream made of all of them."""
    layout = copied(tmp_path_factory.mktemp("data") / "cluster")
    (layout.report_log / WAITS).unlink()
    return layout


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program without a Java to start."""
    without_java = os.environ | {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    return subprocess.run(
        [sys.executable, *words], env=without_java, capture_output=True, text=True, timeout=280, check=False
    )


def test_the_public_tables_are_those_of_the_files(server: str, recorded: PipelineLayout, tmp_path: Path) -> None:
    """By a path, and by the listing of a server for an address that only Spark reaches; the docs' example, too."""
    done = ran(connect_driver.__file__, server, str(recorded.data), str(tmp_path))
    assert done.returncode == 0, done.stderr[:4000]
    counts = msgspec.json.decode((tmp_path / "counts.json").read_bytes())
    for name in ("load_reports", "broker_usage", "bundle_samples", "bundle_data", "broker_data", "balance"):
        rows = sum(pq.ParquetFile(file).metadata.num_rows for file in live_files(recorded.tables, name))
        assert rows > 0
        assert counts["by path"][name] == rows
    assert counts["by path"].keys() == TABLES.keys()
    assert counts["by listing"] == counts["by path"]
    assert counts["example"] > 0


@pytest.mark.full_form
def test_every_table_computed_from_the_logs_agrees_with_the_recorded_one(server: str, recorded: PipelineLayout) -> None:
    words = ["pipeline", "refold", "--from-logs", "--check", "--master", server, "--data", str(recorded.data)]
    done = ran("-m", "pulsar_barycenter", *words)
    assert done.returncode == 0, done.stdout + done.stderr[:4000]
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [[name, "agrees:"] for name in TABLES]


def test_averages_refolded_from_samples_agree_with_the_recorded_ones(server: str, recorded: PipelineLayout) -> None:
    words = ["pipeline", "refold", "--check", "--master", server, "--data", str(recorded.data)]
    done = ran("-m", "pulsar_barycenter", *words)
    assert done.returncode == 0, done.stdout + done.stderr[:4000]


def test_sql_is_answered_and_a_mistake_is_a_sentence(server: str, recorded: PipelineLayout) -> None:
    sql = ["-m", "pulsar_barycenter", "history", "sql", "--master", server, "--data", str(recorded.data)]
    done = ran(*sql, "--format", "csv", "select count(*) as n from load_reports")
    assert done.returncode == 0, done.stderr[:4000]
    rows = sum(pq.ParquetFile(file).metadata.num_rows for file in live_files(recorded.tables, "load_reports"))
    assert done.stdout.split() == ["n", str(rows)]
    wrong = ran(*sql, "select nothing from load_reports")
    assert wrong.returncode == 1
    assert "nothing" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert "\tat " not in wrong.stderr


def test_the_running_pipeline_refuses_a_server() -> None:
    done = ran("-m", "pulsar_barycenter", "pipeline", "run", "--master", "sc://127.0.0.1:1", "--data", "/nowhere")
    assert done.returncode == 2
    assert "is not a Spark master; local[2], spark://host:7077, k8s://… and yarn are" in done.stderr
