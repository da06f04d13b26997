"""A full disk costs the pipeline its log lines, its status and its quarantine, and nothing else."""

import errno
import io
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.pipeline.reports.quarantine import Refused, keep_refused
from pulsar_barycenter.pipeline.running.job_log import DroppingLogger
from pulsar_barycenter.pipeline.running.status import StatusFile
from pulsar_barycenter.pipeline.storage import files
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout


class FullStream(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.is_full = True

    def flush(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


def no_room(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_lines_that_find_no_room_are_dropped() -> None:
    """The logger goes on when there is room again; a closed stream is no reason to end either."""
    stream = FullStream()
    log = DroppingLogger(stream)
    log.warning("lost")
    stream.is_full = False
    log.info("kept")
    assert stream.getvalue().endswith("kept\n")
    stream.close()
    log.error("after the end")


def test_status_and_quarantine_do_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither raises; the status in memory is right, and written when there is room."""
    data = PipelineLayout.of(tmp_path)
    file = StatusFile(data, pid=1)
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_durably", no_room)
        file.enter("retrying", now_ms=1)
        keep_refused(data, 1, [Refused("report", "x.json", "torn")], [])
    assert file.status.state == "retrying"
    assert not data.status.exists()
    file.enter("running", now_ms=2)
    assert data.status.exists()
