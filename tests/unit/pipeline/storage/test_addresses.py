"""Where a data directory may lie, and the names of its files there."""

from pathlib import Path

import pytest

from barycenter.pipeline.storage.addresses import open_storage
from barycenter.pipeline.storage.storage import local_folder
from barycenter.pipeline.tables.parquet_tables import table_files


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("data", "data"),
        ("/a b/c", "/a b/c"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("a:b", "a:b"),
    ],
)
def test_a_local_folder_is_a_path_or_a_file_address(address: str, path: str) -> None:
    assert local_folder(address) == Path(path)


@pytest.mark.parametrize("address", ["s3a://bucket/a", "hdfs://host/a", "hdfs:/a", "gs://bucket", "abfs://c@a/x"])
def test_any_other_place_is_left_to_spark(address: str) -> None:
    assert local_folder(address) is None
    with pytest.raises(ValueError, match="read by Spark"):
        open_storage(address)


def test_a_file_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="names no machine"):
        local_folder("file://host/a")


def test_the_files_of_a_table_are_those_that_no_other_stands_for(tmp_path: Path) -> None:
    """A compacted file stands for the batches in it; unfinished files and other dates are passed over."""
    names = ("batch-000000000000.parquet", "batch-000000000001.parquet", "batch-000000000000-000000000001.parquet")
    folder = tmp_path / "tables" / "bundle_data" / "date=2026-01-01"
    folder.mkdir(parents=True)
    for name in (*names, ".batch-000000000003.parquet-1", "batch-000000000002.parquet.tmp"):
        (folder / name).touch()
    storage = open_storage(tmp_path.as_uri())

    def files(table: str, dates: list[str] | None = None) -> list[str]:
        return [storage.address(file.path) for file in table_files(storage, table, dates=dates)]

    assert files("bundle_data") == files("bundle_data", ["2026-01-01"]) == [str(folder / names[2])]
    assert files("bundle_data", ["2026-01-02"]) == []
    assert files("broker_data") == []
