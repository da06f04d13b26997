"""A data directory at any address that Spark can reach, such as `s3a:` or `hdfs:`, through Hadoop's file systems.

It works in the Java process of a session, so the class path, addresses and credentials of Spark apply. The driver
writes content to a temporary file, and Java copies it. Only small contents pass directly between Python and Java.

A file appears complete, in one of two ways. In an object store (`_APPEARS_AT_CLOSE`), an object appears when its upload
is complete, and a rename would be a copy and a deletion. So it is uploaded under its final name. In other file systems
it is written under an unfinished name, and then renamed over the existing file.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.storage.files import Entry
from pulsar_barycenter.whole_files.appearing import UNFINISHED

_APPEARS_AT_CLOSE: Final = frozenset({"s3a", "gs"})
_ERRORS: Final[dict[str, type[OSError]]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "AccessControlException": PermissionError,
    "AccessDeniedException": PermissionError,
}
_REPLACED: Final = ("RemoteFileChangedException", "BlockMissingException", "Status Code: 412")
"""Marks of an error that says that the opened file was replaced: names of classes, and a text of S3A's reader."""
_TRIES: Final = 5
_NO_S3A: Final = (
    "{address}: Java has no class for s3a: addresses. Start Spark with"
    " `--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}`"
)
_UNKNOWN: Final = (
    "{address}: Spark has no file system of this kind. It has file: and hdfs:, s3a: with the package hadoop-aws, and"
    " others with the packages of their vendors"
)


class _ReplacedError(OSError):
    """A file was replaced by another one after it had been opened for reading."""


class HadoopStorage:
    """The files of a data directory under `address`, read and written through the Java process of `session`."""

    local_root = None

    def __init__(self, session: SparkSession, address: str) -> None:
        """Open the file system at `address`. Raise OSError if no file system answers there."""
        context = session.sparkContext
        self._gateway: Any = context._gateway
        self._java: Any = context._jvm.org.apache.hadoop  # type: ignore[union-attr]
        self._conf: Any = context._jsc.hadoopConfiguration()
        with _as_os_error(address):
            self._files: Any = self._file_system(address)
            self._root = str(self._files.makeQualified(self._java.fs.Path(address)).toString()).rstrip("/")
            self._scheme = str(self._files.getUri().getScheme())

    def _file_system(self, address: str) -> Any:
        try:
            return self._java.fs.Path(address).getFileSystem(self._conf)
        except Py4JJavaError as error:
            name, text = _told(error)
            if "S3AFileSystem not found" in text:
                version = self._java.util.VersionInfo.getVersion()
                raise OSError(_NO_S3A.format(address=address, version=version)) from error
            if name == "UnsupportedFileSystemException" or "ClassNotFoundException" in text:
                raise OSError(_UNKNOWN.format(address=address)) from error
            raise

    def address(self, path: str = "") -> str:
        return f"{self._root}/{path}" if path else self._root

    def path_of(self, address: str) -> str:
        if not unquote(address).startswith(f"{self._root}/"):
            raise ValueError(f"{address} is outside the folder {self._root}")
        return unquote(address).removeprefix(f"{self._root}/")

    def exists(self, path: str) -> bool:
        with _as_os_error(self.address(path)):
            return bool(self._files.exists(self._path(path)))

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        for _ in range(_TRIES - 1):
            with suppress(_ReplacedError):
                return self._read(path, offset, length)
        return self._read(path, offset, length)

    def _read(self, path: str, offset: int, length: int | None) -> bytes:
        with _as_os_error(self.address(path)):
            file = self._path(path)
            if offset and offset >= self._files.getFileStatus(file).getLen():
                return b""
            stream = self._files.open(file)
            try:
                if offset:
                    stream.seek(offset)
                return bytes(stream.readAllBytes() if length is None else stream.readNBytes(length))
            finally:
                stream.close()

    def write(self, path: str, content: bytes) -> None:
        with self.new_file(path) as file:
            file.write_bytes(content)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        with _temporary_folder() as folder:
            file = folder / path.rpartition("/")[2]
            yield file
            with _as_os_error(self.address(path)):
                self._upload(file, path)

    def _upload(self, file: Path, path: str) -> None:
        source, target = self._java.fs.Path(f"file://{file}"), self._path(path)
        if self._scheme in _APPEARS_AT_CLOSE:
            self._files.copyFromLocalFile(False, True, source, target)
            return
        folder, _, name = path.rpartition("/")
        unfinished = self._path(f"{folder}/{UNFINISHED}{name}-{uuid.uuid4().hex[:8]}".lstrip("/"))
        self._files.mkdirs(target.getParent())
        try:
            self._files.copyFromLocalFile(False, True, source, unfinished)
            kind = getattr(self._java.fs, "Options$Rename")
            options = self._gateway.new_array(kind, 1)
            options[0] = kind.OVERWRITE
            context = self._java.fs.FileContext.getFileContext(self._files.getUri(), self._conf)
            context.rename(unfinished, target, options)
        except Py4JJavaError:
            self._files.delete(unfinished, False)
            raise

    @contextmanager
    def local(self, path: str) -> Iterator[Path]:
        with _temporary_folder() as folder:
            file = folder / path.rpartition("/")[2]
            with _as_os_error(self.address(path)):
                target = self._java.fs.Path(f"file://{file}")
                self._files.copyToLocalFile(False, self._path(path), target, True)
            yield file

    def entries(self, folder: str) -> Sequence[Entry]:
        with _as_os_error(self.address(folder)):
            try:
                found = list(self._files.listStatus(self._path(folder)))
            except Py4JJavaError as error:
                if _told(error)[0] == "FileNotFoundException":
                    return ()
                raise
            entries = (
                Entry(
                    str(status.getPath().getName()),
                    bool(status.isDirectory()),
                    int(status.getLen()),
                    status.getModificationTime() / 1000,
                )
                for status in found
            )
            return sorted(entries, key=lambda entry: entry.name)

    def make_folder(self, path: str) -> None:
        with _as_os_error(self.address(path)):
            self._files.mkdirs(self._path(path))

    def move(self, path: str, to: str) -> None:
        with _as_os_error(self.address(path)):
            source, target = self._path(path), self._path(to)
            if not self._files.exists(source):
                raise FileNotFoundError(f"there is no file {self.address(path)}")
            self._files.mkdirs(target.getParent())
            self._files.delete(target, False)
            if not self._files.rename(source, target):
                raise OSError(f"{self.address(path)} cannot be renamed to {self.address(to)}")

    def delete(self, path: str) -> None:
        with _as_os_error(self.address(path)):
            self._files.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._java.fs.Path(self.address(path))


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix=f"barycenter-{os.getpid()}-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _as_os_error(address: str) -> Iterator[None]:
    """Return a context manager that converts exceptions of Java in its block to OSError or a subclass. Their text has
    Java's message and `address`.
    """
    try:
        yield
    except Py4JJavaError as error:
        name, text = _told(error)
        is_replaced = any(mark in f"{name} {text}" for mark in _REPLACED)
        kind = _ReplacedError if is_replaced else _ERRORS.get(name, OSError)
        raise kind(text if address in text else f"{address}: {text}") from error
    except PySparkException as error:
        raise OSError(f"{address}: {str(error).splitlines()[0]}") from error
    except Py4JError as error:
        raise OSError(f"{address}: Java does not answer ({error})") from error


def _told(error: Py4JJavaError) -> tuple[str, str]:
    """Return two texts: the name of the Java exception without its package, and the first line of its message."""
    exception = error.java_exception
    lines = str(exception.getMessage() or exception.toString()).splitlines()
    return str(exception.getClass().getSimpleName()), lines[0] if lines else ""
