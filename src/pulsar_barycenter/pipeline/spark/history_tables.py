"""All tables of a history as DataFrames."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from pulsar_barycenter.pipeline.tables.schemas import TABLES

if TYPE_CHECKING:  # programs that read without Spark do not need PySpark
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class HistoryTables:
    """The tables as DataFrames, one attribute per table. Iteration yields pairs of name and DataFrame."""

    load_reports: "DataFrame"
    broker_usage: "DataFrame"
    bundle_samples: "DataFrame"
    bundle_data: "DataFrame"
    broker_data: "DataFrame"
    ownership: "DataFrame"
    decisions: "DataFrame"
    balance: "DataFrame"

    def __iter__(self) -> Iterator[tuple[str, "DataFrame"]]:
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def create_views(self) -> None:
        """Create a temporary view for each table, with the name of the table, so that queries with `spark.sql` can use
        it.
        """
        for name, rows in self:
            rows.createOrReplaceTempView(name)


assert [field.name for field in fields(HistoryTables)] == list(TABLES)
