"""Reads whole decision logs with Spark. `reports.decision_files` reads only lines that were added."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by
from pyspark.sql import types as T  # noqa: N812

from pulsar_barycenter.pipeline.parsing.conditions import all_of
from pulsar_barycenter.pipeline.parsing.report_lines import CORRUPT, JSON_OPTIONS
from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import DECISIONS as DECISION_LOGS
from pulsar_barycenter.pipeline.tables.schemas import DECISIONS, LAST_TIME_MS

_TEXTS: Final = ("sentence", "bundle", "source", "destination", "refused", "strategy")
"""Columns that are empty if a line does not have the field."""
_NULLABLE_TEXTS: Final = ("manager", "principal", "request")
"""Columns that are null if a line does not have the field, or if it is empty."""

DECISION_LINE: Final = T.StructType(
    [
        *(T.StructField(name, T.LongType()) for name in ("at", "number")),
        *(T.StructField(name, T.StringType()) for name in ("by", "kind", "reason", *_NULLABLE_TEXTS, *_TEXTS, CORRUPT)),
    ]
)
"""The row that Spark's JSON reader makes of a line of a decision log; `reason` is JSON text."""


def read_decision_logs(session: SparkSession, storage: Storage) -> DataFrame:
    """Return the decisions in all decision logs. Output: the columns DECISIONS, one row per (by, number, at), that is,
    per decision.
    """
    if not any(".jsonl" in entry.name for entry in storage.entries(DECISION_LOGS)):
        return session.createDataFrame([], struct_type(DECISIONS))
    options = JSON_OPTIONS | {"pathGlobFilter": "*.jsonl*"}
    lines = session.read.schema(DECISION_LINE).options(**options).json(storage.address(DECISION_LOGS))
    decisions = lines.where(_is_decision()).select(
        F.timestamp_millis(F.col("at")).alias("at"),
        *("by", "number", "kind", "reason"),
        F.get_json_object("reason", "$.code").alias("code"),
        *(F.nullif(F.col(name), F.lit("")).alias(name) for name in _NULLABLE_TEXTS),
        *(F.coalesce(name, F.lit("")).alias(name) for name in _TEXTS),
    )
    once = decisions.where(F.col("code").isNotNull()).dropDuplicates(["by", "number", "at"])
    return once.select(*DECISIONS.names)


def _is_decision() -> Column:
    """Return a column that says whether a line of a decision log is a decision. Its field `reason` is not checked.
    Input: the columns DECISION_LINE.
    """
    return all_of(
        F.col(CORRUPT).isNull(),
        F.col("at").between(0, LAST_TIME_MS),
        *(F.col(name).isNotNull() for name in ("by", "number", "kind")),
    )
