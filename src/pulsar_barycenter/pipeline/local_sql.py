"""Runs SQL queries over the tables of a local data directory, in DuckDB: results in about a second, without Java.

The query sees the same eight tables as `spark.sql`: the same columns, each row once, empty tables without rows, and
null for columns that older files lack. It can read only the files of these tables, and change nothing.
"""

import difflib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER
from pulsar_barycenter.pipeline.tables.reading import raise_damage
from pulsar_barycenter.pipeline.tables.schemas import TABLES, Columns
from pulsar_barycenter.pipeline.tables.time_travel import FilePart, all_parts, check_batch, parts_as_of

MEMORY_MIB: Final = 1024
"""The memory that DuckDB may use for a query. Beyond it, DuckDB writes to a temporary folder."""
DISK_MIB: Final = 20 * 1024
"""The space that DuckDB may use in the temporary folder. A query that needs more fails with QueryError."""

_ROWS_AT_ONCE: Final = 2048
_SUGGESTIONS: Final = 3
_TYPES: Final = {
    "string": "varchar",
    "int": "integer",
    "bigint": "bigint",
    "double": "double",
    "timestamp": "timestamptz",
}
_NO_TABLE: Final = re.compile(r"Table with name \"?([^\s\"]+?)\"? does not exist")
_NO_COLUMN: Final = re.compile(r"(?:Referenced column|column named) \"([^\"]+)\"")
_KEYWORD_COLUMN: Final = re.compile(r"(?<!\.)\bat\b|(?<![.\w])(?<!group )(?<!order )by\b", re.IGNORECASE)
"""`at` and `by`: columns of the table of decisions that are keywords for DuckDB."""
_OF_THE_QUERY: Final = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
"""Errors in the query that DuckDB finds before it reads a row."""
_KIND: Final = re.compile(r"^[A-Z]\w+ Error: ")
_WHERE_IN_THE_QUERY: Final = re.compile(r"\s*\n\s*LINE \d+:")


class QueryError(Exception):
    """The query cannot be answered; the text is a sentence with the reason."""


def run_local_sql(
    storage: LocalStorage, query: str, *, limit: int = 10_000, as_of_batch: int | None = None
) -> pa.Table:
    """Run a query on the tables of a data directory; return at most `limit` rows of the result.

    The query sees the tables as they are at the call. With `as_of_batch`, it sees them as they were after the batch
    with this id. Only the tables that the query names are opened. If it names none (for example `show tables`), all
    tables are opened. The query takes at most `MEMORY_MIB` of memory in addition to the result. Nulls are ordered as in
    Spark SQL; times are UTC.

    Raises:
        QueryError: the query is wrong, fails, needs more disk than `DISK_MIB`, or does not only read.
        DamagedTableError: a file of a table that the query names cannot be read.
        TimeTravelError: the tables as of that batch are not available.
    """
    if as_of_batch is not None:
        check_batch(storage, as_of_batch)
    named = tables_in(query) or list(TABLES)
    with tempfile.TemporaryDirectory(prefix="barycenter-sql-") as scratch, _connection(Path(scratch)) as connection:
        try:
            statements = connection.extract_statements(query)
            if len(statements) != 1:
                raise QueryError(f"the query has {len(statements)} statements: give exactly one")
            if statements[0].type != duckdb.StatementType.SELECT:  # `explain analyze` could write
                raise QueryError("the query must be a select, describe or show: the tables are read only")
            for name in named:  # a damaged file of a table that the query does not name has no effect
                parts = all_parts(storage, name) if as_of_batch is None else parts_as_of(storage, name, as_of_batch)
                _create_view(connection, storage, name, parts)
                if _lacks_columns(connection, name, [storage.address(part.path) for part in parts]):
                    raise_damage(storage, [name], QueryError(f"a file of {name} lacks columns"))
            _shut_in(connection, storage)
            return _plain(_first_rows(connection.sql(query), limit))
        except duckdb.OutOfMemoryException as error:
            raise QueryError(
                f"the query needs more than {MEMORY_MIB / 1024:g} GiB of memory at once, or {DISK_MIB / 1024:g} GiB of "
                "disk. Select less, or use `--engine spark`, which divides the work"
            ) from error
        except duckdb.Error as error:
            if not isinstance(error, _OF_THE_QUERY):
                raise_damage(storage, named, error)
            raise QueryError(in_a_sentence(str(error), query)) from error


@contextmanager
def _connection(scratch: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{MEMORY_MIB}MiB",
        "temp_directory": str(scratch),
        "max_temp_directory_size": f"{DISK_MIB}MiB",
        "python_enable_replacements": False,  # a name in a query means a table, never a variable of this program
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "default_null_order": "nulls_first_on_asc_last_on_desc",
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        connection.execute("set timezone = 'UTC'")
        yield connection


def _shut_in(connection: duckdb.DuckDBPyConnection, storage: LocalStorage) -> None:
    """Allow all later statements on `connection` only to read the files of the tables. The statements cannot remove
    this restriction.
    """
    connection.execute("set allowed_directories = $1", [[storage.address(TABLES_FOLDER)]])
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _create_view(
    connection: duckdb.DuckDBPyConnection, storage: LocalStorage, name: str, parts: Sequence[FilePart]
) -> None:
    """Create the view `name` on the rows of a table. Each of `parts` is a whole file or the first rows of a file.
    Columns have the table's types. Of rows with equal keys, the view has only one where the table may have repeats.
    """
    table = TABLES[name]
    none = ", ".join(f'null::{_TYPES[column.kind]} as "{column.name}"' for column in table.schema)
    rows = f"(select {none} where false)"
    whole = [storage.address(part.path) for part in parts if part.rows is None]
    if whole:
        rows += f" union all by name (from {_read(connection, name, whole)})"
    for number, part in enumerate(parts):
        if part.rows is not None:
            read = _read(connection, f"{name}_{number}", [storage.address(part.path)], "file_row_number = true")
            first = f"from {read} where file_row_number < {part.rows:d}"
            rows += f" union all by name (select * exclude (file_row_number) {first})"
    columns = ", ".join(f'"{column.name}"' for column in table.schema)
    connection.execute(f'create view "{name}" as {_once(name, columns, rows)}')


def _read(connection: duckdb.DuckDBPyConnection, variable: str, files: Sequence[str], *options: str) -> str:
    """Return the SQL expression that reads the rows of `files`. The paths are stored in the variable `variable` of the
    connection, because a view takes no parameters. `options` are further arguments of `read_parquet`.
    """
    connection.execute(f'set variable "{variable}" = $1', [list(files)])
    arguments = ", ".join((f"getvariable('{variable}')", *_OPTIONS, *options))
    return f"read_parquet({arguments})"


_OPTIONS: Final = ("union_by_name = true", "hive_partitioning = false")
_LACKING: Final = """
    select 1 from parquet_schema($files) group by file_name
    having count(distinct name) filter (list_contains($needed, name)) < len($needed) limit 1
"""


def _lacks_columns(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[str]) -> bool:
    """Return whether any of `files` lacks a column of the key of the table `name`. DuckDB would read nulls for it
    instead of raising an error.
    """
    if not files:
        return False
    return connection.execute(_LACKING, {"files": list(files), "needed": list(TABLES[name].key)}).fetchone() is not None


def _once(name: str, columns: str, rows: str) -> str:
    keys = ", ".join(f'"{key}"' for key in TABLES[name].key)
    if name == "ownership":  # the row with an end is valid, and "split" is greater than "moved"
        ends = "max(owned_to) as owned_to, max(ended) as ended"
        return f"select {keys}, {ends} from ({rows}) group by {keys}"  # noqa: S608 - our own names
    once = f"distinct on ({keys}) " if name == "decisions" else ""
    return f"select {once}{columns} from ({rows})"  # noqa: S608 - likewise


def _first_rows(answer: duckdb.DuckDBPyRelation, limit: int) -> pa.Table:
    """Return the first `limit` rows of the result of a query. The result is read as a stream, so that rows after the
    first `limit` ones take no memory.
    """
    reader = answer.limit(limit).to_arrow_reader(_ROWS_AT_ONCE)
    taken: list[pa.RecordBatch] = []
    left = limit
    while left > 0 and (batch := next(reader, None)) is not None:
        taken.append(batch.slice(0, left))
        left -= len(taken[-1])
    return pa.Table.from_batches(taken, schema=reader.schema)


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows with 64-bit integers where DuckDB returns 128-bit ones (sums of integers), as Spark does. A
    column with a value that does not fit into 64 bits stays as it is.
    """
    for place, field in enumerate(rows.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                rows = rows.set_column(place, field.name, pc.cast(rows.column(place), pa.int64()))
            except pa.ArrowInvalid:
                continue
    return rows


def in_a_sentence(said: str, query: str) -> str:
    """Return a sentence for the user about DuckDB's error message `said`. If it is about an unknown table or column,
    the sentence names similar names.

    `query` is the query that failed; similar columns are searched for in the tables that it names.
    """
    if missing := _NO_TABLE.search(said):
        return f"there is no table {missing[1]}; {_meant(missing[1], TABLES)}"
    if missing := _NO_COLUMN.search(said):
        tables = [TABLES[name].schema for name in tables_in(query)]
        return f"there is no column {missing[1]}; {_meant(missing[1], _names(tables))}"
    text = re.sub(r"\s*\n\s*", " ", _WHERE_IN_THE_QUERY.split(said)[0].strip())
    text = _KIND.sub("", text)
    if text.startswith("syntax error") and _KEYWORD_COLUMN.search(query):
        text += "; the columns at and by need the name of the table before them, as in decisions.at"
    return text


def tables_in(query: str) -> list[str]:
    """Return the names of those tables that appear as words in the query."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    return [name for name in TABLES if name in words]


def _names(tables: Iterable[Columns]) -> Sequence[str]:
    return list(dict.fromkeys(name for columns in tables for name in columns.names))


def _meant(name: str, names: Iterable[str]) -> str:
    known = list(names)
    nearest = difflib.get_close_matches(name.lower(), known, n=_SUGGESTIONS, cutoff=0.5)
    return f"nearest: {', '.join(nearest)}" if nearest else f"there are {', '.join(known)}"
