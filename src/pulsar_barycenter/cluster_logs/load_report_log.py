"""The load-report log: each report of a broker as a file with one JSON line, for the pipeline.

    <root>/<yyyy-mm-dd>/<broker>-<incarnation>-<sequence>.json

The date is that of `lastUpdate` in UTC. A file appears completely, by a rename, and is never changed. Until then its
name begins with a dot, which Spark's file source ignores. The colon of a broker id becomes an underscore, because
Hadoop's paths cannot contain one. The reader may move files away. Files older than the retention are removed, whichever
broker wrote them.
"""

import datetime
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import structlog

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_report

log = structlog.get_logger(__name__)

_SWEEP_EVERY_MS: Final = 600_000
_HOUR_MS: Final = 3_600_000


class ReportLog(Protocol):
    """Stores load reports."""

    def append(self, report: LocalBrokerData) -> None:
        """Store `report`. If that fails, the report is lost, the process log gets one line, and nothing is raised."""
        ...

    def close(self) -> None:
        """Release what the log uses; no report may be appended after this. Does not block; idempotent."""
        ...


class NoReportLog:
    """A log of load reports that stores nothing: for `loadReportLogEnabled=false`, and for simulations without a
    pipeline.
    """

    def append(self, report: LocalBrokerData) -> None:
        pass

    def close(self) -> None:
        pass


class FileReportLog:
    """Stores load reports as files, one for each report; the docstring of the module describes the folders."""

    def __init__(self, root: Path, *, retention_hours: float) -> None:
        self._root = root
        self._retention_ms = retention_hours * _HOUR_MS
        self._next_sweep_ms = 0.0

    def append(self, report: LocalBrokerData) -> None:
        try:
            write_report(self._root, report)
        except OSError as error:
            log.warning("load_report_not_logged", sequence=report.sequence, reason=str(error))
        if report.last_update >= self._next_sweep_ms:
            self._next_sweep_ms = report.last_update + _SWEEP_EVERY_MS
            self._sweep(report.last_update)

    def close(self) -> None:
        pass

    def _sweep(self, now_ms: int) -> None:
        """Delete folders and files of load reports that are older than the retention. The age of a file counts from its
        last change.
        """
        oldest_ms = now_ms - self._retention_ms
        with suppress(OSError):
            for folder in sorted(self._root.iterdir()):
                # a date that ends after the retention limit may contain files to keep
                if _is_date(folder.name) and folder.name <= _date(oldest_ms):
                    _remove_older(folder, oldest_ms)


def write_report(root: Path, report: LocalBrokerData) -> None:
    """Write the file of `report` below `root`; an earlier file with the same name is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    folder = root / _date(report.last_update)
    folder.mkdir(parents=True, exist_ok=True)
    name = report_file_name(report)
    hidden = folder / f".{name}.tmp"
    try:
        hidden.write_bytes(encode_report(report) + b"\n")
        os.replace(hidden, folder / name)
    except OSError:
        with suppress(OSError):
            hidden.unlink()
        raise


def report_file_name(report: LocalBrokerData) -> str:
    """Return the file name of `report`. It is unique, because no broker reuses a sequence number within an
    incarnation.
    """
    broker = "".join(c if c.isalnum() or c in ".-_" else "_" for c in report.broker_id or "unknown")
    return f"{broker}-{report.incarnation or 'none'}-{report.sequence}.json"


def _remove_older(folder: Path, oldest_ms: float) -> None:
    with suppress(OSError):
        for file in folder.iterdir():
            with suppress(OSError):  # another broker removed it, or the reader moved it
                if file.stat().st_mtime * 1000 < oldest_ms:
                    file.unlink()
        folder.rmdir()  # fails unless the folder is empty


def _date(ms: float) -> str:
    return datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC).strftime("%Y-%m-%d")


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
