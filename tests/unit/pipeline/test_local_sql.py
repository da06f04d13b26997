"""SQL over local tables: what a view shows, the error for a mistake, and what a query cannot do."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.history.command import command
from pulsar_barycenter.pipeline.local_sql import QueryError, run_local_sql
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def rows_of(name: str, *rows: dict[str, object]) -> pa.Table:
    schema = TABLES[name].arrow_schema
    blank = {
        field.name: None
        if field.nullable
        else AT
        if pa.types.is_timestamp(field.type)
        else ""
        if pa.types.is_string(field.type)
        else 0
        for field in schema
    }
    return pa.Table.from_pylist([{**blank, **row} for row in rows], schema=schema)


@pytest.fixture
def data(tmp_path: Path) -> PipelineLayout:
    layout = PipelineLayout.of(tmp_path / "it's data")
    tables = Tables(layout)
    usages = [{"broker": broker, "sequence": 1, "cpu_percent": cpu} for broker, cpu in (("a", 30.0), ("b", 80.0))]
    tables.write("broker_usage", 0, rows_of("broker_usage", *usages))
    tables.write("decisions", 0, rows_of("decisions", {"number": 1}, {"number": 2}))
    tables.write("decisions", 1, rows_of("decisions", {"number": 2}))
    return layout


def asked(data: PipelineLayout, query: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = run_local_sql(data, query).to_pylist()
    return found


def test_each_table_is_a_view_with_its_columns_also_when_it_has_no_rows(data: PipelineLayout) -> None:
    for name, table in TABLES.items():
        rows = run_local_sql(data, f"select * from {name}")
        assert rows.column_names == table.schema.names, name
        assert [field.type for field in rows.schema] == [field.type for field in table.arrow_schema], name


def test_a_decision_told_twice_is_one_row(data: PipelineLayout) -> None:
    assert asked(data, "select sum(number) as numbers, count(*) as rows from decisions") == [{"numbers": 3, "rows": 2}]


def test_of_an_interval_the_row_with_its_end_counts(data: PipelineLayout) -> None:
    for batch, end in ((0, {}), (1, {"owned_to": AT, "ended": "moved"})):
        Tables(data).write("ownership", batch, rows_of("ownership", {"bundle": "x", **end}))
    assert asked(data, "select bundle, ended from ownership") == [{"bundle": "x", "ended": "moved"}]


def test_a_compacted_file_stands_for_its_sources(data: PipelineLayout) -> None:
    """While both lie there its rows are not counted twice."""
    files = live_files(data.tables, "decisions")
    pq.write_table(
        pa.concat_tables(pq.ParquetFile(file).read() for file in files),
        files[0].with_name("batch-000000000000-000000000001.parquet"),
    )
    files[0].write_bytes(b"is not read any more")
    assert asked(data, "select count(*) as rows from decisions") == [{"rows": 2}]


def test_a_column_that_older_files_lack_is_null(data: PipelineLayout) -> None:
    (file,) = live_files(data.tables, "broker_usage")
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["weighted_usage"]), file)
    assert asked(data, "select distinct weighted_usage from broker_usage") == [{"weighted_usage": None}]
    Tables(data).write("broker_usage", 1, rows_of("broker_usage", {"broker": "c", "weighted_usage": 0.5}))
    assert asked(data, "select max(weighted_usage) as most from broker_usage") == [{"most": 0.5}]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select * from broker_usages", "there is no table broker_usages; nearest: broker_usage, broker_data"),
        ("select * from zebras", f"there is no table zebras; there are {', '.join(TABLES)}"),
        ("select cpu_percentage from broker_usage", "there is no column cpu_percentage; nearest: cpu_percent"),
        ("select u.cpu_percentage from broker_usage u", "there is no column cpu_percentage; nearest: cpu_percent"),
        ("selec 1", 'syntax error at or near "selec"'),
        (
            "select max(at) from decisions",
            'syntax error at or near ")"; the columns at and by need the name of the table',
        ),
        ("select 1; select 2", "the query has 2 statements: give exactly one"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_nearest_names(data: PipelineLayout, query: str, told: str) -> None:
    found = CliRunner().invoke(command, ["sql", query, "--data", str(data.root)])
    assert found.exit_code == 1
    assert found.stderr.startswith(f"barycenter: {told}")
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to '{root}/tables/x.csv'",
        "explain analyze copy (select 1) to '{file}' (format parquet)",
        "select * from query('copy (select 1) to ''{root}/tables/x.csv''')",
        "insert into decisions values (1)",
        "drop view decisions",
        "attach '{root}/tables/x.db'",
        "set enable_external_access = true",
        "select * from read_csv('{root}/secret.csv')",
        "select * from '{root}/tables/../secret.csv'",
        "select * from read_text('/etc/hostname')",
        "select * from TABLES",
    ],
)
def test_a_query_reads_the_tables_and_nothing_else_and_writes_nothing(
    data: PipelineLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (data.root / "secret.csv").write_text("a,b\n1,2\n")
    (file,) = live_files(data.tables, "broker_usage")
    root = str(data.root).replace("'", "''")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(QueryError):
        run_local_sql(data, query.format(root=root, file=str(file).replace("'", "''")))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert os.listdir(tmp_path) == [data.root.name]


def test_a_query_that_needs_too_much_memory_is_refused_in_words_that_help(
    data: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_barycenter.pipeline.local_sql.MEMORY_MIB", 64)
    with pytest.raises(QueryError, match=r"needs more than 0\.0625 GiB of memory at once.*`--engine spark`"):
        run_local_sql(data, "select list(i) from range(30000000) t(i)")


def test_of_an_answer_without_end_the_first_rows_are_told(data: PipelineLayout) -> None:
    assert len(run_local_sql(data, "select * from range(100000000000)", limit=7)) == 7


def test_names_of_columns_are_told_as_a_query_needs_them(data: PipelineLayout) -> None:
    found = CliRunner().invoke(
        command, ["sql", "select broker, cpu_percent from broker_usage", "--data", str(data.root)]
    )
    assert found.exit_code == 0, found.stderr
    assert found.stdout.split()[:2] == ["broker", "cpu_percent"]


@pytest.mark.parametrize("more", [["--data", "s3a://bucket/x"], ["--data", ".", "--master", "local[1]"]])
def test_duckdb_is_refused_what_only_spark_can(more: list[str]) -> None:
    found = CliRunner().invoke(command, ["sql", "select 1", "--engine", "duckdb", *more])
    assert found.exit_code == 2
    assert "leave out" in found.stderr
