"""The lock of a folder."""

import errno
import fcntl
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from pulsar_barycenter.whole_files.locked_folder import FolderInUseError, locked_folder

_HOLDS = """
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from pulsar_barycenter.whole_files.locked_folder import locked_folder
with locked_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_locked_until_the_block_ends(tmp_path: Path) -> None:
    with locked_folder(tmp_path):
        with pytest.raises(FolderInUseError, match="another process uses"), locked_folder(tmp_path):
            pass
        assert not list(tmp_path.iterdir())
    with locked_folder(tmp_path):
        pass


def test_the_lock_of_a_process_that_is_killed_is_released(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUseError), locked_folder(tmp_path):
            pass
        process.kill()
    with locked_folder(tmp_path):
        pass


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (errno.EBADF, nullcontext()),
        (errno.ENOLCK, nullcontext()),
        (errno.EIO, pytest.raises(OSError, match="the answer of the file system")),
    ],
)
def test_a_file_system_without_locks_is_used_without_one(
    number: int, outcome: AbstractContextManager[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_descriptor: int, _how: int) -> None:
        raise OSError(number, "the answer of the file system")

    monkeypatch.setattr(fcntl, "flock", refused)
    with outcome, locked_folder(tmp_path):
        (tmp_path / "written").touch()
    assert (tmp_path / "written").exists() is isinstance(outcome, nullcontext)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError), locked_folder(tmp_path / "file"):
        pass
