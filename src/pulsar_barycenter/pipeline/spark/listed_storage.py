"""A data directory at an address that a Spark Connect server can reach: read only, through DataFrames.

A session of Spark Connect has no Java process here, so Hadoop's file systems (`hadoop_storage`) cannot be used. Spark
lists and reads files of any kind as rows (`binaryFile`), with the class path, addresses and credentials of the server.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.pipeline.storage.files import Entry


class ListedStorage:
    """The files of a data directory under `address`, read through the Spark Connect server of `session`. Each folder
    directly in the data directory is listed only once, with all its subfolders, when it is first used. Files that are
    added later are not seen.
    """

    local_root = None

    def __init__(self, session: SparkSession, address: str) -> None:
        self._session = session
        self._root = address.rstrip("/")
        self._listed: dict[str, dict[str, Entry]] = {}
        """For each top folder, its files at any depth, by path."""

    def address(self, path: str = "") -> str:
        return f"{self._root}/{path}" if path else self._root

    def path_of(self, address: str) -> str:
        if not unquote(address).startswith(f"{self._root}/"):
            raise ValueError(f"{address} is outside the folder {self._root}")
        return unquote(address).removeprefix(f"{self._root}/")

    def exists(self, path: str) -> bool:
        return any(found == path or found.startswith(f"{path}/") for found in self._files(path))

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        rows = self._rows(path).select("content").collect() if self.exists(path) else []
        if not rows:
            raise FileNotFoundError(f"there is no file {self.address(path)}")
        content = bytes(rows[0]["content"])
        return content[offset:] if length is None else content[offset : offset + length]

    @contextmanager
    def local(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="barycenter-") as folder:
            file = Path(folder) / path.rpartition("/")[2]
            file.write_bytes(self.read(path))
            yield file

    def entries(self, folder: str) -> Sequence[Entry]:
        found: dict[str, Entry] = {}
        for path, entry in self._files(folder).items():
            if path.startswith(f"{folder}/"):
                name, _, below = path.removeprefix(f"{folder}/").partition("/")
                found[name] = Entry(name, is_folder=True, size=0, modified_s=entry.modified_s) if below else entry
        return [found[name] for name in sorted(found)]

    def _files(self, path: str) -> dict[str, Entry]:
        """Return all files, at any depth, of the top folder that contains `path`, keyed by path. A top folder is
        directly in the data directory.
        """
        top = path.partition("/")[0]
        if top not in self._listed:
            self._listed[top] = dict(self._list(top))
        return self._listed[top]

    def _list(self, top: str) -> Iterator[tuple[str, Entry]]:
        try:
            rows = self._rows(top).select("path", "length", "modificationTime").collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return
            raise OSError(f"{self.address(top)}: {str(error).splitlines()[0]}") from error
        except PySparkException as error:
            raise OSError(f"{self.address(top)}: {str(error).splitlines()[0]}") from error
        for row in rows:
            path = self._path_of_row(row["path"])
            modified_s = row["modificationTime"].timestamp()
            yield path, Entry(path.rpartition("/")[2], is_folder=False, size=row["length"], modified_s=modified_s)

    def _path_of_row(self, address: str) -> str:
        """Return the path in the data directory of the file for which Spark gives `address`. Spark's address always has
        a scheme and a host, which the address of the data directory may leave out.
        """
        root = self._root.partition(":")[2].lstrip("/")
        _, found, path = address.partition(f"{root}/")
        if not found:
            raise OSError(f"{address} is outside the folder {self._root}")
        return path

    def _rows(self, path: str) -> DataFrame:
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        return reader.load(self.address(path))
