"""When the balancer pauses, goes on, and hands back: one observation after the other."""

from dataclasses import replace

import pytest

from pulsar_barycenter.balancer.judging.watchdog import Cause, Observed, Watch, Watched, blind, moved_after, watched
from pulsar_barycenter.balancer.options import MINUTE_MS, WatchLimits

LIMITS = WatchLimits(
    report_interval_ms=MINUTE_MS,
    grown=0.05,
    more_errors=60,
    settle_ms=3 * MINUTE_MS,
    quiet_ms=5 * MINUTE_MS,
    hand_back_ms=15 * MINUTE_MS,
)
MOVE = "t/n/0x00000000_0x80000000 moved from a:1 to b:1"


def seen(minute: float, **changes: object) -> Observed:
    """A round at this minute, of a current view without any trouble unless `changes` say so."""
    at_ms = round(minute * MINUTE_MS)
    return replace(Observed(at_ms=at_ms, oldest_ms=at_ms, above_mean=0.2), **changes)  # type: ignore[arg-type]


def after(*observations: Observed, watch: Watch | None = None) -> Watch:
    watch = watch or Watch()
    for observed in observations:
        watch = watched(watch, observed, LIMITS)
    return watch


def test_nothing_unusual_lets_it_act() -> None:
    assert after(seen(1), seen(2)) == Watch()


@pytest.mark.parametrize(("age_min", "paused"), [(2.0, False), (2.001, True)])
def test_a_view_older_than_two_report_intervals_pauses_until_it_is_current(age_min: float, paused: bool) -> None:
    old = seen(60, oldest_ms=round((60 - age_min) * MINUTE_MS))
    watch = after(old)
    assert (watch.state is Watched.PAUSED) is paused
    assert after(seen(61), watch=watch).may_act


def test_a_broker_without_any_load_pauses_and_is_named() -> None:
    watch = after(seen(1, silent=("b:1",), oldest_ms=0))
    assert watch.why == "b:1 has reported no load yet"
    assert not watch.may_act


def test_a_foreign_move_pauses_for_the_quiet_time_after_the_last_one() -> None:
    watch = after(seen(1, foreign=(MOVE,)), seen(3), seen(4, foreign=(MOVE, MOVE)))
    assert watch.state is Watched.PAUSED
    assert watch.why == f"something else moves bundles too: {MOVE} and 1 other move"
    assert after(seen(8.9), watch=watch).why == watch.why
    assert after(seen(9), watch=watch).may_act


def test_shedding_that_somebody_switched_on_hands_back_at_once_and_for_good() -> None:
    watch = after(seen(1, sheds=True))
    assert (watch.state, list(watch.reasons)) == (Watched.HANDED_BACK, [Cause.SHEDDING_ON])
    assert after(seen(2), seen(90), watch=watch) == watch


def test_an_imbalance_that_grew_after_own_moves_pauses_once_it_had_time_to_settle() -> None:
    watch = moved_after(after(seen(1)), 0.2, None, 1 * MINUTE_MS)
    assert after(seen(3, above_mean=0.4), watch=watch).may_act, "too early to judge"
    worse = after(seen(4, above_mean=0.26), watch=watch)
    assert (
        worse.why
        == "the usage above the mean grew after moves of this program: it was 20.0 points, and it is 26.0 points now"
    )
    assert after(seen(5, above_mean=0.21), watch=worse).state is Watched.PAUSED
    assert after(seen(5, above_mean=0.2), watch=worse).may_act


def test_moves_after_which_the_imbalance_grew_within_the_limit_pass() -> None:
    watch = moved_after(after(seen(1)), 0.2, None, 1 * MINUTE_MS)
    settled = after(seen(4, above_mean=0.25), watch=watch)
    assert settled == Watch()
    assert after(seen(5, above_mean=0.9), watch=settled).may_act, "load that grows later is not of these moves"


def test_moves_are_judged_by_the_imbalance_before_the_first_of_them() -> None:
    watch = moved_after(moved_after(Watch(), 0.2, None, 0), 0.24, None, 2 * MINUTE_MS)
    assert after(seen(4, above_mean=0.28), watch=watch).may_act
    assert after(seen(5, above_mean=0.28), watch=watch).state is Watched.PAUSED


def test_errors_of_clients_that_grew_after_own_moves_pause_until_they_are_back() -> None:
    watch = moved_after(after(seen(1)), None, 10.0, 1 * MINUTE_MS)
    assert after(seen(2, errors=70.0), watch=watch).may_act, "a move may cost its clients some"
    more = after(seen(2, errors=71.0), watch=watch)
    assert list(more.reasons) == [Cause.ERRORS]
    assert more.why == "clients get more errors after moves of this program: 10 a minute before, 71 now"
    assert "an unknown number now" in after(seen(3), watch=more).why
    assert after(seen(9, errors=71.0), watch=more).state is Watched.PAUSED, "time alone does not end it"
    assert after(seen(3, errors=70.0), watch=more).may_act


def test_errors_are_judged_in_each_round_until_the_moves_had_time_to_settle() -> None:
    watch = moved_after(moved_after(Watch(), None, 10.0, 0), None, 100.0, 2 * MINUTE_MS)
    assert watch.judges_errors
    assert after(seen(4, errors=71.0), watch=watch).state is Watched.PAUSED, "by those before the first move"
    assert after(seen(3, errors=70.0), seen(4, errors=71.0), watch=watch).state is Watched.PAUSED
    assert after(seen(5, errors=71.0), watch=watch).state is Watched.PAUSED
    settled = after(seen(5, errors=70.0), watch=watch)
    assert not settled.judges_errors
    assert after(seen(6, errors=9_000.0), watch=settled).may_act, "errors that grow later are not of these moves"
    assert not after(seen(5, errors=71.0, sheds=True), watch=watch).judges_errors, "it has handed back"


def test_moves_are_not_judged_by_errors_that_nobody_knows() -> None:
    watch = moved_after(Watch(), None, None, 0)
    assert watch == Watch()
    assert after(seen(1), seen(9), watch=moved_after(Watch(), None, 1.0, 0)).may_act


def test_a_pause_that_lasts_hands_back_also_if_its_reasons_change() -> None:
    old = {"oldest_ms": 0}
    watch = after(seen(10, **old), seen(24, foreign=(MOVE,)))
    assert watch.state is Watched.PAUSED
    assert after(seen(25, **old), watch=watch).state is Watched.HANDED_BACK
    short = after(seen(20), seen(25, **old), watch=after(seen(10, **old)))
    assert short.state is Watched.PAUSED, "a pause that ended does not count"


def test_clocks_that_differ_pause() -> None:
    watch = after(seen(1, clock="the clock of b is 3,600 s ahead"))
    assert watch.why == "the clock of b is 3,600 s ahead"
    assert after(seen(2), watch=watch).may_act


def test_without_anything_to_hand_back_a_pause_ends_only_with_its_reason() -> None:
    watch = after(seen(1, oldest_ms=0, acts=False), seen(90, oldest_ms=0, acts=False))
    assert watch.state is Watched.PAUSED
    assert after(seen(91, acts=False), watch=watch).may_act


@pytest.mark.parametrize(("age_ms", "is_blind"), [(120_000, False), (120_001, True)])
def test_a_round_that_takes_longer_than_two_intervals_begins_no_other_move(age_ms: int, is_blind: bool) -> None:
    found = blind(looked_ms=1_000, now_ms=1_000 + age_ms, interval_ms=60_000)
    assert bool(found) is is_blind
