"""`pipeline convert` and `pipeline files`: formats change without a row, and lists leave out what was replaced."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.pipeline.deletion.marker import Plan, write_plan
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.storage.lock import exclusive
from pulsar_barycenter.pipeline.tables import formats
from pulsar_barycenter.pipeline.tables.compaction import merge_files
from pulsar_barycenter.pipeline.tables.files import files_of_date, live_files
from pulsar_barycenter.pipeline.tables.table_log import TableFormat
from support.data_of_before import copied
from support.table_engines import with_polars


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return copied(tmp_path / "cluster")


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(main, ["pipeline", *arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_tables_become_delta_and_plain_again(layout: PipelineLayout) -> None:
    before = {file: file.read_bytes() for file in layout.tables.rglob("*.parquet")}
    assert run("convert", "--data", str(layout.root), "--to", "delta").endswith("have the format delta now\n")
    columns = ("bundle", "broker", "sequence")
    rows = with_polars(layout.tables, "bundle_samples", columns, TableFormat.DELTA)
    assert rows == with_polars(layout.tables, "bundle_samples", columns, TableFormat.PARQUET)
    run("convert", "--data", str(layout.root), "--to", "parquet")
    assert {file: file.read_bytes() for file in layout.tables.rglob("*.parquet")} == before
    assert not list(layout.tables.glob("*/_delta_log"))


def test_a_conversion_is_refused_beside_a_pipeline_a_deletion_or_without_the_package(
    layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = ("convert", "--data", str(layout.root), "--to", "delta")
    with exclusive(layout, clock_ms=lambda: 0):
        assert "another process runs the pipeline of" in run(*convert, exit_code=1)
    with monkeypatch.context() as patch:
        patch.setattr(formats.importlib.util, "find_spec", lambda name: None)
        assert "needs the package deltalake, which is not installed" in run(*convert, exit_code=1)
    write_plan(layout, Plan("acme", TableFormat.PARQUET))
    assert "tenant acme" in run(*convert, exit_code=1)
    assert not list(layout.tables.glob("*/_delta_log"))


def test_the_list_leaves_out_files_that_a_killed_compaction_left(layout: PipelineLayout) -> None:
    """Two files of a date are merged, and lie beside the merged one."""
    folder = "tables/decisions/date=2023-11-14"
    (first,) = files_of_date(layout, folder)
    later = layout.root / folder / "batch-000000000002.parquet"
    later.write_bytes((layout.root / first.path).read_bytes())
    merge_files(layout, "decisions", files_of_date(layout, folder))
    printed = run("files", "decisions", "--data", str(layout.root)).splitlines()
    assert printed == [str(file) for file in live_files(layout.tables, "decisions")]
    assert len(printed) == 2
    assert len(list(layout.tables.glob("decisions/date=*/*.parquet"))) == 4
