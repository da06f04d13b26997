"""The load-report log, the pipeline's publication as the leader reads it, and the decision log."""

import os
from pathlib import Path

import msgspec
import pytest

from barycenter.broker.load_manager.pipeline_feed import (
    FilePipeline,
    includes,
    is_exactly,
    published_averages,
    published_bundles,
)
from barycenter.load.reasons import Code, Reason
from barycenter.load.reports.load_report import LocalBrokerData, decode_report
from barycenter.load.reports.publication import PipelinePublication, encode_publication
from barycenter.logs.decision_log import DecisionLog, DecisionRecord
from barycenter.logs.load_report_log import FileReportLog, report_file_name

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


def publication(batch_id: int = 1) -> PipelinePublication:
    columns = {
        f"{window}_{figure}": [index + 1.0, index + 2.0]
        for index, (window, figure) in enumerate(
            (window, figure)
            for window in ("short", "long")
            for figure in ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
        )
    }
    averages = {
        f"{window}_term_{figure}": [float(index)]
        for index, (window, figure) in enumerate(
            (window, figure)
            for window in ("short", "long")
            for figure in ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
        )
    }
    return PipelinePublication(
        batch_id=batch_id,
        published_at=5,
        as_of=4,
        last_sequence={"b": ("i", 7)},
        bundle=["t/n/x", "t/n/y"],
        topics=[3, 4],
        short_num_samples=[10, 2],
        long_num_samples=[12, 2],
        broker=["b"],
        **columns,
        **averages,
    )


def test_published_columns_become_windows_and_averages() -> None:
    bundles, averages = published_bundles(publication()), published_averages(publication())
    short, long = bundles["t/n/y"].short_term_data, bundles["t/n/y"].long_term_data
    assert (short.max_samples, short.num_samples, short.msg_rate_in, short.msg_throughput_out) == (10, 2, 2, 5)
    assert (long.max_samples, long.num_samples, long.msg_rate_in, long.msg_throughput_out) == (1000, 2, 6, 9)
    assert bundles["t/n/x"].topics == 3
    assert (averages["b"].short_term_msg_throughput_in, averages["b"].short_term_msg_rate_out) == (0, 3)
    assert (averages["b"].long_term_msg_throughput_in, averages["b"].long_term_msg_rate_out) == (4, 7)


@pytest.mark.parametrize(
    ("broker", "incarnation", "sequence", "included", "exactly"),
    [("b", "i", 7, True, True), ("b", "i", 6, True, False), ("b", "i", 8, False, False), ("b", "j", 1, False, False),
     ("c", "i", 1, False, False)],
)  # fmt: skip
def test_a_report_is_included_up_to_the_published_sequence(
    broker: str, incarnation: str, sequence: int, included: bool, exactly: bool
) -> None:
    seen = LocalBrokerData(incarnation=incarnation, sequence=sequence)
    assert (includes(publication(), broker, seen), is_exactly(publication(), broker, seen)) == (included, exactly)


def replace(folder: Path, document: bytes) -> None:
    hidden = folder / ".new"
    hidden.write_bytes(document)
    hidden.replace(folder / "latest.json")


def test_a_publication_is_read_when_it_changes_and_kept_when_it_is_unreadable(tmp_path: Path) -> None:
    feed = FilePipeline(tmp_path)
    assert feed.latest() is None
    replace(tmp_path, encode_publication(publication(1)))
    first = feed.latest()
    assert first == publication(1)
    assert feed.latest() is first
    replace(tmp_path, b'{"batchId": ')
    assert feed.latest() is first
    replace(tmp_path, encode_publication(publication(22)))
    assert feed.latest() == publication(22)
    (tmp_path / "latest.json").unlink()
    assert feed.latest() == publication(22)


def test_decisions_are_kept_in_memory_and_as_json_lines(tmp_path: Path) -> None:
    log = DecisionLog("127.0.0.1:8080", tmp_path / "decisions", kept=2)
    cause = Reason(code=Code.BALANCED, strategy="ThresholdShedder")
    for number in range(3):
        log.record(1000 + number, "unload", Reason(code=Code.ADMIN, cause=cause), bundle=f"t/n/{number}", source="a")
    assert [(record.number, record.bundle) for record in log.recent()] == [(2, "t/n/1"), (3, "t/n/2")]
    assert [record.bundle for record in log.recent(1)] == ["t/n/2"]
    assert log.recent(0) == []
    lines = (tmp_path / "decisions/127.0.0.1_8080.jsonl").read_bytes().splitlines()
    decoded = [msgspec.json.decode(line, type=DecisionRecord) for line in lines]
    assert decoded[1:] == log.recent()
    assert (decoded[0].at, decoded[0].by, decoded[0].strategy) == (1000, "127.0.0.1:8080", "ThresholdShedder")
    assert "an administrator asked for it" in decoded[0].sentence


def test_a_large_decision_file_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barycenter.logs.decision_log.FILE_BYTES", 10)
    log = DecisionLog("b", tmp_path)
    for _ in range(3):
        log.record(1, "shed", Reason(code=Code.BALANCED))
    assert len((tmp_path / "b.jsonl").read_bytes().splitlines()) == 1
    assert len((tmp_path / "b.jsonl.1").read_bytes().splitlines()) == 1


def test_a_decision_file_that_cannot_be_written_costs_no_decision(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = DecisionLog("b", tmp_path / "file")
    log.record(1, "shed", Reason(code=Code.BALANCED))
    assert len(log.recent()) == 1
