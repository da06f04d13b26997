"""The phases of Spark's triggers, counted by any thread and read by another."""

import statistics
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.pipeline.running.phases import PhaseTimes, TriggerPhases

MS = st.integers(0, 10**6)


@given(st.lists(st.dictionaries(st.sampled_from(["addBatch", "getBatch", "walCommit"]), MS), max_size=30))
def test_a_phase_has_its_newest_its_sum_and_the_percentiles_of_all_its_triggers(triggers: list[dict[str, int]]) -> None:
    phases = TriggerPhases()
    for durations in triggers:
        phases.add(durations)
    expected = {}
    for phase in sorted({phase for durations in triggers for phase in durations}):
        values = [durations[phase] for durations in triggers if phase in durations]
        expected[phase] = PhaseTimes(values[-1], statistics.median_low(values), max(values), sum(values))
    assert phases.times() == expected
    assert list(phases.times()) == list(expected)


def test_percentiles_forget_what_is_a_thousand_triggers_old_and_the_sum_does_not() -> None:
    phases = TriggerPhases()
    phases.add({"addBatch": 10**6})
    for _ in range(1000):
        phases.add({"addBatch": 1})
    assert phases.times() == {"addBatch": PhaseTimes(1, 1, 1, 10**6 + 1000)}


def test_of_very_many_phases_the_first_are_counted() -> None:
    phases = TriggerPhases()
    phases.add({f"phase{number:03}": 1 for number in range(100)})
    assert list(phases.times()) == [f"phase{number:03}" for number in range(32)]


def test_no_trigger_is_lost_between_threads() -> None:
    phases = TriggerPhases()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(lambda: [(phases.add({"addBatch": 1}), phases.times()) for _ in range(200)])
    assert phases.times()["addBatch"].total_ms == 800
