"""Demand from traces, from recorded samples and from a seed; and what is refused."""

from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel, fit
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import BrokerAdded, BrokerRemoved
from pulsar_barycenter.replay.inputs.recorded import Samples, Usages, recording, smallest
from pulsar_barycenter.replay.inputs.trace_demand import demand_of
from pulsar_barycenter.replay.synthetic.demand import Shape, bundle_names, generated
from pulsar_barycenter.replay.traces import read_trace

HEADER = "timestamp,value\n"
STEP_MS = 60_000
START_MS = 1_700_000_040_000
WHOLE, LEFT, RIGHT = (
    f"public/a/{text}" for text in ("0x00000000_0xffffffff", "0x00000000_0x40000000", "0x40000000_0xffffffff")
)


def lines(*rows: str) -> list[str]:
    return [HEADER, *(f"{row}\n" for row in rows)]


def test_a_trace_is_shared_by_its_topics_in_the_bundles_of_their_hashes() -> None:
    trace = read_trace("x", lines("2026-01-01 00:00:00,600", "2026-01-01 00:05:00,1200"))
    demand = demand_of([trace], bundles=8, topics=2, scale=3, brokers=2)
    assert demand.steps == 10
    np.testing.assert_allclose(demand.rate_in[:5], 600 / 300 * 3 / 2)
    np.testing.assert_allclose(demand.rate_in[5:], 1200 / 300 * 3 / 2)
    for number in range(2):
        name = TopicName.parse(f"persistent://public/ns-0000/x-{number}")
        assert Bundle.parse(demand.bundles[demand.bundle_of[number]]).contains(name)


def test_traces_are_replayed_over_the_time_that_they_have_in_common() -> None:
    early = read_trace("a", lines(*(f"2026-01-01 00:{5 * row:02d}:00,{row}" for row in range(4))))
    late = read_trace("b", lines(*(f"2026-01-01 00:{5 * row:02d}:00,{row}" for row in range(2, 6))))
    demand = demand_of([early, late], topics=1, step_ms=300_000)
    assert demand.start_ms == late.start_ms
    np.testing.assert_allclose(demand.rate_in * 300, [[2, 2], [3, 3]])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (["time,value", "1,2"], "line 1 must name the columns timestamp and value"),
        (
            lines("2026-01-01 00:00:00,1", "2026-01-01 00:05:00,-1"),
            "line 3: a count must be a number of at least 0, not -1",
        ),
        (lines("2026-01-01 00:00:00,nan"), "line 2: a count must be a number"),
        (lines("2026-01-01 00:00:00,x"), "line 2: could not convert"),
        (lines("2026-01-01 00:00:00"), "line 2: "),
        (
            lines("2026-01-01 00:05:00,1", "2026-01-01 00:00:00,1"),
            "line 3: .* is not after the time of the row before; sort",
        ),
        (
            lines("2026-01-01 00:00:00,1", "2026-01-01 00:05:00,1", "2026-01-01 00:20:00,1"),
            "line 4: 900 s after the row before, but rows are 300 s apart",
        ),
        (lines("2026-01-01 00:00:00,1"), "needs two rows or more"),
    ],
)
def test_a_trace_that_is_wrong_is_refused_with_its_line(rows: list[str], text: str) -> None:
    with pytest.raises(ReplayInputError, match=text):
        read_trace("x.csv", rows)


def test_traces_that_do_not_go_together_are_refused() -> None:
    five = read_trace("a", lines("2026-01-01 00:00:00,1", "2026-01-01 00:05:00,1"))
    ten = read_trace("b", lines("2026-01-01 00:00:00,1", "2026-01-01 00:10:00,1"))
    other = read_trace("c", lines("2027-01-01 00:00:00,1", "2027-01-01 00:05:00,1"))
    with pytest.raises(ReplayInputError, match="b has steps of 600000 ms"):
        demand_of([five, ten])
    with pytest.raises(ReplayInputError, match="no time in common"):
        demand_of([five, other])
    with pytest.raises(ReplayInputError, match="cannot be divided into steps of 70000 ms"):
        demand_of([five], step_ms=70_000)
    with pytest.raises(ReplayInputError, match="there are no traces"):
        demand_of([])


def test_made_up_demand_has_the_rate_that_was_asked_for() -> None:
    demand = generated(Shape(bundles=30, namespaces=4, noise=0.0, rate=1000.0, steps=5, fan_out=2), 7)
    np.testing.assert_allclose(demand.rate_in.sum(axis=1), 1000)
    np.testing.assert_allclose(demand.rate_out, 2 * demand.rate_in)
    assert len({name.rpartition("/")[0] for name in demand.bundles}) == 4
    assert len(bundle_names(30, 4)) == 30
    with pytest.raises(ReplayInputError, match="30 bundles in 31 namespaces"):
        bundle_names(30, 31)


def samples(*rows: tuple[str, str, int, float]) -> Samples:
    """Rows of bundle, broker, minute and rate in; out is as in, a byte a message."""
    return Samples(
        [row[0] for row in rows],
        [row[1] for row in rows],
        np.array([START_MS + row[2] * STEP_MS for row in rows], np.int64),
        np.array([[row[3]] * 4 for row in rows]).T,
        np.array([4] * len(rows)),
        np.array([8] * len(rows)),
    )


def usages(*rows: tuple[str, int, float, float], sequence: int = 7) -> Usages:
    """Rows of broker, minute, CPU and rate in + out."""
    count = len(rows)
    return Usages(
        [row[0] for row in rows],
        np.array([START_MS + row[1] * STEP_MS for row in rows], np.int64),
        np.array([row[2] for row in rows]),
        np.full(count, 1600.0),
        np.full(count, 2048.0),
        np.full(count, 1e6),
        np.array([row[3] for row in rows]),
        np.zeros(count),
        np.full(count, sequence),
    )


NONE_USED: Any = usages()


def test_a_sample_counts_until_the_next_one() -> None:
    found = recording(samples((LEFT, "a:1", 0, 5), (RIGHT, "b:1", 1, 7), (LEFT, "a:1", 3, 6)), NONE_USED)
    np.testing.assert_array_equal(found.demand.rate_in, [[5, 7], [5, 7], [5, 7], [6, 7]])
    assert found.demand.owners == ("a:1", "b:1")
    assert sorted(found.cluster.brokers) == ["a:1", "b:1"]
    assert "limits of a:1 are not known" in found.warnings[0]


def test_the_traffic_of_a_bundle_before_its_split_is_shared_by_its_parts() -> None:
    found = recording(samples((WHOLE, "a:1", 0, 8), (LEFT, "a:1", 2, 5), (RIGHT, "b:1", 2, 7)), NONE_USED)
    assert found.demand.bundles == (WHOLE,)
    np.testing.assert_allclose(found.demand.rate_in, [[2, 6], [2, 6], [5, 7]], rtol=1e-8)
    assert found.demand.owners == ("a:1",)
    assert found.demand.bundle_of.tolist() == [0, 0]
    assert found.demand.spans is not None
    left, right = (Bundle.parse(name).range for name in (LEFT, RIGHT))
    assert found.demand.spans.T.tolist() == [[left.lower, left.upper], [right.lower, right.upper]]
    assert smallest([WHOLE, LEFT]) == {WHOLE: [(LEFT, 1.0)], LEFT: [(LEFT, 1.0)]}


def test_brokers_come_and_go_with_their_reports() -> None:
    rows = [(LEFT, "a:1", minute, 1.0) for minute in range(0, 91, 10)]
    rows += [(RIGHT, "b:1", minute, 1.0) for minute in range(0, 31, 10)]
    rows += [(RIGHT, "c:1", minute, 1.0) for minute in range(40, 91, 10)]
    found = recording(samples(*rows), usages(("c:1", 40, 9.0, 2.0)))
    assert sorted(found.cluster.brokers) == ["a:1", "b:1"]
    assert found.events == (
        BrokerRemoved(START_MS + 31 * STEP_MS, "b:1"),
        BrokerAdded(START_MS + 40 * STEP_MS, "c:1", Capacity(16, 2048, 1e6)),
    )


def test_a_bundle_that_belongs_to_its_broker_is_left_out() -> None:
    found = recording(samples((LEFT, "a:1", 0, 8), ("pulsar/a:1/0x00000000_0xffffffff", "a:1", 0, 5)), NONE_USED)
    assert found.demand.bundles == (LEFT,)


@pytest.mark.parametrize(("sequence", "joined"), [(1, True), (2, False)])
def test_a_broker_joins_with_the_first_report_of_its_life(sequence: int, joined: bool) -> None:
    """One that was there already may have been silent until then: brokers report what changed."""
    rows = [(LEFT, "a:1", minute, 1.0) for minute in range(0, 31, 10)] + [(RIGHT, "b:1", 20, 1.0)]
    found = recording(samples(*rows), usages(("b:1", 10, 9.0, 2.0), sequence=sequence))
    joins = BrokerAdded(START_MS + 10 * STEP_MS, "b:1", Capacity(16, 2048, 1e6))
    assert found.events == ((joins,) if joined else ())
    assert sorted(found.cluster.brokers) == (["a:1"] if joined else ["a:1", "b:1"])


def test_a_history_with_a_gap_or_nothing_in_it_is_refused() -> None:
    with pytest.raises(ReplayInputError, match=r"no broker reported between .* 30 min"):
        recording(samples((LEFT, "a:1", 0, 1), (LEFT, "a:1", 30, 1)), NONE_USED)
    with pytest.raises(ReplayInputError, match="no sample of a bundle"):
        recording(samples(), NONE_USED)
    with pytest.raises(ReplayInputError, match="rates must be numbers of at least 0"):
        recording(samples((LEFT, "a:1", 0, -1)), NONE_USED)
    with pytest.raises(ReplayInputError, match="nonsense is not a bundle"):
        recording(samples(("nonsense", "a:1", 0, 1)), NONE_USED)


def test_cpu_is_fitted_to_traffic_with_its_quality() -> None:
    rng = np.random.default_rng(1)
    rate, throughput = rng.uniform(0, 1e5, 200), rng.uniform(0, 1e8, 200)
    exact = fit(10 + 0.003 * rate + 2e-6 * throughput, rate, throughput)
    assert exact.model.cpu_per_message == pytest.approx(0.003)
    assert exact.model.cpu_per_byte == pytest.approx(2e-6)
    assert exact.model.idle_cpu == pytest.approx(10)
    assert exact.determination == pytest.approx(1)
    noisy = fit(10 + 0.003 * rate + rng.normal(0, 100, 200), rate, throughput)
    assert 0.1 < noisy.determination < 0.9
    assert noisy.error_percent == pytest.approx(100, rel=0.2)


def test_a_fit_has_no_negative_terms() -> None:
    rate = np.linspace(0, 1e5, 50)
    falling = fit(200 - 0.001 * rate, rate, rate * 10)
    assert falling.model.cpu_per_message == falling.model.cpu_per_byte == 0
    assert falling.model.idle_cpu == pytest.approx(150)
    assert falling.determination == pytest.approx(0, abs=1e-9)
    assert fit(np.array([]), np.array([]), np.array([])).model == CapacityModel(0, 0, 0)


def test_too_few_reports_to_fit_are_told() -> None:
    saturated = [("a:1", minute, 1590.0, 2.0) for minute in range(20)]
    found = recording(samples((LEFT, "a:1", 0, 5)), usages(("a:1", 0, 9.0, 2.0), *saturated))
    assert found.fit is None
    assert found.cluster.model == CapacityModel()
    assert "too few to fit" in found.warnings[-1]
