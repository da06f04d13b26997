"""The tally distinguishes lost, duplicated and reordered messages."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.demo.tally import TopicTally


def test_an_acknowledged_message_that_never_arrives_is_missing() -> None:
    tally = TopicTally("t")
    for number in range(3):
        tally.on_acknowledged(number, 0.0, 0.1, gap_from_s=1.0)
    tally.on_received(0)
    tally.on_received(2)
    assert tally.missing == 1


def test_a_message_that_arrives_without_its_receipt_is_not_missing() -> None:
    tally = TopicTally("t")
    tally.on_received(0)
    assert tally.missing == 0


@given(st.lists(st.integers(0, 20)))
def test_order_counts_first_arrivals_and_repeats_count_as_duplicates(numbers: list[int]) -> None:
    tally = TopicTally("t")
    for number in numbers:
        tally.on_received(number)
    firsts = list(dict.fromkeys(numbers))
    assert tally.duplicated == len(numbers) - len(firsts)
    assert tally.out_of_order == sum(n < max(firsts[:i], default=-1) for i, n in enumerate(firsts))


def test_a_gap_runs_from_the_receipt_before_or_from_the_sending_whichever_is_later() -> None:
    tally = TopicTally("t")
    tally.on_acknowledged(0, sent_at_s=0.0, now_s=0.1, gap_from_s=0.5)
    tally.on_acknowledged(1, sent_at_s=5.0, now_s=5.2, gap_from_s=0.5)
    assert tally.gaps == []
    tally.on_acknowledged(2, sent_at_s=6.0, now_s=8.0, gap_from_s=0.5)
    tally.on_acknowledged(3, sent_at_s=6.1, now_s=8.01, gap_from_s=0.5)
    assert tally.gaps == [(6.0, 8.0)]
    assert tally.longest_gap_s == 2.0
