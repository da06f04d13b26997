"""The measures of a run, by hand."""

from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.replay.measures import MEASURES, Measures, measure
from pulsar_barycenter.replay.outcome import Moved, Outcome

STEP_MS = 60_000
HALF_HOUR_MS = 30 * 60_000


def an_outcome(usage: list[list[float]], **more: Any) -> Outcome:
    """Two brokers or more, live all the time, at rates in proportion to their usage."""
    rows = np.array(usage, float)
    settings: dict[str, Any] = {
        "at_ms": np.arange(len(rows), dtype=np.int64) * STEP_MS,
        "step_ms": STEP_MS,
        "brokers": tuple(f"b{column}" for column in range(rows.shape[1])),
        "live": np.ones(rows.shape, bool),
        "usage": rows,
        "cpu": rows,
        "rate": rows * 1000,
        "throughput": rows * 1e6,
        "unserved": np.zeros(len(rows)),
        "floor": rows.mean(axis=1),
        "moves": (),
        "splits": (),
        "unserved_topic_s": 0.0,
        "event_ms": (),
        "bundles": 8,
    }
    return Outcome(**{**settings, **more})


def a_move(minute: float, bundle: str, source: str, destination: str, kind: str = "unload") -> Moved:
    return Moved(
        at_ms=int(minute * 60_000),
        kind=kind,
        bundle=bundle,
        source=source,
        destination=destination,
        rate=10,
        sessions=3,
    )


def test_imbalance_of_two_steps() -> None:
    found = measure(an_outcome([[0.9, 0.3], [0.6, 0.6]]))
    assert found.max_over_mean == pytest.approx((0.9 / 0.6 + 1) / 2)
    assert found.deviation == pytest.approx(0.3 / 2)
    assert found.spread == pytest.approx(0.6 / 2)
    assert found.overloaded_s == 60
    assert found.area == pytest.approx(0.3 / 60)
    assert found.regret == pytest.approx(0.15)
    assert found.rate_max_over_mean == pytest.approx(found.max_over_mean)


def test_brokers_that_are_not_there_do_not_count() -> None:
    live = np.array([[True, True, False]])
    found = measure(an_outcome([[0.8, 0.4, 0.0]], live=live, floor=np.array([0.6])))
    assert found.max_over_mean == pytest.approx(0.8 / 0.6)
    assert found.spread == pytest.approx(0.4)


def test_even_is_three_steps_within_ten_points_of_the_mean() -> None:
    uneven, even = [0.9, 0.1], [0.55, 0.45]
    assert measure(an_outcome([even] * 3)).even_after_s == (0,)
    assert measure(an_outcome([uneven, even, even, uneven, even, even, even])).even_after_s == (240,)
    assert measure(an_outcome([uneven, even, even])).even_after_s == (None,)
    eventful = an_outcome([even] * 3 + [uneven] * 2 + [even] * 3, event_ms=(3 * STEP_MS + 20_000,))
    assert measure(eventful).even_after_s == (0, 100)


def test_moves_again_within_half_an_hour_and_back_within_an_hour_are_flaps() -> None:
    away, again = a_move(0, "x", "a", "b"), a_move(29, "x", "b", "c")
    later, back, late_back = a_move(30, "x", "b", "c"), a_move(59, "x", "b", "a"), a_move(60, "x", "b", "a")
    for moves, flaps in (([away, again], 1), ([away, later], 0), ([away, back], 1), ([away, late_back], 0)):
        assert measure(an_outcome([[0.5, 0.5]], moves=tuple(moves))).flaps == flaps
    crashed = a_move(1, "x", "b", "c", kind="assign")
    assert measure(an_outcome([[0.5, 0.5]], moves=(away, crashed))).flaps == 0


def test_moves_are_counted_by_kind_and_what_they_disturb() -> None:
    start = Moved(at_ms=0, kind="assign", bundle="y", destination="a")
    moves = (start, a_move(1, "x", "a", "b"), a_move(2, "y", "a", "b", "assign"), a_move(3, "z", "a", "b", "split"))
    found = measure(an_outcome([[0.5, 0.5]], moves=moves))
    assert (found.unloads, found.assignments, found.sessions_disturbed, found.moved_messages) == (1, 1, 9, 10)
    assert found.last_unload_s == 60
    assert measure(an_outcome([[0.5, 0.5]])).last_unload_s is None


def test_a_cluster_without_load_is_even() -> None:
    found = measure(an_outcome([[0.0, 0.0]] * 3))
    assert (found.max_over_mean, found.area, found.overloaded_s) == (1, 0, 0)


def test_every_measure_is_told_and_has_a_text() -> None:
    assert {each.name for each in MEASURES} == set(Measures.__struct_fields__)
    found = measure(an_outcome([[0.9, 0.1]], moves=(a_move(1, "x", "b0", "b1"),)))
    texts = {each.name: each.text(found) for each in MEASURES}
    assert texts["deviation"] == "40.0"
    assert texts["even_after_s"] == "never"
    assert texts["unloads"] == "1"
    assert texts["last_unload_s"] == "60"
