"""Reading a file whose kind and size are not known."""

import os
from pathlib import Path

import pytest

from pulsar_barycenter.whole_files.reading import read_regular


def test_a_file_of_the_greatest_size_is_read_and_a_larger_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    assert read_regular(file, 5) == read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(file, 4)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path, why in ((tmp_path / "pipe", "not a regular file"), (Path("/dev/zero"), "not a regular file")):
        with pytest.raises(OSError, match=why):
            read_regular(path, 5)
    for path in (tmp_path, tmp_path / "loop", tmp_path / "none"):
        with pytest.raises(OSError):  # the text is the system's
            read_regular(path, 5)
