"""The decision log: in memory, in files, and read back."""

from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, DecisionRecord, read_decisions
from pulsar_barycenter.load.reasons import Code, Reason


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
    assert "an administrator requested it" in decoded[0].sentence


def test_a_decision_says_which_load_manager_made_it_and_a_line_that_does_not_is_read_nevertheless(
    tmp_path: Path,
) -> None:
    log = DecisionLog("b:1", tmp_path)
    log.record(1, "shed", Reason(code=Code.BALANCED))
    log.record(2, "shed", Reason(code=Code.BALANCED), manager="extensible")
    assert [record.manager for record in read_decisions(tmp_path)] == ["", "extensible"]
    lines = (tmp_path / "b_1.jsonl").read_bytes().splitlines()
    assert [b'"manager":"extensible"' in line for line in lines] == [False, True]


def test_a_large_decision_file_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_barycenter.cluster_logs.json_lines.FILE_BYTES", 10)
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


def test_the_logs_of_all_brokers_are_read_in_order_and_an_unfinished_line_is_passed_over(tmp_path: Path) -> None:
    first, second = (DecisionLog(name, tmp_path / "decisions") for name in ("a:1", "b:1"))
    second.record(1_000, "assign", Reason(code=Code.IDLE_BROKER), bundle="t/n/0", destination="a:1")
    first.record(3_000, "unload", Reason(code=Code.HEAVIEST_BUNDLE), bundle="t/n/0", source="a:1")
    second.record(2_000, "shed", Reason(code=Code.BALANCED))
    first.record(4_000, "refuse", Reason(code=Code.FAILED), bundle="t/n/1", refused="unload")
    with (tmp_path / "decisions" / "a_1.jsonl").open("ab") as file:
        file.write(b'{"at": 5000, "by"')
    assert [record.at for record in read_decisions(tmp_path)] == [1_000, 2_000, 3_000, 4_000]
    assert [record.at for record in read_decisions(tmp_path / "decisions")] == [1_000, 2_000, 3_000, 4_000]
