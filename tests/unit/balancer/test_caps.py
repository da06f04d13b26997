"""What the caps let a round move, after what was moved within the hour."""

from pulsar_barycenter.balancer.judging.caps import PastMove, Room, too_few
from pulsar_barycenter.balancer.options import HOUR_MS, MINUTE_MS, Caps

NOW_MS = 10 * HOUR_MS


def taken(caps: Caps, *throughputs: float, past: tuple[PastMove, ...] = ()) -> tuple[list[bool], Room]:
    room = Room(caps, past, now_ms=NOW_MS, round_ms=MINUTE_MS)
    return [room.take(f"b{number}", throughput) for number, throughput in enumerate(throughputs)], room


def test_a_round_gets_what_may_begin_until_the_next_one() -> None:
    assert taken(Caps(per_minute=2), 1, 1, 1)[0] == [True, True, False]
    assert taken(Caps(per_minute=0.1), 1, 1)[0] == [True, False]


def test_the_hour_counts_moves_that_are_younger_than_an_hour() -> None:
    past = (PastMove(NOW_MS - HOUR_MS, "old"), PastMove(NOW_MS - HOUR_MS + 1, "x"))
    answers, room = taken(Caps(per_hour=2), 1, 1, past=past)
    assert answers == [True, False]
    assert room.refused == {"b1": "2 moves began within the hour, and --per-hour is 2"}


def test_throughput_is_summed_over_the_hour_and_smaller_bundles_may_still_go() -> None:
    past = (PastMove(NOW_MS - 1, "x", 60.0),)
    answers, room = taken(Caps(throughput_per_hour=100), 50, 40, 1, past=past)
    assert answers == [False, True, False]
    assert set(room.refused) == {"b0", "b2"}


def test_a_bundle_above_the_cap_of_throughput_moves_if_nothing_else_did() -> None:
    assert taken(Caps(throughput_per_hour=100), 500, 1)[0] == [True, False]


def test_brokers_below_the_minimum_are_said() -> None:
    assert too_few(["a", "b"], Caps(min_brokers=2)) == ""
    assert "1 broker with a current report" in too_few(["a"], Caps(min_brokers=2))
