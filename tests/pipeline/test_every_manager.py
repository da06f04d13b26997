"""Reports and decisions of brokers of every load manager in the same tables, told apart by a column."""

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.pipeline.history import UNKNOWN, History
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import live_files
from support.manager_logs import BROKERS, record_every_manager
from support.pipeline_runs import assert_same, history, rows_of, run_available

pytestmark = pytest.mark.pipeline


def test_brokers_of_every_manager_fill_the_same_tables(spark: SparkSession, layout: PipelineLayout) -> None:
    """Rows of decisions from before their manager was written count as unknown, to Spark and to the questions."""
    record_every_manager(layout.data)
    (batch,) = run_available(spark, layout)
    assert (batch.corrupt_files, batch.corrupt_decisions) == ((), 0)
    reports = rows_of(read_table(spark, layout, "load_reports"))
    assert {(row["broker"], row["load_manager"]) for row in reports} == {
        (broker, kind.class_name) for kind, broker in BROKERS.items()
    }
    for name in ("bundle_samples", "broker_usage", "ownership"):
        rows = rows_of(read_table(spark, layout, name))
        assert {row["broker"] for row in rows} == set(BROKERS.values()), name
    assert {row["cpu_percent"] for row in rows_of(read_table(spark, layout, "broker_usage"))} >= {40}
    decisions = rows_of(read_table(spark, layout, "decisions"))
    assert {(row["by"], row["manager"]) for row in decisions} == {(broker, kind) for kind, broker in BROKERS.items()}
    assert_same(decisions, rows_of(history(spark, layout).decisions))
    asked = History(layout)
    for kind, broker in BROKERS.items():
        assert {row["by"] for row in asked.decisions(100, manager=kind).to_pylist()} == {broker}
    assert len(asked.decisions(100, manager=UNKNOWN)) == 0

    for file in live_files(layout.tables, "decisions"):
        pq.write_table(pq.ParquetFile(file).read().drop_columns(["manager"]), file)
    before = rows_of(read_table(spark, layout, "decisions"))
    assert_same(before, [row | {"manager": None} for row in decisions])
    assert len(asked.decisions(100, manager=UNKNOWN)) == len(decisions)
    assert len(asked.decisions(100, manager=ManagerKind.SIMPLE)) == 0
