"""Which reports of a batch count, and what is remembered of brokers."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from barycenter.pipeline.state import Acceptance, FoldedReports, ReportHeader, ReportKey, accept_reports

MEMORY_MS = 1000


def header(row: int, sequence: int, *, at: int = 0, broker: str = "b", incarnation: str = "i") -> ReportHeader:
    return ReportHeader(row, ReportKey(at or sequence, broker, incarnation, sequence), (f"bundle-{sequence}",))


def accept(folded: FoldedReports, headers: Iterable[ReportHeader]) -> Acceptance:
    return accept_reports(folded, headers, broker_memory_ms=MEMORY_MS)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.integers(1, 5),
)
def test_each_sequence_counts_once_however_reports_arrive(sequences: list[int], batches: int) -> None:
    """Any order, any copies, any cut into batches: what is accepted is each sequence once."""
    folded, accepted, dropped = FoldedReports(), [], 0
    for batch in range(batches):
        result = accept(folded, [header(row, s) for row, s in enumerate(sequences) if row % batches == batch])
        folded = result.folded
        accepted += [h.key.sequence for h in result.accepted]
        dropped += len(result.dropped_rows)
    assert sorted(accepted) == sorted(set(sequences))
    assert dropped == len(sequences) - len(set(sequences))


def test_a_copy_with_a_later_time_is_the_one_dropped() -> None:
    """Of two copies in one batch the earlier `lastUpdate` counts."""
    result = accept(FoldedReports(), [header(0, 1, at=9), header(1, 1, at=5)])
    assert result.dropped_rows == (0,)
    assert result.folded.as_of == 5


def test_the_newest_report_gives_a_brokers_bundles() -> None:
    """By time, then incarnation and sequence; a late report counts but does not bring bundles back."""
    first = accept(FoldedReports(), [header(0, 3, at=30), header(1, 1, at=40, incarnation="j")]).folded
    then = accept(first, [header(0, 2, at=20)])
    assert [h.key.sequence for h in then.accepted] == [2]
    assert then.folded.members == [("b", "bundle-1")]
    assert then.folded.as_of == 40


def test_a_sequence_too_far_back_is_taken_for_a_copy() -> None:
    """What is remembered of the past is bounded: 128 sequences."""
    folded = accept(FoldedReports(), [header(0, 1000)]).folded
    result = accept(folded, [header(0, 871), header(1, 872)])
    assert [h.key.sequence for h in result.accepted] == [872]


def test_a_silent_broker_is_forgotten_but_not_its_sequences() -> None:
    """Past the memory a broker has no bundles; a copy of its report is still known as one."""
    folded = accept(FoldedReports(), [header(0, 1, at=10)]).folded
    kept = accept(folded, [header(0, 1, at=10 + MEMORY_MS, broker="c")]).folded
    assert [broker for broker, _ in kept.members] == ["b", "c"]
    gone = accept(kept, [header(0, 2, at=11 + MEMORY_MS, broker="c")]).folded
    assert [broker for broker, _ in gone.members] == ["c"]
    assert accept(gone, [header(0, 1, at=10)]).accepted == ()
