"""A data directory that can only be read: every operation that would change it is refused."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pulsar_barycenter.pipeline.storage.files import Entry, ReadableStorage


@dataclass(frozen=True, slots=True)
class ReadOnlyStorage:
    """The files of the storage `files`, which can only be read. An operation that would change something is refused
    with an error. Its message ends with `reason`, a text that says why, and what to do instead.

    Raises:
        PermissionError: an operation would write, create, move or delete something.
    """

    files: ReadableStorage
    reason: str

    @property
    def local_root(self) -> Path | None:
        return self.files.local_root

    def address(self, path: str = "") -> str:
        return self.files.address(path)

    def path_of(self, address: str) -> str:
        return self.files.path_of(address)

    def exists(self, path: str) -> bool:
        return self.files.exists(path)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return self.files.read(path, offset=offset, length=length)

    def local(self, path: str) -> AbstractContextManager[Path]:
        return self.files.local(path)

    def entries(self, folder: str) -> Sequence[Entry]:
        return self.files.entries(folder)

    def write(self, path: str, content: bytes) -> None:
        self._refuse(path)

    def new_file(self, path: str) -> AbstractContextManager[Path]:
        self._refuse(path)

    def make_folder(self, path: str) -> None:
        self._refuse(path)

    def move(self, path: str, to: str) -> None:
        self._refuse(path)

    def delete(self, path: str) -> None:
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise PermissionError(f"{self.address(path)} cannot be written: {self.reason}")
