"""Spark SQL over the tables, from the command line."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from barycenter.pipeline.storage.layout import PipelineLayout
from barycenter.pipeline.tables.files import Tables
from barycenter.pipeline.tables.schemas import TABLES

pytestmark = pytest.mark.pipeline


def run_sql(data: Path, query: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barycenter", "history", "sql", query, "--data", str(data), "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=120, check=False)


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


def test_a_person_sees_how_far_a_long_query_is(tmp_path: Path) -> None:
    """Spark's tasks are counted on the terminal that standard error is; the answer on standard output is as ever."""
    (tmp_path / "tables").mkdir()
    query = "select count(hash(id, 1)) as counted from range(0, 50000000, 1, 16) where hash(id) != 7"
    command = [sys.executable, "-m", "barycenter", "history", "sql", query, "--data", str(tmp_path), "--format", "json"]
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
