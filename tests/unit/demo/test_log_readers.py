"""What a demo reads from the files of its cluster: growing decision logs, and the pipeline's lags."""

from pathlib import Path

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.demo.log_readers import DecisionReader, pipeline_batches
from pulsar_barycenter.load.reasons import Code, Reason

REASON = Reason(code=Code.ADMIN)


def test_decisions_are_told_once_and_an_unfinished_line_waits(tmp_path: Path) -> None:
    reader = DecisionReader(tmp_path)
    assert reader.new_events() == []
    first, second = DecisionLog("a:1", tmp_path), DecisionLog("b:1", tmp_path)
    first.record(2_500, "assign", REASON, bundle="t/n/0", destination="a:1")
    first.record(3_000, "shed", REASON)
    second.record(4_000, "unload", REASON, bundle="t/n/0", source="a:1", destination="b:1")
    found = [(each.at_s, each.kind, each.bundle, each.source, each.destination) for each in reader.new_events()]
    assert found == [(2.5, "assignment", "t/n/0", None, "a:1"), (4.0, "unload", "t/n/0", "a:1", "b:1")]
    second.record(5_000, "split", REASON, bundle="t/n/1", source="b:1")
    file = tmp_path / "b_1.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert reader.new_events() == []
    file.write_bytes(whole)
    assert [each.kind for each in reader.new_events()] == ["split"]
    assert reader.new_events() == []


def test_lags_are_those_of_batches_that_had_reports_and_failures_have_their_reason(tmp_path: Path) -> None:
    log = tmp_path / "pipeline.log"
    log.write_text(
        "WARN a line of Java\n"
        '{"event": "pipeline_started"}\n'
        '{"event": "pipeline_batch", "lag_seconds": 1.5, "reports": 3}\n'
        '{"event": "pipeline_batch", "lag_seconds": null}\n'
        '{"event": "pipeline_batch_failed", "reason": "OSError: no room", "retry_in_s": 1.0}\n'
        '{"event": "pipeline_batch", "lag_seconds": 2}\n'
    )
    assert pipeline_batches(log) == ([1.5, 2.0], ["OSError: no room"])
