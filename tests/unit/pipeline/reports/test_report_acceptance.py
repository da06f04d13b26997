"""Which reports of a batch count, and what is remembered of brokers."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.reports.acceptance import (
    HOLD_MS,
    SEQUENCE_MEMORY_MS,
    AcceptedReports,
    ReportHeader,
    ReportKey,
    accept_reports,
)


def header(row: int, sequence: int, *, at: int = 0, broker: str = "b", incarnation: str = "i") -> ReportHeader:
    return ReportHeader(row, ReportKey(at or sequence, broker, incarnation, sequence), (f"bundle-{sequence}",))


def sequences(headers: Iterable[ReportHeader]) -> list[int]:
    return [header.key.sequence for header in headers]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 5), st.sampled_from([1, HOLD_MS // 4, HOLD_MS]))
def test_each_sequence_counts_once_however_reports_arrive(numbers: list[int], batches: int, step_ms: int) -> None:
    """Any order, any copies, any cut into batches: each sequence is accepted, late or held once, and in order."""
    reports = AcceptedReports()
    held: tuple[ReportHeader, ...] = ()
    accepted: list[int] = []
    late: list[int] = []
    dropped = 0
    for batch in range(batches):
        new = [header(row, s, at=s * step_ms) for row, s in enumerate(numbers) if row % batches == batch]
        result = accept_reports(reports, [*held, *new])
        reports, held = result.reports, result.held
        accepted += sequences(result.accepted)
        late += sequences(result.late)
        dropped += len(result.dropped)
    assert sorted([*accepted, *late, *sequences(held)]) == sorted(set(numbers))
    assert dropped == len(numbers) - len(set(numbers))
    assert accepted == sorted(accepted)


def test_a_copy_with_a_later_time_is_the_one_dropped() -> None:
    """Of two copies in one batch the earlier `lastUpdate` counts."""
    result = accept_reports(AcceptedReports(), [header(0, 1, at=9), header(1, 1, at=5)])
    assert [dropped.row for dropped in result.dropped] == [0]
    assert result.reports.as_of == 5


def test_a_report_waits_for_its_predecessor_and_no_longer() -> None:
    """Number 3 waits for 2, 4 with it; when another broker is ten seconds ahead, 2 is given up and late at last."""
    first = accept_reports(AcceptedReports(), [header(0, 1)])
    waiting = accept_reports(first.reports, [header(0, 3), header(1, 4)])
    assert (sequences(waiting.accepted), sequences(waiting.held)) == ([], [3, 4])
    found = accept_reports(waiting.reports, [*waiting.held, header(9, 2)])
    assert (sequences(found.accepted), found.held, found.late) == ([2, 3, 4], (), ())
    ahead = header(9, 1, at=3 + HOLD_MS, broker="c")
    given_up = accept_reports(waiting.reports, [*waiting.held, ahead])
    assert sorted(sequences(given_up.accepted)) == [1, 3, 4]
    assert sequences(accept_reports(given_up.reports, [header(0, 2)]).late) == [2]


def test_nothing_waits_for_a_broker_that_restarted() -> None:
    """What was held of the former incarnation comes before the new one; what comes after that is late."""
    before = accept_reports(AcceptedReports(), [header(0, 1)])
    waiting = accept_reports(before.reports, [header(0, 3)])
    again = accept_reports(waiting.reports, [*waiting.held, header(1, 1, at=5, incarnation="j")], present={"b": "i"})
    assert [(h.key.incarnation, h.key.sequence) for h in again.accepted] == [("i", 3), ("j", 1)]
    late = accept_reports(again.reports, [header(0, 2)], present={"b": "j"})
    assert (sequences(late.late), late.accepted, late.reports.as_of) == ([2], (), 5)


def test_a_sequence_too_far_back_is_taken_for_a_copy() -> None:
    """What is remembered of the past is bounded: 128 sequences."""
    known = accept_reports(AcceptedReports(), [header(0, 1000)]).reports
    result = accept_reports(known, [header(0, 871), header(1, 872)])
    assert (sequences(result.late), sequences(result.dropped)) == ([872], [871])


def test_an_incarnation_is_forgotten_after_two_days() -> None:
    """Long after the log has deleted its reports."""
    known = accept_reports(AcceptedReports(), [header(0, 1, at=10)]).reports
    kept = accept_reports(known, [header(0, 1, at=10 + SEQUENCE_MEMORY_MS, broker="c")]).reports
    assert [seen.broker for seen in kept.seen] == ["b", "c"]
    gone = accept_reports(kept, [header(0, 2, at=11 + SEQUENCE_MEMORY_MS, broker="c")]).reports
    assert [seen.broker for seen in gone.seen] == ["c"]
