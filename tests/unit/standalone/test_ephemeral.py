"""A data folder that lives as long as its cluster."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pulsar_barycenter.standalone import folder_remover
from pulsar_barycenter.standalone.ephemeral import ephemeral_folder

HOLDS_ONE = """
import sys
from pulsar_barycenter.standalone.ephemeral import ephemeral_folder
with ephemeral_folder() as folder:
    (folder / "ledgers").mkdir()
    (folder / "ledgers" / "a").write_text("messages")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_is_private_and_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ephemeral_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "metadata.sqlite").write_text("")
    assert list(tmp_path.iterdir()) == []
    assert removers_of(folder) == []


def test_it_is_gone_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError), ephemeral_folder():
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_it_is_gone_after_its_owner_was_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert (folder / "ledgers" / "a").exists()
        while not (removers := removers_of(folder)):  # a process that has just begun may still have its parent's name
            assert owner.poll() is None
        assert len(removers) == 1
        owner.kill()
    _, left = psutil.wait_procs(removers, timeout=60)
    assert left == []
    assert not folder.exists()


def removers_of(folder: Path) -> list[psutil.Process]:
    """The processes that wait to remove `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if folder_remover.__file__ in words and str(folder) in words:
            found.append(process)
    return found
