"""What the pipeline asks of a data directory, be it a folder of this machine or reached by Hadoop's file systems."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.hadoop_storage import HadoopStorage
from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage, clear_unfinished

pytestmark = pytest.mark.pipeline


@pytest.fixture(params=["local", "hadoop"])
def storage(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Storage:
    root = tmp_path / "data folder"
    return LocalStorage(root) if request.param == "local" else HadoopStorage(spark, f"file://{root}/")


def test_what_is_written_is_read_whole_and_in_parts(storage: Storage) -> None:
    content = bytes(range(256)) * 5
    storage.write("a/b/c.bin", b"before")
    storage.write("a/b/c.bin", content)
    assert storage.read("a/b/c.bin") == content
    assert storage.read("a/b/c.bin", length=300) == content[:300]
    assert storage.read("a/b/c.bin", offset=1000) == content[1000:]
    assert storage.read("a/b/c.bin", offset=7, length=9) == content[7:16]
    assert storage.read("a/b/c.bin", offset=2000, length=9) == b""
    with storage.local("a/b/c.bin") as file:
        assert file.read_bytes() == content
    storage.write("empty", b"")
    assert storage.read("empty") == b""


def test_what_is_absent_is_told_as_such(storage: Storage) -> None:
    assert list(storage.entries("nowhere")) == []
    assert not storage.exists("nowhere")
    storage.delete("nowhere/at/all")
    with pytest.raises(FileNotFoundError):
        storage.read("nowhere")
    with pytest.raises(FileNotFoundError):
        storage.read("nowhere", offset=3)
    with pytest.raises(FileNotFoundError), storage.local("nowhere"):
        pass


def test_a_new_file_appears_when_it_is_done_and_not_before(storage: Storage) -> None:
    """A writer that fails leaves what was there; one that was killed leaves what no reader takes for a file."""
    with suppress(ZeroDivisionError), storage.new_file("a/table.parquet") as file:
        file.write_bytes(b"half")
        raise ZeroDivisionError
    assert not storage.exists("a/table.parquet")
    for content in (b"one", b"another"):
        with storage.new_file("a/table.parquet") as file:
            file.write_bytes(content)
            assert [entry.name for entry in storage.entries("a") if not entry.name.startswith(".")] in (
                [],
                ["table.parquet"],
            )
        assert storage.read("a/table.parquet") == content
    storage.write("a/.table.parquet-1", b"half")
    clear_unfinished(storage, "a")
    assert [entry.name for entry in storage.entries("a")] == ["table.parquet"]


def test_entries_tell_names_sizes_and_times(storage: Storage) -> None:
    storage.write("a/two", b"22")
    storage.write("a/one", b"1")
    storage.make_folder("a/folder/in it")
    found = storage.entries("a")
    assert [(entry.name, entry.is_folder) for entry in found] == [("folder", True), ("one", False), ("two", False)]
    assert [entry.size for entry in found[1:]] == [1, 2]
    file = Path(storage.address("a/one").removeprefix("file:"))
    assert found[1].modified_s == pytest.approx(os.stat(file).st_mtime, abs=1.0)


def test_folders_are_deleted_with_all_in_them(storage: Storage) -> None:
    storage.write("a/b/c", b"1")
    storage.write("a/d", b"1")
    storage.delete("a/d")
    assert [entry.name for entry in storage.entries("a")] == ["b"]
    storage.delete("a")
    assert not storage.exists("a")
    assert list(storage.entries("")) == []


def test_spark_reads_what_was_written_and_its_names_lead_back(storage: Storage, spark: SparkSession) -> None:
    """Spark writes the blank in a path as %20."""
    storage.write("logs/a b.txt", b"line\n")
    rows = spark.read.text(storage.address("logs")).selectExpr("value", "_metadata.file_path as file").collect()
    assert [(row.value, storage.path_of(row.file)) for row in rows] == [("line", "logs/a b.txt")]
    with pytest.raises(ValueError, match="is outside the folder"):
        storage.path_of("file:///elsewhere/x")


def test_what_java_says_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """A file in the way of a folder, addresses that no class serves."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        HadoopStorage(spark, f"file://{tmp_path}").write("file/below", b"1")
    with pytest.raises(OSError, match="xyz://a/b: Spark has no file system of this kind"):
        open_storage("xyz://a/b", spark)
    with pytest.raises(OSError, match=r"s3a://b/c: .*spark.jars.packages=org.apache.hadoop:hadoop-aws:\d"):
        open_storage("s3a://b/c", spark)


def test_a_file_is_moved_in_place_of_another(storage: Storage) -> None:
    storage.write("a/one", b"one")
    storage.write("b/c/two", b"two")
    storage.move("a/one", "b/c/two")
    assert storage.read("b/c/two") == b"one"
    assert not storage.exists("a/one")
    with pytest.raises(FileNotFoundError):
        storage.move("a/one", "b/c/two")
