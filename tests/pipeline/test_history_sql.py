"""SQL over the tables by Spark, from the command line, and held against that by DuckDB."""

import os
import pty
import random
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.cli.history.command import sql
from pulsar_barycenter.pipeline.local_sql import run_local_sql
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.schemas import TABLES, Column

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(2)]


PAGES = [Path(__file__).parents[2] / page for page in ("README.md", "docs/tables.md")]
FENCED = re.compile(r"```sql\n(.*?)```", re.DOTALL)
IN_A_COMMAND = re.compile(r'history sql (?:--data DIR )?"(select[^"]*)"')
AT = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)


def documented() -> list[str]:
    """Every query that a page or the command's help shows."""
    texts = [page.read_text() for page in PAGES] + [sql.help or ""]
    return list(
        dict.fromkeys(query for text in texts for kind in (FENCED, IN_A_COMMAND) for query in kind.findall(text))
    )


def write_history(layout: PipelineLayout, seed: int) -> None:
    """Some rows in every table, over two dates, in three batches; some batches tell rows of the one before again."""
    draw = random.Random(seed)

    def value(column: Column, number: int) -> object:
        if column.nullable and draw.random() < 0.3:
            return None
        if column.kind == "timestamp":
            return AT + timedelta(minutes=number)
        if column.kind == "string":
            return draw.choice(["a", "b", "c"])
        return draw.random() if column.kind == "double" else number

    for name, table in TABLES.items():
        rows = [{column.name: value(column, number) for column in table.schema} for number in range(60)]
        if name in {"broker_usage", "bundle_samples"}:  # a join finds partners
            rows = [row | {"broker": "abc"[row["sequence"] % 3], "incarnation": "i"} for row in rows]
        again = 5 if name in {"ownership", "decisions"} else 0
        for batch in range(3):
            part = rows[max(0, batch * 20 - again) : batch * 20 + 20]
            Tables(layout).write(name, batch, pa.Table.from_pylist(part, schema=table.arrow_schema))


def comparable(rows: pa.Table, *, in_order: bool) -> list[str]:
    lines = [
        str([float(f"{each:.9g}") if isinstance(each, float) else str(each) for each in row.values()])
        for row in rows.to_pylist()
    ]
    return lines if in_order else sorted(lines)


def test_both_engines_give_the_same_answers(spark: SparkSession, tmp_path: Path) -> None:
    """To every documented query and to each whole table: names of columns, kinds of values, rows and their order."""
    layout = PipelineLayout.of(tmp_path)
    write_history(layout, seed=1)
    queries = documented()
    assert len(queries) >= 5
    for name in TABLES:
        read_table(spark, layout, name).createOrReplaceTempView(name)
    for query in [*queries, *(f"select * from {name}" for name in TABLES)]:
        there, here = spark.sql(query).toArrow(), run_local_sql(layout, query)
        assert here.column_names == there.column_names, query
        assert [str(kind) for kind in here.schema.types] == [str(kind) for kind in there.schema.types], query
        in_order = "order by" in query
        assert comparable(here, in_order=in_order) == comparable(there, in_order=in_order), query
        assert len(here), query


def run_sql(data: Path, query: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pulsar_barycenter",
        "history",
        "sql",
        query,
        "--data",
        str(data),
        "--format",
        "json",
    ]
    return subprocess.run(
        [*command, "--engine", "spark"],
        capture_output=True,
        text=True,
        cwd=data,
        env=os.environ,
        timeout=120,
        check=False,
    )


def test_tables_are_views_and_a_wrong_query_ends_in_a_sentence(tmp_path: Path) -> None:
    """Every table can be asked, also one without rows; what Spark says of a mistake is all that is shown."""
    table = TABLES["decisions"]
    rows = [{field.name: "" for field in table.arrow_schema} | {"at": datetime.now(UTC), "number": n} for n in range(3)]
    Tables(PipelineLayout.of(tmp_path)).write("decisions", 0, pa.Table.from_pylist(rows, schema=table.arrow_schema))
    counts = " union all ".join(f"select '{name}' as name, count(*) as rows from {name}" for name in TABLES)
    found = run_sql(tmp_path, counts)
    assert found.returncode == 0, found.stderr
    decoded = [msgspec.json.decode(line) for line in found.stdout.splitlines()]
    assert {row["name"]: row["rows"] for row in decoded} == {name: 3 if name == "decisions" else 0 for name in TABLES}
    wrong = run_sql(tmp_path, "select nothing from nowhere")
    assert wrong.returncode == 1
    assert "nowhere" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert "at org.apache" not in wrong.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["tables"], "Spark left something in the current folder"


def test_a_person_sees_how_far_a_long_query_is(tmp_path: Path) -> None:
    """Spark's tasks are counted on the terminal that standard error is; the answer on standard output is as ever."""
    (tmp_path / "tables").mkdir()
    query = "select count(hash(id, 1)) as counted from range(0, 50000000, 1, 16) where hash(id) != 7"
    command = [
        sys.executable,
        "-m",
        "pulsar_barycenter",
        "history",
        "sql",
        query,
        "--data",
        str(tmp_path),
        "--format",
        "json",
    ]
    command += ["--engine", "spark"]
    terminal, its_end = pty.openpty()
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its_end, env=os.environ | {"COLUMNS": "100"})
    os.close(its_end)
    shown = b""
    with suppress(OSError):  # the terminal is gone when the process is
        while chunk := os.read(terminal, 4096):
            shown += chunk
    answer, _ = run.communicate(timeout=120)
    os.close(terminal)
    assert run.returncode == 0, shown.decode()
    assert msgspec.json.decode(answer)["counted"] > 49_000_000
    assert b"starting Spark" in shown
    assert re.search(rb"asking.* (\d+)/16", shown), shown.decode()
