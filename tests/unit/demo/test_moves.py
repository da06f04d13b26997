"""The owner of each bundle over time, and which moves went back."""

from pulsar_barycenter.demo.moves import Tenure, follow_bundles
from pulsar_barycenter.demo.record import Event, Record
from support.demo_run import BROKERS, STARTED_AT_S, UPPER_PART, flapping_run

A, B, C = BROKERS
X = "public/demo/0x00000000_0x80000000"


def of(*events: Event, ended_at_s: float = 200.0) -> tuple[dict[str, list[Tenure]], list[tuple[str, str, bool]]]:
    lanes, moves = follow_bundles(Record(0.0, events=list(events)), ended_at_s)
    return {lane.bundle: lane.tenures for lane in lanes}, [
        (move.source, move.destination, move.moved_back) for move in moves
    ]


def assigned(at_s: float, bundle: str, to: str) -> Event:
    return Event(at_s, "assignment", bundle, None, to, "")


def unloaded(at_s: float, bundle: str, source: str, to: str | None) -> Event:
    return Event(at_s, "unload", bundle, source, to, "")


def test_a_bundle_that_goes_to_and_fro_is_told_at_each_move_after_the_first() -> None:
    _, moves = follow_bundles(flapping_run()[0], STARTED_AT_S + 60)
    flapping = [move for move in moves if move.bundle.endswith("0xffffffff")]
    assert [(move.source, move.destination) for move in flapping] == [(A, C), (C, A), (A, B)]
    assert [move.back for move in flapping] == [False, True, False]
    assert [move.again_after_s for move in flapping] == [None, 18.0, 16.0]


def test_a_fail_over_is_no_move_back_but_a_return_after_it_is() -> None:
    killed = Event(50.0, "broker killed", "", A, None, "")
    started = Event(60.0, "broker joined", "", None, A, "")
    first, second = assigned(0.0, X, B), unloaded(40.0, X, B, A)
    lanes, moves = of(first, second, killed, assigned(51.0, X, B), started, unloaded(150.0, X, B, A))
    assert moves == [(B, A, False), (A, B, False), (B, A, True)]
    assert lanes[X] == [
        Tenure(B, 0.0, 40.0),
        Tenure(A, 40.0, 50.0),
        Tenure(None, 50.0, 51.0),
        Tenure(B, 51.0, 150.0),
        Tenure(A, 150.0, 200.0),
    ]


def test_a_late_move_to_a_third_broker_is_not_back() -> None:
    _, moves = of(assigned(0.0, X, A), unloaded(10.0, X, A, B), unloaded(70.1, X, B, C))
    assert moves == [(A, B, False), (B, C, False)]


def test_an_unload_told_twice_is_one_move_and_one_to_itself_is_back() -> None:
    _, moves = of(assigned(0.0, X, A), unloaded(10.0, X, A, B), assigned(10.1, X, B))
    assert moves == [(A, B, False)]
    _, moves = of(assigned(0.0, X, A), unloaded(10.0, X, A, None), assigned(11.0, X, A))
    assert moves == [(A, A, True)]


def test_parts_of_a_split_bundle_have_its_owner_and_history() -> None:
    lanes, _ = follow_bundles(flapping_run()[0], STARTED_AT_S + 60)
    unnamed = next(lane for lane in lanes if lane.bundle == UPPER_PART)
    assert unnamed.root == X
    assert unnamed.tenures == [Tenure(A, STARTED_AT_S + 20, STARTED_AT_S + 60)]

    part = "public/demo/0x00000000_0x40000000"
    split = Event(100.0, "split", X, B, None, "")
    _, moves = of(assigned(0.0, X, A), unloaded(10.0, X, A, B), split, unloaded(150.0, part, B, A))
    assert moves == [(A, B, False), (B, A, True)]


def test_a_split_of_which_no_part_is_named_leaves_the_whole() -> None:
    lanes, _ = of(assigned(0.0, X, A), Event(100.0, "split", X, A, None, ""))
    assert lanes == {X: [Tenure(A, 0.0, 200.0)]}


def test_the_first_placement_of_a_part_is_told_as_such() -> None:
    part = "public/demo/0x00000000_0x40000000"
    split = Event(20.0, "split", X, B, None, "")
    events = [assigned(0.0, X, A), unloaded(10.0, X, A, B), split, assigned(20.1, part, A), unloaded(30.0, part, A, B)]
    _, moves = follow_bundles(Record(0.0, events=events), 100.0)
    assert [(move.moved_back, move.after_split) for move in moves] == [(False, False), (True, True), (True, False)]
