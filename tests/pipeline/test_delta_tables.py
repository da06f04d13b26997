"""The job writes Delta tables that other engines and Spark read right, also when it was cut off after each commit."""

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.tables.formats import open_log
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import TableFormat
from support.data_of_before import MISSING, copied
from support.table_engines import with_duckdb, with_pandas, with_polars

pytestmark = pytest.mark.pipeline


def test_the_job_goes_on_as_delta_and_all_engines_read_equal_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A stored folder of plain Parquet is adopted; one more batch comes, and files are compacted at the end."""
    layout = copied(tmp_path / "cluster")
    shutil.copy(MISSING, layout.report_log / "2023-11-15")
    log = open_log(layout, TableFormat.DELTA, clock_ms=lambda: 0)
    PipelineJob(spark, layout, JobSettings(once=True), clock_ms=lambda: 0, table_log=log).run(threading.Event())
    for name, table in TABLES.items():
        delta = DeltaTable(str(layout.tables / name))
        listed = spark.read.parquet(*delta.file_uris()).select(*table.key).collect()
        assert listed
        assert sorted(map(tuple, listed)) == sorted(
            map(tuple, spark.read.parquet(str(layout.tables / name)).select(*table.key).collect())
        )
        # Spark shows times without their zone; balance has no other key
        columns = [key for key in table.key if not pa.types.is_timestamp(table.arrow_schema.field(key).type)]
        if not columns:
            continue
        polars = with_polars(layout.tables, name, columns, TableFormat.DELTA)
        assert polars == sorted((tuple(row[column] for column in columns) for row in listed), key=repr)
        assert polars == with_duckdb(layout.tables, name, columns, TableFormat.DELTA)
        assert polars == with_pandas(layout.tables, name, columns, TableFormat.DELTA)
        if name not in ("ownership", "decisions"):
            assert read_table(spark, layout, name).count() == len(listed)
    assert DeltaTable(str(layout.tables / "bundle_samples")).transaction_version("barycenter") == 3
