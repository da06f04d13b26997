"""Files that appear as a whole."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pulsar_barycenter.whole_files.appearing import appearing, write_durably, write_whole


def test_a_block_that_fails_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "table"
    write_whole(file, b"before")

    def fail_half_way() -> None:
        with appearing(file) as unfinished:
            unfinished.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_reader_sees_no_unfinished_content(tmp_path: Path) -> None:
    file = tmp_path / "table"
    with appearing(file) as unfinished:
        unfinished.write_bytes(b"half")
        assert not file.exists()
        assert unfinished.name.startswith(".")  # readers of tables ignore it
        assert unfinished.parent == tmp_path  # on the same file system, so that a rename suffices
    assert file.read_bytes() == b"half"


def test_threads_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    """With one name for both, the second rename would not find its file."""
    file = tmp_path / "table"
    together = threading.Barrier(2)

    def write(content: bytes) -> None:
        with appearing(file) as unfinished:
            unfinished.write_bytes(content)
            together.wait()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (b"one", b"two")))
    assert file.read_bytes() in (b"one", b"two")
    assert list(tmp_path.iterdir()) == [file]


def test_missing_folders_are_created_for_a_durable_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "inner" / "numbers"
    write_durably(file, b"1")
    write_durably(file, b"2")
    assert file.read_bytes() == b"2"
