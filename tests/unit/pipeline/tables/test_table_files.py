"""Which files make up a table."""

from pathlib import Path

from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import table_files


def test_the_files_of_a_table_are_those_that_no_other_stands_for(tmp_path: Path) -> None:
    """A compacted file represents the batches in it; unfinished files and other dates are skipped."""
    names = ("batch-000000000000.parquet", "batch-000000000001.parquet", "batch-000000000000-000000000001.parquet")
    folder = tmp_path / "tables" / "bundle_data" / "date=2026-01-01"
    folder.mkdir(parents=True)
    for name in (*names, ".batch-000000000003.parquet-1", "batch-000000000002.parquet.tmp"):
        (folder / name).touch()
    storage = PipelineLayout.of(tmp_path)

    def files(table: str, dates: list[str] | None = None) -> list[str]:
        return [storage.address(file.path) for file in table_files(storage, table, dates=dates)]

    assert files("bundle_data") == files("bundle_data", ["2026-01-01"]) == [str(folder / names[2])]
    assert files("bundle_data", ["2026-01-02"]) == []
    assert files("broker_data") == []
