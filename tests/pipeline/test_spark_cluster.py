"""The same jobs on a real Spark cluster of two workers, by spark-submit: the same tables as on one machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from barycenter.pipeline import job
from barycenter.pipeline.batch.refold import refold
from barycenter.pipeline.running.status import read_status
from barycenter.pipeline.storage.layout import PipelineLayout
from barycenter.pipeline.tables.files import live_files
from support import cluster_driver
from support.java_start import INTERPRETED, java_options
from support.load_history import make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.pipeline_runs import assert_same, first_columns, history, write_reports
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = pytest.mark.pipeline

_CONF = {
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "3",
    **INTERPRETED,
    "spark.driver.extraJavaOptions": f"{java_options()} -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": f"{java_options()} -XX:+UseSerialGC",
}
_OPTIONS = [word for key, value in _CONF.items() for word in ("--conf", f"{key}={value}")]
_HISTORY = ("bundle_data", "broker_data")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path / "cluster") as running:
        yield running


def test_stream_and_batch_on_a_cluster_make_the_tables_of_one_machine(
    spark: SparkSession, layout: PipelineLayout, cluster: SparkCluster, tmp_path: Path
) -> None:
    """The job folds the log with both workers; then a driver of its own folds the whole history, and the samples."""
    reports = make_history(16, reports=40)
    write_reports(layout, reports)
    streamed = cluster.submit(*_OPTIONS, job.__file__, "--data", str(layout.data), "--once", "--max-files", "20")
    assert streamed.returncode == 0, streamed.stderr[-4000:]
    assert_tables_follow(spark, layout, PipelineOracle(reports))
    status = read_status(layout)
    assert status is not None
    assert (status.state, status.batches) == ("stopped", 2)

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
    for log in cluster.logs[1:]:
        assert log.read_text().count("Asked to launch executor") == 2, "a worker had no part in one of the two"


def _rows(file: Path) -> list[dict[str, Any]]:
    return _sorted(pq.read_table(file))


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=first_columns)
