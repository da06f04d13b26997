"""The same jobs on a real Spark cluster of two workers: the same tables, the same replays, as on one machine."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.lab.results import RESULTS
from pulsar_barycenter.lab.running import RUNS, SHARED
from pulsar_barycenter.pipeline import job
from pulsar_barycenter.pipeline.batch.refold import refold
from pulsar_barycenter.pipeline.running.status import read_status
from pulsar_barycenter.pipeline.spark.session import INTERPRETED
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import live_files
from support import cluster_driver
from support.java_start import java_options
from support.load_history import make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.pipeline_runs import (
    assert_same,
    first_columns,
    history,
    run_available,
    wait_until,
    what_is_left,
    write_reports,
)
from support.replayed_world import recorded
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(1)]

_CONF = {
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "3",
    **INTERPRETED,
    "spark.driver.extraJavaOptions": f"{java_options()} -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": f"{java_options()} -XX:+UseSerialGC",
}
_OPTIONS = [word for key, value in _CONF.items() for word in ("--conf", f"{key}={value}")]
PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
_HISTORY = ("bundle_data", "broker_data")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("a cluster")) as running:
        yield running


def executors_of(cluster: SparkCluster) -> list[int]:
    """How many executors each worker was asked for."""
    return [log.read_text().count("Asked to launch executor") for log in cluster.logs[1:]]


def brought_to(cluster: SparkCluster) -> int:
    """How many files of an input lie in the folders of the workers."""
    return sum(1 for log in cluster.logs[1:] for _ in (log.parent / log.stem).rglob(SHARED))


def test_a_stream_on_a_cluster_makes_the_tables_of_one_machine(
    spark: SparkSession, layout: PipelineLayout, cluster: SparkCluster
) -> None:
    """The job folds the log with both workers."""
    reports, before = make_history(16, reports=40), executors_of(cluster)
    write_reports(layout, reports)
    client = ("--deploy-mode", "client", *_OPTIONS)
    streamed = cluster.submit(*client, job.__file__, "--data", str(layout.data), "--once", "--max-files", "20")
    assert streamed.returncode == 0, streamed.stderr[-4000:]
    assert_tables_follow(spark, layout, PipelineOracle(reports))
    status = read_status(layout)
    assert status is not None
    assert (status.state, status.batches) == ("stopped", 2)
    assert executors_of(cluster) == [count + 1 for count in before], "a worker had no part in it"


def test_a_batch_on_a_cluster_makes_the_tables_of_one_machine(
    spark: SparkSession, layout: PipelineLayout, cluster: SparkCluster, tmp_path: Path
) -> None:
    """A driver of its own folds the whole history, and the samples."""
    before = executors_of(cluster)
    write_reports(layout, make_history(16, reports=40))
    run_available(spark, layout)
    out = tmp_path / "out"
    batch = cluster.submit(*_OPTIONS, cluster_driver.__file__, str(layout.data), str(out), *_HISTORY)
    assert batch.returncode == 0, batch.stderr[-4000:]
    expected = history(spark, layout)
    for name in _HISTORY:
        assert_same(_rows(out / f"{name}.parquet"), _sorted(getattr(expected, name).toArrow()))
    local = refold(spark, [str(file) for file in live_files(layout.tables, "bundle_samples")])
    assert local.late == 0  # the files are in the order of time
    assert_same(_rows(out / "refolded_bundles.parquet"), _sorted(local.bundles))
    assert_same(_rows(out / "refolded_brokers.parquet"), _sorted(local.brokers))
    assert executors_of(cluster) == [count + 1 for count in before], "a worker had no part in it"


@pytest.mark.full_form
def test_windows_folded_by_shard_on_a_cluster_are_those_of_its_driver(cluster: SparkCluster, tmp_path: Path) -> None:
    """Two jobs over the same log; each worker has a shard, and both see the data folder."""
    layouts = [PipelineLayout.of(tmp_path / name) for name in ("driver", "sharded")]
    reports, before = make_history(17, reports=40), executors_of(cluster)
    for layout in layouts:
        layout.create()
        write_reports(layout, reports)
        options = ["--data", str(layout.data), "--once", "--max-files", "16", "--fold", layout.data.name]
        ran = cluster.submit(*_OPTIONS, job.__file__, *options, timeout_s=300)
        assert ran.returncode == 0, ran.stderr[-4000:]
    expected, found = (what_is_left(layout, "publication") for layout in layouts)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    assert sorted(file.name for file in layouts[1].data.glob("pipeline/shards/*/block-*")) == [
        *["block-0.arrow"] * 2,
        *["block-1.arrow"] * 2,
    ]
    assert executors_of(cluster) == [count + 2 for count in before], "a worker had no part in one of the two"


def test_cluster_mode_is_refused_as_the_page_says(layout: PipelineLayout, cluster: SparkCluster) -> None:
    """Spark runs no driver of a Python program within a standalone cluster; nothing is started, nothing written."""
    before = executors_of(cluster)
    done = cluster.submit("--deploy-mode", "cluster", *_OPTIONS, job.__file__, "--data", str(layout.data), "--once")
    assert done.returncode != 0
    (said,) = re.findall(r"^> (Cluster deploy mode .*)$", PAGE.read_text(), flags=re.MULTILINE)
    assert said in done.stderr + done.stdout
    assert executors_of(cluster) == before
    assert read_status(layout) is None


@pytest.mark.full_form
def test_a_grid_of_replays_on_a_cluster_has_the_bytes_of_one_machine(cluster: SparkCluster, tmp_path: Path) -> None:
    """What the driver read of the input is a file in the folder of each worker, which stays there until the end."""
    before, there_before = executors_of(cluster), brought_to(cluster)
    program = [sys.executable, "-m", "pulsar_barycenter", "replay", "--input", str(recorded(tmp_path / "data"))]
    program += ["--strategy", "AvgShedder", "--strategy", "extensible", "--seeds", "1-3", "--parts", "2"]
    here, there = tmp_path / "here", tmp_path / "on the cluster"
    alone = subprocess.run(
        [*program, "--processes", "1", "--out", str(here)], capture_output=True, text=True, timeout=120, check=False
    )
    assert alone.returncode == 0, alone.stderr
    ran = subprocess.run(
        [*program, "--master", cluster.master, *_OPTIONS, "--out", str(there)],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert executors_of(cluster) == [count + 1 for count in before]
    runs = {file.name: file.read_bytes() for file in (here / RUNS).iterdir()}
    assert len(runs) == 12
    assert {file.name: file.read_bytes() for file in (there / RUNS).iterdir()} == runs
    assert (there / RESULTS).read_bytes() == (here / RESULTS).read_bytes()
    assert brought_to(cluster) == there_before + 2


@pytest.mark.full_form
def test_a_grid_goes_on_when_an_executor_dies(cluster: SparkCluster, tmp_path: Path) -> None:
    """SIGKILL to one of the two once a run is done: its task is tried again, where the input's file is brought anew."""
    program = [sys.executable, "-m", "pulsar_barycenter", "replay", "--input", str(recorded(tmp_path / "data"))]
    program += ["--strategy", "AvgShedder", "--strategy", "ThresholdShedder", "--seeds", "1-40"]
    here, there = tmp_path / "here", tmp_path / "there"
    command = [*program, "--master", cluster.master, *_OPTIONS, "--out", str(there)]
    with (tmp_path / "log").open("wb") as log:
        grid = subprocess.Popen(command, env=cluster.environment, stdout=log, stderr=log)
    wait_until(lambda: any(there.glob(f"{RUNS}/[!.]*")), grid, within_s=240)
    executors = [each for each in psutil.Process().children(recursive=True) if _is_executor(each)]
    assert len(executors) == 2
    executors[0].kill()
    assert grid.wait(240) == 0, (tmp_path / "log").read_text()
    subprocess.run([*program, "--processes", "2", "--out", str(here)], capture_output=True, timeout=240, check=True)
    assert (there / RESULTS).read_bytes() == (here / RESULTS).read_bytes()


def _is_executor(process: psutil.Process) -> bool:
    return process.name() == "java" and any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())


def _rows(file: Path) -> list[dict[str, Any]]:
    return _sorted(pq.read_table(file))


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=first_columns)
