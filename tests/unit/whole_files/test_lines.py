"""Lines that are appended whole."""

import resource
import signal
from pathlib import Path

import pytest

from pulsar_barycenter.observer.recorded_settings import RecordedSettings, append_settings, read_settings
from pulsar_barycenter.whole_files.lines import append_line


def test_an_incomplete_last_line_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    append_line(file, b"1")
    with file.open("ab") as stream:
        stream.write(b"half" * 50_000)
    append_line(file, b"2")
    assert file.read_bytes() == b"1\n2\n"
    file.write_bytes(b"half")
    append_line(file, b"3")
    assert file.read_bytes() == b"3\n"


def test_settings_go_on_after_a_full_disk(tmp_path: Path) -> None:
    """Half a record, and the next one behind it, would make the whole file unreadable."""
    file = tmp_path / "settings.jsonl"
    first, second = (RecordedSettings(at=at, settings={"key": "x" * 500}) for at in (1, 2))
    append_settings(file, first)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN  # Python's own choice: a write fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, most))
    try:
        with pytest.raises(OSError, match=r"File too large: .*settings\.jsonl"):
            append_settings(file, second)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert read_settings(file) == [first]
    append_settings(file, second)
    assert read_settings(file) == [first, second]
