"""Moves that consecutive views show, and whose they are."""

from pulsar_barycenter.balancer.judging.journal_view import past_moves, under_way, within_grace
from pulsar_barycenter.balancer.judging.moves_seen import LANDS_MS, OwnersSeen, Whose, destinations_of, unloaded_from
from pulsar_barycenter.operations.journal import Entry, MoveState

A, B, C = "a:1", "b:1", "c:1"
LIVE = (A, B, C)


def see(
    seen: OwnersSeen, owners: dict[str, str], live: tuple[str, ...] = LIVE, **ours: dict[str, int]
) -> list[tuple[str, str, str, Whose]]:
    found = seen.see(owners, live=live, ours=ours, unloaded={}, at_ms=7)
    return [(move.bundle, move.source, move.destination, move.whose) for move in found]


def entry(bundle: str, state: MoveState, at: int = 1, destination: str = B) -> Entry:
    return Entry(at=at, plan="p", by="x", bundle=bundle, source=A, destination=destination, state=state, why="heavy")


def test_the_first_view_shows_no_move() -> None:
    assert see(OwnersSeen(), {"x": A}) == []


def test_moves_are_ours_foreign_or_the_loss_of_a_broker() -> None:
    seen = OwnersSeen()
    see(seen, {"x": A, "y": A, "z": C, "stays": B})
    found = see(seen, {"x": B, "y": B, "z": B, "stays": B}, live=(A, B), x={B: 1}, y={C: 1})
    assert found == [("x", A, B, Whose.OURS), ("y", A, B, Whose.FOREIGN), ("z", C, B, Whose.FAILOVER)]


def test_each_move_of_ours_explains_one_arrival() -> None:
    """A person moves the bundle back, and then again to where the balancer had moved it."""
    seen, asked = OwnersSeen(), {"x": {B: 5}}
    views = [A, B, A, B]
    found = [move for owner in views for move in see(seen, {"x": owner}, **asked)]
    assert found == [("x", A, B, Whose.OURS), ("x", B, A, Whose.FOREIGN), ("x", A, B, Whose.FOREIGN)]
    see(seen, {"x": A}, **asked)
    assert see(seen, {"x": B}, x={B: 9}) == [("x", A, B, Whose.OURS)]
    assert see(seen, {"x": A}, x={B: 9, A: 12}) == [("x", B, A, Whose.OURS)]


def test_what_arrived_before_a_restart_explains_no_move_after_it() -> None:
    """The first view after the restart shows the bundle where the last move of the journal went."""
    seen, asked = OwnersSeen(), {"x": {B: 5, A: 8}, "under way": {B: 9}}
    see(seen, {"x": A, "under way": A}, **asked)
    found = see(seen, {"x": B, "under way": B}, **asked)
    assert found == [("under way", A, B, Whose.OURS), ("x", A, B, Whose.FOREIGN)]


def test_a_bundle_that_was_unloaded_for_a_failed_move_was_not_moved_by_somebody_else() -> None:
    """Pulsar may place it on another broker than the destination."""
    entries = [
        *(entry("ours", MoveState.BEGUN, 1_000), entry("ours", MoveState.FAILED, 2_000)),
        *(entry("back", MoveState.BEGUN, 1_000), entry("back", MoveState.FAILED, 2_000)),
        *(entry("again", MoveState.BEGUN, 1_000), entry("again", MoveState.FAILED, 2_000)),
        entry("again", MoveState.BEGUN, 3_000),
        entry("not begun", MoveState.FAILED, 2_000),
    ]
    unloaded = unloaded_from(entries, now_ms=2_000 + LANDS_MS)
    assert unloaded == {"ours": A, "back": A}
    assert unloaded_from(entries, now_ms=2_001 + LANDS_MS) == {}

    seen, before = OwnersSeen(), {"ours": A, "back": B, "not begun": A}
    seen.see(before, live=LIVE, ours={}, unloaded={}, at_ms=1)
    found = seen.see(dict.fromkeys(before, C), live=LIVE, ours={}, unloaded=unloaded, at_ms=7)
    assert {move.bundle: move.whose for move in found} == {
        "ours": Whose.OURS,
        "back": Whose.FOREIGN,  # it left another broker
        "not begun": Whose.FOREIGN,
    }


def test_a_bundle_without_an_owner_for_a_while_counts_from_its_last_owner() -> None:
    seen = OwnersSeen()
    see(seen, {"x": A})
    assert see(seen, {}) == []
    assert see(seen, {"x": B}) == [("x", A, B, Whose.FOREIGN)]


def test_a_bundle_that_is_gone_for_ten_rounds_is_forgotten() -> None:
    seen = OwnersSeen()
    see(seen, {"x": A})
    for _ in range(10):
        see(seen, {})
    assert see(seen, {"x": B}) == []


def test_the_journal_tells_which_moves_were_left_under_way() -> None:
    entries = [
        *(entry("done", MoveState.BEGUN), entry("done", MoveState.SERVED)),
        *(entry("again", MoveState.BEGUN), entry("again", MoveState.SERVED)),
        entry("left", MoveState.BEGUN),
        entry("again", MoveState.BEGUN, destination=C),
        *(entry("failed", MoveState.BEGUN), entry("failed", MoveState.FAILED)),
    ]
    assert [(move.bundle, move.destination) for move in under_way(entries)] == [("left", B), ("again", C)]
    assert destinations_of(entries, since_ms=1)["again"] == {B: 1, C: 1}
    assert destinations_of(entries, since_ms=2) == {}


def test_grace_and_past_moves_count_from_the_begin_of_a_move() -> None:
    entries = [
        entry("x", MoveState.BEGUN, at=10),
        entry("x", MoveState.SERVED, at=90),
        entry("y", MoveState.BEGUN, at=50),
    ]
    past = past_moves(entries, {"y": 5.0}, since_ms=10)
    assert [(move.bundle, move.throughput) for move in past] == [("x", 0.0), ("y", 5.0)]
    assert within_grace(past, now_ms=60, grace_ms=50) == {"x": 10, "y": 50}
    assert within_grace(past, now_ms=61, grace_ms=50) == {"y": 50}
