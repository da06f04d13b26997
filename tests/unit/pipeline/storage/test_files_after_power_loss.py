"""What a local data directory reports as durable is there after a power loss: contents, and names."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.storage.files import LocalStorage


def write(storage: LocalStorage) -> None:
    storage.write("new/inner/file", b"x")


def write_table(storage: LocalStorage) -> None:
    with storage.new_file("new/inner/file") as file:
        file.write_bytes(b"x")


def move(storage: LocalStorage) -> None:
    storage.move("old", "new/inner/file")


def make_folder(storage: LocalStorage) -> None:
    storage.make_folder("new/inner")


@pytest.mark.parametrize("step", [write, write_table, move, make_folder])
def test_folders_are_synced_after_a_name_appeared_in_them(
    step: Callable[[LocalStorage], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the file, and those above that were made."""
    storage, synced = LocalStorage(tmp_path), list[tuple[int, tuple[str, ...]]]()
    (tmp_path / "old").write_bytes(b"x")
    fsync = os.fsync

    def note(descriptor: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if place.is_dir():
            synced.append((len(synced), (place.relative_to(tmp_path).as_posix(), *sorted(os.listdir(place)))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    step(storage)
    seen = [content for _, content in synced]
    above = (".", "new") if step is move else (".", "new", "old")
    assert ("new", "inner") in seen
    assert any(content[:2] == above[:2] for content in seen)
    if step is not make_folder:
        assert seen[-1] == ("new/inner", "file")


def test_a_file_system_that_cannot_sync_folders_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers EINVAL; any other error counts."""
    fsync, number = os.fsync, [errno.EINVAL]

    def refuse(descriptor: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_dir():
            raise OSError(number[0], os.strerror(number[0]))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    storage = LocalStorage(tmp_path)
    storage.write("file", b"x")
    assert storage.read("file") == b"x"
    number[0] = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        storage.write("file", b"y")
