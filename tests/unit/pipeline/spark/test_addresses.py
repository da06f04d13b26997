"""The addresses where a data directory may be."""

from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.storage.files import local_folder


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
    assert open_storage(address).local_root == Path(path).absolute()


@pytest.mark.parametrize("address", ["s3a://bucket/a", "hdfs://host/a", "hdfs:/a", "gs://bucket", "abfs://c@a/x"])
def test_any_other_place_is_left_to_spark(address: str) -> None:
    assert local_folder(address) is None
    with pytest.raises(ValueError, match="only Spark can read it"):
        open_storage(address)


def test_a_file_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="names a host"):
        local_folder("file://host/a")
