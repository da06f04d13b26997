"""Where the log goes, and what happens when it cannot go there."""

import errno
import io
import json
import re
import sys

import pytest
import structlog

from pulsar_barycenter.cli.run.process_log import LONGEST_TEXT, configure_logging

OWN_COLOUR = re.compile(r"\x1b\[\d*m")


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
def disk(monkeypatch, request):
    disk = Disk()
    monkeypatch.setattr(sys, "stderr", disk)
    before = structlog.get_config()
    configure_logging(as_json=getattr(request, "param", "json") == "json")
    yield disk
    disk.is_full = False
    structlog.configure(**before)


@pytest.mark.parametrize("disk", ["text"], indirect=True)
def test_nothing_that_strangers_say_steers_the_terminal(disk):
    """Title, colours, a bell, and lines that look like others of the log; whatever the kind of the value."""
    log = structlog.get_logger("test")
    hostile = "\x1b]0;title\x07 \x1b[2J\r\n2026-01-01 [info] all_is_well \x9b31m \u202e"
    log.warning("connection_closed", client=hostile, lines=[hostile], more={"a": hostile}, long="x" * 100_000)
    try:
        raise ValueError(hostile)
    except ValueError:
        log.exception("failed", reason=ValueError(hostile))
    told = OWN_COLOUR.sub("", disk.getvalue())
    assert not [each for each in told if not each.isprintable() and each != "\n"]
    assert "title" in told
    assert told.splitlines()[0].count("all_is_well") == 3
    assert not [line for line in told.splitlines() if len(line) > 3 * LONGEST_TEXT]
    assert "ValueError" in told


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
