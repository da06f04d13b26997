"""A data directory in a bucket that Arrow can read without Spark and Java: `s3:`, `gs:`, `abfs:`, `hdfs:`. Read only.

Arrow finds credentials and regions in environment variables, profiles, or the options of the address, such as
`s3://bucket/data?region=eu-west-1`.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from pulsar_barycenter.pipeline.storage.files import Entry


class ArrowStorage:
    """The files of a data directory at the address `address`, read through Arrow's file system for the scheme of the
    address.
    """

    local_root = None

    def __init__(self, address: str) -> None:
        """Open the file system.

        Raises:
            ValueError: Arrow has no file system for the scheme of the address.
            OSError: the file system cannot be used.
        """
        # an address may contain credentials and options, which messages must not show
        self._address = re.sub(r"(?<=://)[^/@]*@", "", address.partition("?")[0]).rstrip("/")
        self._files: Any
        try:
            # Arrow does not know s3a, Hadoop's name for S3
            self._files, root = fs.FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
        except pa.ArrowInvalid as error:
            detail = str(error).partition("\n")[0].replace(address, self._address)
            raise ValueError(f"Arrow cannot read {self._address}: {detail}") from error
        self._root = root.rstrip("/")

    def address(self, path: str = "") -> str:
        return f"{self._address}/{path}" if path else self._address

    def path_of(self, address: str) -> str:
        if not address.startswith(f"{self._address}/"):
            raise ValueError(f"{address} is outside the folder {self._address}")
        return address.removeprefix(f"{self._address}/")

    def exists(self, path: str) -> bool:
        found: bool = self._files.get_file_info(self._path(path)).type != fs.FileType.NotFound
        return found

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._require(path)
        with self._files.open_input_file(self._path(path)) as file:
            file.seek(min(offset, file.size()))
            content: bytes = file.read() if length is None else file.read(length)
            return content

    @contextmanager
    def local(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="barycenter-") as folder:
            file = Path(folder) / path.rpartition("/")[2]
            file.write_bytes(self.read(path))
            yield file

    def entries(self, folder: str) -> Sequence[Entry]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        found = [
            Entry(info.base_name, info.type == fs.FileType.Directory, info.size or 0, (info.mtime_ns or 0) / 1e9)
            for info in self._files.get_file_info(selector)
        ]
        return sorted(found, key=lambda entry: entry.name)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _require(self, path: str) -> None:
        if not self._files.get_file_info(self._path(path)).is_file:
            raise FileNotFoundError(f"there is no file {self.address(path)}")
