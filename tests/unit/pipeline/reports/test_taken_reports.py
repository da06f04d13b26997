"""Whether a report was taken, by the table: for the date of its time, and not by the batch that asks."""

from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.pipeline.reports.acceptance import SEQUENCE_MEMORY_MS, taken_key
from pulsar_barycenter.pipeline.reports.taken_reports import look_up_taken
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from pulsar_barycenter.pipeline.stream.state import StateFolder
from support.load_history import at, make_history
from support.pipeline_without_spark import key_of, rows_of, run_once


def test_reports_of_former_batches_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """History spans two dates; of one batch all that the table has counts, of itself nothing."""
    layout = PipelineLayout.of(tmp_path)
    layout.create()
    reports = make_history(5, reports=30)
    for piece in (reports[:12], reports[12:24]):
        run_once(layout, piece, StreamSettings(), monkeypatch)
    keys = [key_of(report) for report in reports]
    assert look_up_taken(layout, [], before=2) == {}
    for before, known in ((2, 24), (1, 12)):
        found = look_up_taken(layout, keys, before=before)
        assert [found[taken_key(key)] for key in keys] == [True] * known + [False] * (30 - known)


def test_a_batch_that_runs_again_takes_an_old_report_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of three days ago, of a forgotten incarnation: late, and in the table once, although the first
    attempt had written it; a later copy is recognized."""
    layout = PipelineLayout.of(tmp_path)
    layout.create()
    first, *_, last = make_history(6, reports=4, brokers=2)
    now = at(last, first.last_update + SEQUENCE_MEMORY_MS + 86_400_000)
    run_once(layout, [now], StreamSettings(), monkeypatch)
    old = msgspec.structs.replace(first, broker_id="127.0.0.1:9999")

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StateFolder, "write", cut_off)
        with pytest.raises(KeyboardInterrupt):
            run_once(layout, [old], StreamSettings(), monkeypatch)
    (again,) = run_once(layout, [old], StreamSettings(), monkeypatch)
    assert (again.late, again.duplicates) == (1, 0)
    (copy,) = run_once(layout, [old], StreamSettings(), monkeypatch)
    assert (copy.late, copy.duplicates) == (0, 1)
    assert [row["broker"] for row in rows_of(layout, "load_reports")].count("127.0.0.1:9999") == 1
