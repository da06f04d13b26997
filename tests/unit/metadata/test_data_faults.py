"""A file or folder that is not where it was opened is detected, whatever happened; an unchanged one is no fault."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_barycenter.metadata.files import data_faults
from pulsar_barycenter.metadata.files.data_faults import KeptPath, read_only_fault


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    path.with_name("other").write_bytes(path.read_bytes())
    path.with_name("other").replace(path)


def lose_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def put_file_for_folder(path: Path) -> None:
    lose_folder(path)
    path.parent.write_text("no folder")


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (remove, "is missing"),
        (rename, "is missing"),
        (replace, "was replaced"),
        (lose_folder, "is missing"),
        (put_file_for_folder, "is missing"),
    ],
)
def test_a_file_that_lost_its_name_is_a_fault(tmp_path: Path, lose: Callable[[Path], None], said: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "file"
    path.write_text("content")
    with path.open("rb"):  # so that no other file gets its number
        kept = KeptPath(path)
        assert kept.fault() is None
        lose(path)
        fault = kept.fault()
    assert fault is not None
    assert str(path) in fault
    assert said in fault


def test_a_folder_that_was_replaced_is_a_fault_and_changes_in_it_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    kept = KeptPath(folder)
    (folder / "new").write_text("more")
    folder.chmod(0o500)
    assert kept.fault() is None
    folder.rename(tmp_path / "moved")
    folder.mkdir()
    assert "was replaced" in (kept.fault() or "")


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ETIMEDOUT])
def test_a_path_that_cannot_be_looked_at_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    kept = KeptPath(tmp_path)

    def fail(path: str) -> os.stat_result:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(data_faults.os, "stat", fail)
    assert kept.fault() is None


def test_a_read_only_file_system_is_a_fault_that_may_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_only_fault(str(tmp_path)) is None

    class ReadOnly:
        f_flag = os.ST_RDONLY | os.ST_NOSUID

    monkeypatch.setattr(data_faults.os, "statvfs", lambda _: ReadOnly)
    fault = read_only_fault(str(tmp_path))
    assert fault is not None
    assert not fault.is_final
    assert str(tmp_path) in fault.text
