"""Where the log goes, and what happens when it cannot go there."""

import errno
import io
import json
import sys

import pytest
import structlog

from barycenter.cli.run.process_log import configure_logging


class Disk(io.StringIO):
    """A stream on a disk that may be full."""

    is_full = False

    def write(self, text):
        self._refuse()
        return super().write(text)

    def flush(self):
        self._refuse()

    def _refuse(self):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    monkeypatch.setattr(sys, "stderr", disk)
    before = structlog.get_config()
    configure_logging(as_json=True)
    yield disk
    disk.is_full = False
    structlog.configure(**before)


def test_a_log_line_that_finds_no_room_is_dropped_and_the_next_that_does_is_written(disk):
    log = structlog.get_logger("test")
    disk.is_full = True
    log.warning("lost")
    try:
        raise ValueError("told of in vain")
    except ValueError:
        log.exception("lost_too")
    disk.is_full = False
    log.warning("written", key=1)
    (line,) = disk.getvalue().splitlines()
    assert (json.loads(line)["event"], json.loads(line)["key"]) == ("written", 1)
