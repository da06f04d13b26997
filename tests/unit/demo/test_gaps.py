"""Gaps of topics, merged if they overlap."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.demo import gaps
from pulsar_barycenter.demo.gaps import Interruption, interruptions, seconds_without_receipt
from pulsar_barycenter.demo.plan import TopicResult

SPAN = st.tuples(st.integers(0, 200), st.integers(1, 20)).map(lambda span: (span[0] / 4, (span[0] + span[1]) / 4))
TOPICS = st.lists(st.lists(SPAN, max_size=8), max_size=5)


def topics(*spans: list[tuple[float, float]]) -> list[TopicResult]:
    return [
        TopicResult(f"t{number}", 0, 0, 0, 0, 0, 0, max((b - a for a, b in each), default=0.0), each)
        for number, each in enumerate(spans)
    ]


def test_gaps_at_one_time_are_one_interruption_with_the_longest_ones_times() -> None:
    found = interruptions(topics([(10.0, 11.0), (50.0, 50.5)], [(10.2, 11.4)], []))
    assert found == [Interruption(10.2, 11.4, ("t1", "t0")), Interruption(50.0, 50.5, ("t0",))]
    assert found[0].seconds == 11.4 - 10.2


def test_a_chain_of_short_gaps_does_not_become_one_long_interruption() -> None:
    spans = [[(second / 2, second / 2 + 0.6)] for second in range(100)]
    found = interruptions(topics(*spans))
    assert max(one.seconds for one in found) < 0.61
    assert len(found) > 30


def test_without_gaps_nothing_was_interrupted() -> None:
    assert interruptions(topics([], [])) == []
    assert seconds_without_receipt([]) == 0


@given(TOPICS)
def test_every_gap_overlaps_an_interruption_and_interruptions_do_not_overlap(
    spans: list[list[tuple[float, float]]],
) -> None:
    given_topics = topics(*spans)
    found = interruptions(given_topics)
    for start, end in (span for each in spans for span in each):
        assert any(start < one.until_s and one.from_s < end for one in found)
    in_order = sorted(found, key=lambda one: one.from_s)
    assert all(one.until_s <= after.from_s for one, after in pairwise(in_order))
    assert [one.seconds for one in found] == sorted((one.seconds for one in found), reverse=True)
    assert {topic for one in found for topic in one.topics} == {each.topic for each in given_topics if each.gaps}


def test_of_very_many_gaps_the_longest_are_taken() -> None:
    many = [(float(second), second + (0.9 if second == 7_000 else 0.3)) for second in range(gaps.MOST_GAPS + 4_000)]
    found = interruptions(topics(many))
    assert len(found) == gaps.MOST_GAPS
    assert found[0].from_s == 7_000.0


def test_seconds_add_up_over_topics() -> None:
    assert seconds_without_receipt(topics([(0.0, 1.0)], [(0.0, 1.5), (3.0, 3.25)])) == 2.75
