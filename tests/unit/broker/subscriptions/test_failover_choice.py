"""Which consumer of a failover subscription gets the messages, when consumers join and leave."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.subscriptions import failover_choice
from pulsar_barycenter.broker.subscriptions.failover_choice import FailoverChoice
from pulsar_barycenter.broker.subscriptions.sticky_keys import POINTS_PER_CONSUMER, murmur3, point_hashes


@dataclass(frozen=True, eq=False)
class Member:
    name: str
    priority_level: int = 0
    hash_ranges: Sequence[tuple[int, int]] = ()


def active(members: Sequence[Member], topic: str, partition_index: int) -> Member | None:
    choice: FailoverChoice[Member] = FailoverChoice(topic, partition_index)
    for member in members:
        choice.add(member)
    return choice.active


def test_partitions_spread_over_the_consumers_of_the_best_priority() -> None:
    members = [Member("c"), Member("a"), Member("b"), Member("spare", priority_level=1)]
    chosen = [active(members, "t", index) for index in range(4)]
    assert [member.name for member in chosen if member] == ["a", "b", "c", "a"]
    assert active([], "t", 0) is None


def test_the_choice_for_a_topic_does_not_depend_on_the_order_of_joining() -> None:
    members = [Member(f"c{n}") for n in range(5)]
    for topic in (f"persistent://a/b/{n}" for n in range(20)):
        assert active(members, topic, -1) is active(members[::-1], topic, -1)


def test_topics_without_partitions_spread_too() -> None:
    members = [Member(f"c{n}") for n in range(3)]
    chosen = {active(members, f"persistent://a/b/{n}", -1) for n in range(100)}
    assert chosen == set(members)


def by_the_book(names: Sequence[str], topic: str, partition_index: int) -> str:
    if partition_index >= 0:
        return sorted(names)[partition_index % len(names)]
    at = murmur3(topic.encode())
    points = [(murmur3(f"{name}{i}".encode()), name) for name in names for i in range(POINTS_PER_CONSUMER)]
    return min(((point - at) % 2**31, name) for point, name in points)[1]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(-1, 7))
def test_comings_and_goings_leave_the_choice_among_those_that_are_there(script: list[int], partition: int) -> None:
    choice: FailoverChoice[Member] = FailoverChoice("t", partition)
    here: dict[int, Member] = {}
    for number in script:
        if number in here:
            choice.remove(here[number])
            choice.remove(here.pop(number))
        else:
            here[number] = Member(f"c{number}", priority_level=number % 2)
            choice.add(here[number])
        best = min((member.priority_level for member in here.values()), default=0)
        names = [member.name for member in here.values() if member.priority_level == best]
        assert (choice.active and choice.active.name) == (by_the_book(names, "t", partition) if names else None)


@pytest.mark.parametrize("partition", [-1, 0, 3])
def test_namesakes_are_chosen_while_they_are_there(partition: int) -> None:
    choice: FailoverChoice[Member] = FailoverChoice("t", partition)
    members = [Member("") for _ in range(5)]
    for member in members:
        choice.add(member)
    while members:
        chosen = choice.active
        assert chosen in members
        members.remove(chosen)
        choice.remove(chosen)
    assert choice.active is None


def test_a_namesake_that_comes_later_does_not_take_a_partition_over() -> None:
    choice: FailoverChoice[Member] = FailoverChoice("t", 0)
    first, second = Member("c"), Member("c")
    choice.add(first)
    choice.add(second)
    choice.remove(first)
    choice.add(Member("c"))
    assert choice.active is second


def test_one_of_many_consumers_costs_its_own_points_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(text: str, numbers: range) -> list[int]:
        hashed.append(text)
        return point_hashes(text, numbers)

    monkeypatch.setattr(failover_choice, "point_hashes", counted)
    choice: FailoverChoice[Member] = FailoverChoice("t", -1)
    members = [Member(f"c{number}") for number in range(50)]
    for member in members:
        choice.add(member)
        assert choice.active is not None
    for member in members:
        choice.remove(member)
    assert len(hashed) == len(members)
