"""Runs the two jobs of a batch in Spark. The other modules of this package do not use Spark."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.reports.acceptance import TakenKey
from pulsar_barycenter.pipeline.sharded.tasks import PART, REPORT, ShardPlan, fold_shard, keep_part

_NAMES = T.ArrayType(T.StructType([T.StructField("bundle", T.StringType())]))
_OVERTAKEN = "broker string, incarnation string, sequence long"


class Jobs(Protocol):
    """Runs the tasks of one batch, whose bundles are divided into shards."""

    def keep(self, rows: DataFrame, folder: Path, shards: int) -> pa.Table:
        """Divide `rows` (reports) into parts and call `tasks.keep_part` for each part, which writes its samples to
        files in `folder`. Return the combined rows of the results, which have only the names of the bundles.
        """
        ...

    def fold(self, plan: ShardPlan, shards: int) -> list[TakenKey]:
        """Call `tasks.fold_shard` for each shard. Return all reports that the calls return, sorted."""
        ...


class SparkJobs:
    """Runs the tasks of a batch with Spark. `keep` runs one task for each partition of the rows, `fold` one for each
    shard.

    If Spark runs a task a second time, it writes the same files with the same content again.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def keep(self, rows: DataFrame, folder: Path, shards: int) -> pa.Table:
        fields = [T.StructField(field.name, _NAMES) if field.name == "samples" else field for field in rows.schema]
        schema = T.StructType([*fields, T.StructField(PART, T.LongType()), T.StructField(REPORT, T.LongType())])
        return rows.mapInArrow(partial(_keep, folder, shards), schema).toArrow()

    def fold(self, plan: ShardPlan, shards: int) -> list[TakenKey]:
        rows = self._session.range(0, shards, 1, shards).mapInArrow(partial(_fold, plan), _OVERTAKEN).collect()
        return sorted((row["broker"], row["incarnation"], row["sequence"]) for row in rows)


def _keep(folder: Path, shards: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pa.set_cpu_count(1)  # Spark has given this worker one core
    found, context = list(batches), TaskContext.get()
    if found and context is not None:
        yield from keep_part(folder, shards, context.partitionId(), pa.Table.from_batches(found)).to_batches()


def _fold(plan: ShardPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pa.set_cpu_count(1)
    for batch in batches:
        for shard in batch.column(0).to_pylist():
            keys: list[Any] = list(zip(*fold_shard(plan, shard), strict=True)) or [(), (), ()]
            types = (pa.string(), pa.string(), pa.int64())
            arrays = [pa.array(column, kind) for column, kind in zip(keys, types, strict=True)]
            yield pa.record_batch(arrays, ["broker", "incarnation", "sequence"])
