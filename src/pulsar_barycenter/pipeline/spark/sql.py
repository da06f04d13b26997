"""Spark SQL over the tables of a data directory."""

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
    """Return at most `limit` rows of the answer; every table is a view of its name, read once as of now.

    Starts a Spark session and ends it, as `create_session` takes `compilers` and `on_phase`. `progress` is given what
    `session.tasks_of` returns; the context it returns lasts while Spark works on the answer.

    Raises:
        QueryError: in Spark's words; the query is wrong or fails, Spark cannot reach `data`, or there is no Java to
            start Spark with. Of a damaged file of a table it has the words of DamagedTableError.
    """
    with tempfile.TemporaryDirectory(prefix="barycenter-sql-") as scratch:
        try:
            # Spark makes the folder of its own tables at once, in the current folder unless told another.
            settings = {"spark.driver.memory": "2g", "spark.sql.warehouse.dir": scratch, **(conf or {})}
            session = create_session("barycenter history", master, settings, compilers=compilers, on_phase=on_phase)
            # What is wrong with a query comes back as an error; neither Spark nor PySpark needs to log it beside.
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
