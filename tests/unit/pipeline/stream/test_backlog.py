"""How a backlog of files is cut into batches, and which parts of a batch came too late, without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.reports.acceptance import (
    AcceptedReports,
    ReportHeader,
    ReportKey,
    SeenSequences,
    accept_reports,
)
from pulsar_barycenter.pipeline.reports.log_files import empty_files, waiting_files
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.backlog import FileHeader, in_order, move_to_archive
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue
from pulsar_barycenter.pipeline.stream.generations import begin_own_batch, current_generation
from pulsar_barycenter.pipeline.stream.late import REFOLD_MEMORY_MS, overdue_reports, refold_due
from pulsar_barycenter.pipeline.stream.state import BatchMemory, PriorState, StateFolder


def key(at: int, sequence: int, *, broker: str = "b") -> ReportKey:
    return ReportKey(at, broker, "i", sequence)


@given(st.permutations(range(30)), st.integers(1, 12))
def test_files_are_cut_by_the_times_of_their_reports(order: list[int], most: int) -> None:
    """For any names and any order; files that are not reports come first."""
    headers = [FileHeader(f"{order[at]}", key(at, at // 3, broker=f"b{at % 3}")) for at in order]
    batches = in_order([*headers, FileHeader("torn", None)], most)
    assert [file for batch in batches for file in batch] == ["torn", *(f"{order[at]}" for at in range(30))]
    assert {len(batch) for batch in batches[:-1]} <= {most}


def test_sequences_are_stronger_than_a_clock_that_was_set_back() -> None:
    headers = [FileHeader("3", key(5, 3)), FileHeader("2", key(90, 2)), FileHeader("1", key(10, 1))]
    other = FileHeader("c", key(50, 1, broker="c"))
    assert in_order([*headers, other], 1) == [("1",), ("c",), ("2",), ("3",)]


def test_a_file_of_several_reports_stands_with_those_between_them() -> None:
    several = [FileHeader("all", key(at, at)) for at in (1, 5, 9)]
    between = [FileHeader(f"{at}", key(at, 1, broker=f"c{at}")) for at in (4, 8, 10)]
    assert in_order([*several, *between], 1) == [("all", "4", "8"), ("10",)]


def test_a_backlog_is_what_lies_in_the_log_until_it_is_moved(tmp_path_factory: pytest.TempPathFactory) -> None:
    layout = PipelineLayout.of(tmp_path_factory.mktemp("data"))
    layout.create()
    shown = ["2026-01-01/a.json", "direct.json"]
    for name in [*shown, "2026-01-01/.b.json.tmp", "2026-01-01/_c.json", "_d/e.json", "2026-01-01/f.txt"]:
        file = layout.report_log / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
    assert waiting_files(layout) == {f"load-reports/{name}" for name in shown}
    (layout.report_log / "2026-01-01" / "_empty.json").touch()
    assert empty_files(layout) == []
    (layout.report_log / "2026-01-01" / "empty.json").touch()
    assert empty_files(layout) == ["load-reports/2026-01-01/empty.json"]
    (layout.report_log / "2026-01-01" / "empty.json").unlink()
    files = [str(layout.report_log / name) for name in [*shown, "gone.json"]]
    move_to_archive(layout, [f"file:{file}" for file in files])
    assert waiting_files(layout) == set()
    assert {file.read_text() for file in layout.archive.rglob("*.json")} == set(shown)


def test_ids_of_batches_are_used_once_wherever_the_process_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Spark's next batch comes after, also if the state of this one is never written."""
    layout = PipelineLayout.of(tmp_path_factory.mktemp("data"))
    layout.create()
    states = StateFolder(layout)
    states.write(4, PriorState(4, BatchMemory()))
    assert begin_own_batch(layout) == 5
    assert current_generation(layout)[1] == 6
    assert begin_own_batch(layout) == 6, "batch 5 was not completed"
    states.write(6, PriorState(6, BatchMemory()))
    assert begin_own_batch(layout) == 7
    assert [folder.name for folder in layout.checkpoints.iterdir()] == ["from-000000000008"]


def header(at: int, sequence: int) -> ReportHeader:
    return ReportHeader(sequence, key(at, sequence), ())


def test_a_report_of_a_settled_interval_is_overdue_and_so_is_one_whose_samples_were_overtaken() -> None:
    accepted = [header(59, 1), header(60, 2), header(61, 3)]
    found = overdue_reports(accepted, 60, [("b", "i", 3), ("c", "i", 2)])
    assert [each.key.sequence for each in found] == [1, 3]
    assert overdue_reports(accepted, None, []) == []


def test_the_range_to_fold_anew_grows_and_is_forgotten_at_last() -> None:
    known = accept_reports(AcceptedReports(300, (SeenSequences("b", "i", 5, (2, 3), 300),)), [])
    late = accept_reports(known.reports, [header(150, 2)])
    first = refold_due(None, late, [], [])
    assert first == RefoldDue(150, 300, 1, 0)
    grown = refold_due(first, late, [header(120, 3)], [110, 400])
    assert grown == RefoldDue(110, 300, 3, 2)
    assert refold_due(grown, known, [], []) == grown
    for after, kept in ((0, True), (1, False)):
        ahead = accept_reports(AcceptedReports(), [header(300 + REFOLD_MEMORY_MS + after, 9)])
        assert (refold_due(grown, ahead, [], []) is not None) == kept
