"""Where a data directory may lie, and the names of its files there."""

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from barycenter.pipeline.addresses import NotLocalError, addresses_of, local_folder, table_addresses
from barycenter.pipeline.fold_kernel import filesystem_of

FOLDER = "bucket/cluster/tables/bundle_data/date=2026-01-0"


@pytest.mark.parametrize(
    ("address", "path"),
    [("data", "data"), ("/a b/c", "/a b/c"), ("file:/a/b", "/a/b"), ("file:///a/b%20c", "/a/b c"), ("a:b", "a:b")],
)
def test_a_local_folder_is_a_path_or_a_file_address(address: str, path: str) -> None:
    assert local_folder(address) == Path(path)


@pytest.mark.parametrize("address", ["s3a://bucket/a", "hdfs://host/a", "hdfs:/a", "gs://bucket", "abfs://c@a/x"])
def test_the_folder_of_a_running_pipeline_is_of_this_machine(address: str) -> None:
    with pytest.raises(NotLocalError, match="local folder"):
        local_folder(address)


def test_tables_are_named_alike_here_and_in_an_object_store(tmp_path: Path) -> None:
    """A compacted file stands for the batches in it; unfinished files and other dates are passed over."""
    names = ("batch-000000000000.parquet", "batch-000000000001.parquet", "batch-000000000000-000000000001.parquet")
    folder = tmp_path / "tables" / "bundle_data" / "date=2026-01-01"
    folder.mkdir(parents=True)
    for name in (*names, "_part.parquet", "batch-000000000002.parquet.tmp"):
        (folder / name).touch()
    here = table_addresses(str(tmp_path), "bundle_data")
    assert [Path(file).name for file in here] == [names[2]]
    assert table_addresses(tmp_path.as_uri(), "bundle_data") == here
    assert table_addresses(str(tmp_path), "bundle_data", dates=["2026-01-02"]) == []
    assert table_addresses(str(tmp_path), "broker_data") == []

    paths = [f"{FOLDER}1/{name}" for name in names] + [f"{FOLDER}2/{names[0]}", "bucket/cluster/tables/_x"]
    there = addresses_of("s3a://bucket/cluster/", "bucket/cluster", paths)
    assert there == [f"s3a://{FOLDER}1/{names[2]}", f"s3a://{FOLDER}2/{names[0]}"]
    assert addresses_of("s3a://bucket/cluster", "bucket/cluster", paths, dates=["2026-01-02"]) == there[1:]
    root = "/data/cluster"
    assert addresses_of(f"hdfs://name:8020{root}", root, [f"{root}/tables/t/date=2026-01-01/{names[0]}"]) == [
        f"hdfs://name:8020{root}/tables/t/date=2026-01-01/{names[0]}"
    ]


def test_an_object_store_is_read_by_arrow_under_its_own_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark says s3a where Arrow says s3; no network is needed to tell the bucket from the key."""
    seen: list[str] = []

    def from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
        seen.append(uri)
        return pafs.LocalFileSystem(), uri.partition("://")[2]

    monkeypatch.setattr(pafs, "FileSystem", type("FileSystem", (), {"from_uri": staticmethod(from_uri)}))
    assert filesystem_of("s3a://bucket/a.parquet")[1] == "bucket/a.parquet"
    assert filesystem_of("hdfs://name:8020/a.parquet")[1] == "name:8020/a.parquet"
    assert seen == ["s3://bucket/a.parquet", "hdfs://name:8020/a.parquet"]
