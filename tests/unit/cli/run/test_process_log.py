"""The destination of the log, and what happens when it is not writable."""

import asyncio
import errno
import io
import json
import logging
import re
import sys

import pytest
import structlog

from pulsar_barycenter.broker import bounded_log
from pulsar_barycenter.broker.bounded_log import LONGEST, LONGEST_TRACEBACK, MOST_A_SECOND
from pulsar_barycenter.run.process_log import LONGEST_TEXT, configure_logging
from support.process_state import kept_log

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
    with kept_log():
        configure_logging(as_json=getattr(request, "param", "json") == "json")
        monkeypatch.setattr(bounded_log, "log", structlog.get_logger())  # the other one remembers where it wrote first
        yield disk
        disk.is_full = False


@pytest.mark.parametrize("disk", ["text"], indirect=True)
def test_nothing_that_strangers_say_steers_the_terminal(disk):
    """Title, colours, a bell, and lines that look like others of the log; for any kind of value."""
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


def failing(number):
    raise ValueError("x" * 50_000)


@pytest.mark.parametrize("logger", ["asyncio", "aiohttp.server", "aiohttp.access", "kazoo.client"])
def test_what_libraries_log_is_json_and_bounded(disk, monkeypatch, logger):
    monkeypatch.setattr("pulsar_barycenter.run.process_log.time.monotonic", lambda: 7.0)
    for number in range(5 * MOST_A_SECOND):
        try:
            failing(number)
        except ValueError:
            logging.getLogger(logger).exception("Unhandled exception\n%s", "x" * 50_000)
    lines = [json.loads(line) for line in disk.getvalue().splitlines()]
    assert len(lines) == MOST_A_SECOND
    assert {(line["event"], line["logger"], line["level"]) for line in lines} == {("library_log", logger, "error")}
    assert [len(line.get("exception", "")) for line in lines] == [LONGEST_TRACEBACK] + [0] * (MOST_A_SECOND - 1)
    assert all(len(line[name]) <= LONGEST for line in lines for name in ("said", "error"))


def test_what_nobody_caught_on_the_event_loop_is_json_and_bounded(disk, monkeypatch):
    """A protocol that fails with each read, as one could that a client makes fail."""
    monkeypatch.setattr("pulsar_barycenter.run.process_log.time.monotonic", lambda: 7.0)

    async def fail_often():
        loop = asyncio.get_running_loop()
        for number in range(5 * MOST_A_SECOND):
            loop.call_soon(failing, number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(fail_often())
    lines = [json.loads(line) for line in disk.getvalue().splitlines()]
    assert len(lines) == MOST_A_SECOND
    assert all(line["logger"] == "asyncio" and "failing" in line["said"] for line in lines)
