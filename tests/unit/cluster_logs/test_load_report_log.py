"""The load-report log: one file per report, and their removal."""

import os
from pathlib import Path

from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog, report_file_name
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, decode_report

NOON_MS = 1_795_262_400_000
"""2026-11-21 12:00 UTC."""
HOUR_MS = 3_600_000


def report(sequence: int = 1, *, at_ms: int = NOON_MS) -> LocalBrokerData:
    return LocalBrokerData(broker_id="127.0.0.1:8080", incarnation="abc", sequence=sequence, last_update=at_ms)


def test_each_report_is_a_file_of_its_date_with_one_json_line(tmp_path: Path) -> None:
    log = FileReportLog(tmp_path, retention_hours=24)
    log.append(report(1))
    log.append(report(2, at_ms=NOON_MS + 12 * HOUR_MS))
    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.json")) == [
        "2026-11-21/127.0.0.1_8080-abc-1.json",
        "2026-11-22/127.0.0.1_8080-abc-2.json",
    ]
    (line,) = (tmp_path / "2026-11-21/127.0.0.1_8080-abc-1.json").read_bytes().splitlines()
    assert decode_report(line) == report(1)
    assert not list(tmp_path.rglob("*.tmp"))


def test_file_names_hold_nothing_that_a_path_cannot() -> None:
    odd = LocalBrokerData(broker_id="[::1]:80/..", incarnation="", sequence=3)
    assert report_file_name(odd) == "___1__80_..-none-3.json"


def test_old_reports_are_removed_whoever_wrote_them(tmp_path: Path) -> None:
    log = FileReportLog(tmp_path, retention_hours=24)
    for folder, name, age_hours in (("2026-11-19", "a", 48), ("2026-11-20", "b", 25), ("2026-11-20", "c", 23)):
        file = tmp_path / folder / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
        os.utime(file, times=(0, (NOON_MS - age_hours * HOUR_MS) / 1000))
    (tmp_path / "notes").mkdir()
    log.append(report())
    left = {file.name for file in tmp_path.rglob("*.json")}
    assert left == {"c.json", report_file_name(report())}
    assert not (tmp_path / "2026-11-19").exists()
    assert (tmp_path / "notes").exists()


def test_a_log_that_cannot_be_written_does_not_stop_the_broker(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    FileReportLog(tmp_path / "file", retention_hours=24).append(report())
