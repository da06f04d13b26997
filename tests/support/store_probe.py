"""Ask a place where data may lie what it does with files: a process with a Spark session of its own.

Of its own, for the classes of a file system have to be there when Java starts. Arguments: an address and the conf as
JSON. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from barycenter.pipeline.session import create_session

WRITERS = 8
_ONLY_IF_ABSENT = {"s3a": "fs.option.create.conditional.overwrite"}  # else S3A looks first and writes later


def probe(session: SparkSession, address: str) -> dict[str, Any]:
    """What comes of writing under `address`, an empty folder."""
    return {"rows": _rewritten(session, f"{address}/rows"), "winners": _winners(session, f"{address}/once")} | (
        _renamed(session, address)
    )


def _rewritten(session: SparkSession, folder: str) -> list[int]:
    """The rows of a table that was written over another one."""
    session.range(10).write.parquet(folder)
    session.range(20, 25).repartition(2).write.mode("overwrite").parquet(folder)
    return sorted(row.id for row in session.read.parquet(folder).collect())


def _winners(session: SparkSession, file: str) -> list[bool]:
    """Who could make one file, of several writers at once; whether what is there is what the winner wrote."""
    path, files = _path(session, file)

    def make(writer: int) -> int | None:
        builder = files.createFile(path).overwrite(False)
        if option := _ONLY_IF_ABSENT.get(file.partition(":")[0]):
            builder = builder.must(option, True)
        try:
            stream = builder.build()
            stream.write(bytes([writer]))
            stream.close()
        except Py4JJavaError:
            return None
        return writer

    with ThreadPoolExecutor(WRITERS) as writers:
        won = [writer for writer in writers.map(make, range(WRITERS)) if writer is not None]
    stream = files.open(path)
    found = list(bytes(stream.readAllBytes()))
    stream.close()
    return [writer in found for writer in won]


def _renamed(session: SparkSession, address: str) -> dict[str, Any]:
    """Whether a file can be renamed, and onto another one."""
    (one, files), (other, _), (third, _) = (_path(session, f"{address}/{name}") for name in ("a", "b", "c"))
    for path in (one, third):
        files.create(path).close()
    moved = bool(files.rename(one, other)) and not files.exists(one)
    try:
        replaced = bool(files.rename(third, other))
    except Py4JJavaError:
        replaced = False
    return {"moved": moved, "replaced": replaced}


def _path(session: SparkSession, address: str) -> tuple[Any, Any]:
    path = session._jvm.org.apache.hadoop.fs.Path(address)  # type: ignore[union-attr]
    return path, path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())


if __name__ == "__main__":
    spark = create_session("probe", conf=json.loads(sys.argv[2]))
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps(probe(spark, sys.argv[1])))
    spark.stop()
