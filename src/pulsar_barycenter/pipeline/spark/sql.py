"""Runs Spark SQL queries over the tables of a data directory."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException

from pulsar_barycenter.pipeline.local_sql import QueryError, tables_in
from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
from pulsar_barycenter.pipeline.spark.java_options import Compilers
from pulsar_barycenter.pipeline.spark.session import create_session, log_nothing, tasks_of
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.tables.reading import raise_damage
from pulsar_barycenter.pipeline.tables.schemas import TABLES

_WHERE_IT_HAPPENED: Final = ("\n\nJVM stacktrace", "\nJVM stacktrace", ";\n'")


def run_sql(
    data: str,
    query: str,
    *,
    master: str = "local[*]",
    limit: int = 10_000,
    conf: Mapping[str, str] | None = None,
    compilers: Compilers = Compilers.BOTH,
    on_phase: Callable[[str], None] = lambda phase: None,
    progress: Callable[[Callable[[], tuple[int, int]]], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> pa.Table:
    """Run a query on the tables with Spark; return at most `limit` rows of the result. The query sees the tables as
    they are at the call.

    This starts a Spark session and stops it afterwards; `master`, `conf`, `compilers` and `on_phase` are as in
    `create_session`. `progress` is called with a function that returns the numbers of finished and of all tasks. It
    returns a context manager, which is open while Spark computes the result.

    Raises:
        QueryError: the query is wrong or fails, Spark cannot reach `data`, or there is no Java to start Spark with. The
            message is Spark's; for a damaged file of a table it is that of DamagedTableError.
    """
    with tempfile.TemporaryDirectory(prefix="barycenter-sql-") as scratch:
        try:
            # Spark creates the folder of its own tables at the start, in the current folder unless this is set.
            settings = {"spark.driver.memory": "2g", "spark.sql.warehouse.dir": scratch, **(conf or {})}
            session = create_session("barycenter history", master, settings, compilers=compilers, on_phase=on_phase)
            # The caller gets errors of a query as exceptions, so Spark and PySpark need not log them as well.
            log_nothing(session)
            try:
                with progress(tasks_of(session)):
                    storage = open_storage(data, session)
                    try:
                        for name in TABLES:
                            read_table(session, storage, name).createOrReplaceTempView(name)
                        return session.sql(query).limit(limit).toArrow()
                    except PySparkException as error:
                        if not isinstance(error, AnalysisException | ParseException):
                            raise_damage(storage, tables_in(query), error)
                        raise
            finally:
                session.stop()
        except (PySparkException, JavaNotFoundError, OSError) as error:
            raise QueryError(_in_words(str(error))) from error


def _in_words(text: str) -> str:
    for mark in _WHERE_IT_HAPPENED:
        text = text.partition(mark)[0]
    return text.strip()
