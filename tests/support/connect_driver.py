"""A program on Spark Connect that counts the rows of the public tables, and runs the example of docs/tables.md.

python connect_driver.py SERVER DATA OUT
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from pulsar_barycenter.history import tables
from pulsar_barycenter.pipeline.spark.listed_storage import ListedStorage
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.read_only import ReadOnlyStorage
from pulsar_barycenter.pipeline.tables.schemas import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def example() -> str:
    """The block of Python in the page that takes a session."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if "(spark, " in block)
    return str(found)


def run_example(spark: SparkSession, folder: str) -> Any:
    """Run the block with a session and a folder of ours; return what it computes."""
    known: dict[str, Any] = {"spark": spark}
    exec(example().replace("/var/lib/barycenter", folder), known)
    return known["busiest"]


def main(server: str, data: str, out: Path) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    by_path = {name: rows.count() for name, rows in tables(spark, data)}
    listed = ReadOnlyStorage(ListedStorage(spark, f"file://{data}"), "this program only reads")
    by_listing = {name: read_table(spark, listed, name).count() for name in TABLES}
    counts = {"by path": by_path, "by listing": by_listing, "example": len(run_example(spark, data).collect())}
    (out / "counts.json").write_bytes(msgspec.json.encode(counts))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
