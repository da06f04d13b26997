"""The outcome of a change of a partitioned topic, decided without I/O."""

import pytest
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.partition_changes import plan
from pulsar_barycenter.broker.partition_changes.plan import PartAnswer, Refusal, Silence, Willingness
from pulsar_barycenter.naming.topic import TopicName

TOPIC = TopicName.parse("persistent://public/ns/x")
WILLING, DONE, UNKNOWN = (PartAnswer(each) for each in (Willingness.WILLING, Willingness.DONE, Willingness.UNKNOWN))
BUSY = PartAnswer(Willingness.REFUSED, 412, "it has 1 consumer")


def change(kind: ChangeKind = ChangeKind.DELETE, **fields: object) -> PartitionedChange:
    return replace(PartitionedChange("c1", kind, ChangePhase.ASKING, "b1:8080"), **fields)


@pytest.mark.parametrize("kind", ChangeKind)
def test_a_change_that_all_agree_to_is_decided(kind: ChangeKind) -> None:
    found = plan.decide(TOPIC, change(kind), {0: WILLING, 1: DONE, 2: WILLING})
    assert found == change(kind, phase=ChangePhase.DOING)


@pytest.mark.parametrize("kind", ChangeKind)
def test_one_refusal_is_enough_and_the_first_is_named(kind: ChangeKind) -> None:
    found = plan.decide(TOPIC, change(kind), {3: BUSY, 0: WILLING, 1: BUSY, 2: DONE})
    assert isinstance(found, Refusal)
    assert found.status == 412
    assert "x-partition-1" in found.reason
    assert "it has 1 consumer" in found.reason


@pytest.mark.parametrize("answer", [Silence("no route to host"), UNKNOWN])
def test_an_owner_that_does_not_agree_in_time_has_nothing_changed(answer: PartAnswer | Silence) -> None:
    found = plan.decide(TOPIC, change(), {0: WILLING, 1: answer})
    assert isinstance(found, Refusal)
    assert found.status == 503
    assert "Try again" in found.reason


@pytest.mark.parametrize(
    ("kind", "status"),
    [(ChangeKind.CREATE_SUBSCRIPTION, 409), (ChangeKind.DELETE_SUBSCRIPTION, 404)],
)
def test_what_is_done_at_all_partitions_is_refused_and_what_is_done_at_some_completed(
    kind: ChangeKind, status: int
) -> None:
    wanted = change(kind, subscription="s")
    refused = plan.decide(TOPIC, wanted, {0: DONE, 1: DONE})
    assert isinstance(refused, Refusal)
    assert refused.status == status
    assert plan.decide(TOPIC, wanted, {0: DONE, 1: WILLING}) == replace(wanted, phase=ChangePhase.DOING)


def test_new_partitions_get_the_subscriptions_of_the_first() -> None:
    first = PartAnswer(Willingness.WILLING, subscriptions=("b", "a"))
    found = plan.decide(TOPIC, change(ChangeKind.ENLARGE, partitions=3), {0: first, 1: WILLING, 2: WILLING})
    assert isinstance(found, PartitionedChange)
    assert found.subscriptions == ("a", "b")


def test_new_partitions_get_the_properties_of_the_first_ones_subscriptions() -> None:
    first = PartAnswer(Willingness.WILLING, subscriptions=("a", "b"), subscription_properties={"b": {"team": "x"}})
    found = plan.decide(TOPIC, change(ChangeKind.ENLARGE, partitions=3), {0: first, 1: WILLING, 2: WILLING})
    assert isinstance(found, PartitionedChange)
    assert found.subscription_properties == {"b": {"team": "x"}}


def test_properties_of_subscriptions_that_the_record_cannot_hold_are_refused() -> None:
    properties = {"b": {"team": "x" * plan.LONGEST_SUBSCRIPTIONS}}
    first = PartAnswer(Willingness.WILLING, subscriptions=("b",), subscription_properties=properties)
    found = plan.decide(TOPIC, change(ChangeKind.ENLARGE, partitions=3), {0: first})
    assert isinstance(found, Refusal)
    assert (found.status, "names and properties of the subscriptions" in found.reason) == (412, True)


def test_names_of_subscriptions_that_the_record_cannot_hold_are_refused() -> None:
    first = PartAnswer(Willingness.WILLING, subscriptions=("a" * plan.LONGEST_SUBSCRIPTIONS, "b"))
    found = plan.decide(TOPIC, change(ChangeKind.ENLARGE, partitions=3), {0: first})
    assert isinstance(found, Refusal)
    assert found.status == 412
    assert str(plan.LONGEST_SUBSCRIPTIONS) in found.reason


def test_which_partitions_are_asked_and_which_change() -> None:
    enlarge = change(ChangeKind.ENLARGE, partitions=5)
    assert plan.parts_to_ask(enlarge, 3) == range(5)
    assert plan.parts_to_do(enlarge, 3) == range(3, 5)
    for kind in (ChangeKind.DELETE, ChangeKind.CREATE_SUBSCRIPTION, ChangeKind.DELETE_SUBSCRIPTION):
        assert plan.parts_to_ask(change(kind), 3) == plan.parts_to_do(change(kind), 3) == range(3)


def test_the_record_through_a_change() -> None:
    record = PartitionedTopicMetadata(3, properties={"a": "b"})
    enlarge = change(ChangeKind.ENLARGE, partitions=5)
    asking = plan.begun(record, enlarge)
    assert asking.pending == enlarge
    assert plan.undone(asking) == record
    assert plan.completed(plan.decided(asking, enlarge), enlarge) == replace(record, partitions=5)
    deletion = change()
    assert not plan.begun(record, deletion).deleted
    assert plan.decided(plan.begun(record, deletion), deletion).deleted
    assert plan.completed(plan.decided(record, deletion), deletion) is None


@pytest.mark.parametrize(
    ("broker", "running", "registered", "unchanged_s", "is_abandoned"),
    [
        ("b1:8080", True, {"b1:8080"}, 1e6, False),
        ("b1:8080", False, {"b1:8080"}, 0.0, True),
        ("b2:8080", False, {"b1:8080"}, 0.0, False),
        ("b2:8080", False, {"b1:8080"}, plan.ABANDONED_S, True),
        ("b2:8080", False, {"b2:8080"}, 0.0, True),
    ],
)
def test_a_change_is_abandoned_when_its_broker_is_gone_or_does_nothing_for_long(
    broker: str, running: bool, registered: set[str], unchanged_s: float, is_abandoned: bool
) -> None:
    found = plan.is_abandoned(
        change(), broker=broker, running=running, registered=frozenset(registered), unchanged_s=unchanged_s
    )
    assert found is is_abandoned
