"""Locations outside this machine's file system where a data directory may be, as tests use them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow.fs as pafs
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from support.hdfs_cluster import hdfs_cluster
from support.s3_server import s3_server


class StoreFiles(Protocol):
    """The files of a store by their paths in it, read by another client than the pipeline's if there is one."""

    def put(self, path: str, content: bytes) -> None:
        """Make a file appear as a whole."""
        ...

    def get(self, path: str) -> bytes: ...

    def find(self, folder: str) -> list[str]:
        """The paths of all files in and below `folder`, sorted; none if there is no such folder."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """`address` names an empty location; `conf` is Spark's configuration to reach it, `environment` is Arrow's.

    `files` takes a session, of any kind.
    """

    address: str
    files: Callable[[SparkSession], StoreFiles]
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """`conf` as arguments of a command line."""
        return [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]


class HdfsFiles:
    """By Hadoop's client, which the Java process of every session has."""

    def __init__(self, session: SparkSession, address: str) -> None:
        self._java: Any = session._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
        self._files = self._java.Path(address).getFileSystem(session.sparkContext._jsc.hadoopConfiguration())

    def put(self, path: str, content: bytes) -> None:
        folder, name = posixpath.split(path)
        hidden = self._java.Path(f"/{folder}/.{name}")
        stream = self._files.create(hidden)
        stream.write(content)
        stream.close()
        assert self._files.rename(hidden, self._java.Path(f"/{path}"))

    def get(self, path: str) -> bytes:
        stream = self._files.open(self._java.Path(f"/{path}"))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def find(self, folder: str) -> list[str]:
        found = []
        with suppress(Py4JJavaError):  # no such folder, or it is gone before all of it was listed
            files = self._files.listFiles(self._java.Path(f"/{folder}"), True)
            while files.hasNext():
                found.append(files.next().getPath().toUri().getPath().removeprefix("/"))
        return sorted(found)


class S3Files:
    """By Arrow's client."""

    def __init__(self, files: pafs.FileSystem, bucket: str) -> None:
        self._files, self._bucket = files, bucket

    def put(self, path: str, content: bytes) -> None:
        with self._files.open_output_stream(f"{self._bucket}/{path}") as stream:
            stream.write(content)

    def get(self, path: str) -> bytes:
        with self._files.open_input_stream(f"{self._bucket}/{path}") as stream:
            content: bytes = stream.read()
        return content

    def find(self, folder: str) -> list[str]:
        selector = pafs.FileSelector(f"{self._bucket}/{folder}", allow_not_found=True, recursive=True)
        found = (info.path for info in self._files.get_file_info(selector) if info.is_file)
        return sorted(path.removeprefix(f"{self._bucket}/") for path in found)


@contextmanager
def hdfs(folder: Path) -> Iterator[Store]:
    with hdfs_cluster(folder) as address:
        yield Store(address, lambda session: HdfsFiles(session, address))


@contextmanager
def s3(folder: Path) -> Iterator[Store]:
    with s3_server(folder / "s3.log") as server:
        bucket = server.address.removeprefix("s3a://")
        yield Store(server.address, lambda _: S3Files(server.arrow(), bucket), server.conf, server.environment)


STORES: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {"hdfs": hdfs, "s3": s3}
