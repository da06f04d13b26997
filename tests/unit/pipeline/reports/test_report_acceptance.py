"""Which reports of a batch count, and what is stored about brokers."""

from collections.abc import Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.reports.acceptance import (
    HOLD_MS,
    MOST_GAPS,
    SEQUENCE_MEMORY_MS,
    AcceptedReports,
    ReportHeader,
    ReportKey,
    SeenSequences,
    accept_reports,
    taken_key,
    untold_reports,
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


def test_a_sequence_is_a_copy_only_if_it_was_taken() -> None:
    """However far back: 871 and 2 of an incarnation whose first known report is number 1000."""
    known = accept_reports(AcceptedReports(), [header(0, 1000)]).reports
    result = accept_reports(known, [header(0, 871), header(1, 2), header(2, 1000)])
    assert (sequences(result.late), sequences(result.dropped)) == ([2, 871], [1000])
    again = accept_reports(result.reports, [header(0, 871), header(1, 870), header(2, 3), header(3, 2)])
    assert (sequences(again.late), sequences(again.dropped)) == ([3, 870], [2, 871])


def test_gaps_are_remembered_up_to_a_bound_and_beyond_it_the_tables_are_asked() -> None:
    """Every second report comes; of the others the newest gaps are known, the oldest are looked up."""
    most = 2 * MOST_GAPS + 9
    every_second = [header(row, 2 * row + 1) for row in range(most)]
    ahead = header(most, 1, at=2 * most + HOLD_MS, broker="c")
    known = accept_reports(AcceptedReports(), [*every_second, ahead]).reports
    seen, _ = known.seen
    assert seen.gaps is not msgspec.UNSET
    assert len(seen.gaps) == MOST_GAPS
    lowest = seen.gaps[0][0]
    copies = [header(0, 1), header(1, lowest + 1)]
    forgotten, remembered = header(2, 2), header(3, lowest)
    untold = untold_reports(known, [*copies, forgotten, remembered])
    assert [key.sequence for key in untold] == [1, 2]
    told = {taken_key(key): key.sequence == 1 for key in untold}
    result = accept_reports(known, [*copies, forgotten, remembered], untold=told)
    assert (sequences(result.late), sequences(result.dropped)) == ([2, lowest], [1, lowest + 1])


def test_what_an_earlier_version_wrote_is_relied_on_as_far_as_it_went() -> None:
    """It kept single numbers of the last 128, and took what lay below for copies."""
    seen = SeenSequences("b", "i", 1000, (990, 992), 1000)
    known = AcceptedReports(1000, (seen,))
    asked = [header(0, 990), header(1, 991), header(2, 871), header(3, 1001)]
    assert [key.sequence for key in untold_reports(known, asked)] == [871]
    result = accept_reports(known, asked, untold={("b", "i", 871): False})
    assert (sequences(result.accepted), sequences(result.late)) == ([1001], [871, 990])
    assert sequences(result.dropped) == [991]
    assert [key.sequence for key in untold_reports(result.reports, asked)] == [871]
    assert not result.reports.seen[0].has(992)


def test_an_incarnation_that_began_before_the_present_one_is_late_as_a_whole() -> None:
    """Its files came with a later run; a broker that restarts with a slow clock is not affected."""
    known = accept_reports(AcceptedReports(), [header(0, 5, at=50), header(1, 6, at=60)]).reports
    former = [header(0, 1, at=20, incarnation="h"), header(1, 2, at=70, incarnation="h")]
    result = accept_reports(known, former, present={"b": "i"})
    assert (sequences(result.late), result.accepted) == ([1, 2], ())
    begun_anew = accept_reports(known, [header(0, 1, at=55, incarnation="j")], present={"b": "i"})
    assert (sequences(begun_anew.accepted), begun_anew.late) == ([1], ())


def test_a_report_older_than_the_memory_is_looked_up() -> None:
    """It counts if the tables do not have it, as late."""
    known = accept_reports(AcceptedReports(), [header(0, 1, at=1 + SEQUENCE_MEMORY_MS, broker="c")]).reports
    old = [header(0, 1, at=0, broker="d"), header(1, 2, at=-5, broker="d")]
    keys = untold_reports(known, old)
    assert [key.sequence for key in keys] == [2]
    for was_taken in (True, False):
        result = accept_reports(known, old, untold={("d", "i", 2): was_taken})
        assert sequences(result.late) == ([] if was_taken else [2])
        assert sequences(result.dropped) == ([2] if was_taken else [])


def test_an_incarnation_that_may_have_been_forgotten_is_looked_up() -> None:
    """It goes on after two days of silence: whether what came before was taken is not known any more."""
    known = accept_reports(AcceptedReports(), [header(0, 1, at=10 + SEQUENCE_MEMORY_MS, broker="c")]).reports
    back = accept_reports(known, [header(0, 5, at=20 + SEQUENCE_MEMORY_MS)])
    assert sequences(back.accepted) == [5]
    asked = [header(0, 4), header(1, 6, at=21 + SEQUENCE_MEMORY_MS)]
    assert [key.sequence for key in untold_reports(back.reports, asked)] == [4]
    result = accept_reports(back.reports, asked, untold={("b", "i", 4): False})
    assert (sequences(result.late), sequences(result.accepted)) == ([4], [6])


def test_an_incarnation_is_forgotten_after_two_days() -> None:
    """Long after the log has deleted its reports."""
    known = accept_reports(AcceptedReports(), [header(0, 1, at=10)]).reports
    kept = accept_reports(known, [header(0, 1, at=10 + SEQUENCE_MEMORY_MS, broker="c")]).reports
    assert [seen.broker for seen in kept.seen] == ["b", "c"]
    gone = accept_reports(kept, [header(0, 2, at=11 + SEQUENCE_MEMORY_MS, broker="c")]).reports
    assert [seen.broker for seen in gone.seen] == ["c"]
