"""The tables of a data folder as DataFrames, as programs and notebooks get them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.history import open_history, tables
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.connect_driver import run_example
from support.data_of_before import copied

pytestmark = pytest.mark.pipeline


def test_each_table_has_the_rows_of_its_files_once_beside_a_compacted_file(spark: SparkSession, tmp_path: Path) -> None:
    """A compacted file lies beside its sources; views and the docs' example see the same rows."""
    layout = copied(tmp_path / "cluster")
    files = live_files(layout.tables, "broker_usage")
    rows = pa.concat_tables(pq.ParquetFile(file).read() for file in files)
    for folder in {file.parent for file in files}:
        sources = pa.concat_tables(pq.ParquetFile(file).read() for file in files if file.parent == folder)
        pq.write_table(sources, folder / "batch-000000000000-999999999999.parquet")
    assert len(list((layout.tables / "broker_usage").rglob("*.parquet"))) > len(files) > 0

    recorded = tables(spark, layout.data)
    assert [name for name, _ in recorded] == list(TABLES)
    assert all(frame.columns == TABLES[name].schema.names for name, frame in recorded)
    assert recorded.broker_usage.count() == len(rows)
    recorded.create_views()
    assert spark.sql("select count(*) from broker_usage").collect()[0][0] == len(rows)
    example = {row[0]: row[1] for row in run_example(spark, str(layout.data)).collect()}
    greatest = rows.group_by("broker").aggregate([("weighted_usage", "max")]).to_pylist()
    assert example == {row["broker"]: row["weighted_usage_max"] for row in greatest}


def test_a_folder_without_tables_gives_empty_ones(spark: SparkSession, tmp_path: Path) -> None:
    PipelineLayout.of(tmp_path).create()
    assert {name: frame.isEmpty() for name, frame in tables(spark, tmp_path)} == dict.fromkeys(TABLES, True)


def test_a_history_gives_its_tables_to_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows as Arrow, also where Spark reads the address."""
    layout = copied(tmp_path / "cluster")
    history = open_history(layout.data)
    rows = {name: frame.count() for name, frame in history.spark(spark)}
    assert rows == {name: history.table(name).num_rows for name in TABLES}
    of_spark = open_history(layout.data, spark=spark)
    assert of_spark.moves().equals(history.moves())
