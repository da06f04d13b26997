"""What the leader finds to repair, and the records that repair it."""

import pytest

from pulsar_barycenter.load.service_units.conflicts import conflict
from pulsar_barycenter.load.service_units.repairs import concerns, look_over, override, successor_of_orphan
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData, StorageType

S = ServiceUnitState
NOW, IN_FLIGHT, TOMBSTONE = 10_000_000, 30_000, 3_600_000


def record(
    state: ServiceUnitState, destination: str | None, source: str | None, age_ms: int = 0
) -> ServiceUnitStateData:
    children = {"0x00000000_0x80000000": None} if state is S.SPLITTING else None
    return ServiceUnitStateData(state, destination, source, children, timestamp=NOW - age_ms, version_id=4)


@pytest.mark.parametrize(
    ("state", "destination", "source", "concerned"),
    [
        (S.OWNED, "x", None, True),
        (S.OWNED, "a", "x", False),
        (S.ASSIGNING, "x", None, True),
        (S.ASSIGNING, "a", "x", True),
        (S.RELEASING, None, "x", True),
        (S.RELEASING, "x", "a", True),
        (S.SPLITTING, None, "x", True),
        (S.FREE, None, "x", False),
        (S.DELETED, None, "x", False),
        (S.OWNED, "a", None, False),
    ],
)
def test_a_bundle_is_taken_from_whoever_owns_it_or_has_to_act(
    state: ServiceUnitState, destination: str | None, source: str | None, concerned: bool
) -> None:
    assert concerns(record(state, destination, source), "x") is concerned


@pytest.mark.parametrize(
    ("state", "destination", "source", "before"),
    [
        (S.OWNED, "x", "a", "x"),
        (S.ASSIGNING, "x", None, None),
        (S.ASSIGNING, "x", "a", "a"),
        (S.ASSIGNING, "a", "x", "x"),
        (S.RELEASING, None, "x", "x"),
        (S.RELEASING, "a", "x", "x"),
        (S.RELEASING, "x", "a", "a"),
    ],
)
def test_a_successor_owns_it_after_whoever_had_it_before(
    state: ServiceUnitState, destination: str | None, source: str | None, before: str | None
) -> None:
    """The source is the broker that may still hold the bundle, even if another one was lost: it has to release it."""
    old = record(state, destination, source)
    successor = override(old, "c", NOW, epoch=8)
    assert successor == ServiceUnitStateData(S.OWNED, "c", before, None, True, NOW, 5, 8)
    freed = override(old, None, NOW, epoch=8)
    assert freed == ServiceUnitStateData(S.FREE, None, before, None, True, NOW, 5)
    if before is not None:
        assert override(old, before, NOW, epoch=8).source_broker is None


def test_a_split_is_the_successors_to_go_on_with() -> None:
    old = record(S.SPLITTING, None, "x")
    children = old.split_service_unit_to_dest_broker
    assert override(old, "c", NOW, epoch=8) == ServiceUnitStateData(S.SPLITTING, None, "c", children, True, NOW, 5)
    assert override(old, None, NOW, epoch=8) == ServiceUnitStateData(S.FREE, None, "x", None, True, NOW, 5)


@pytest.mark.parametrize("storage", StorageType)
@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("successor", ["c", None])
def test_an_override_replaces_whatever_is_there(
    storage: StorageType, state: ServiceUnitState, successor: str | None
) -> None:
    old = record(state, "a", "b")
    assert conflict(old, override(old, successor, NOW, epoch=1), storage) is None


def looked_over(*records: ServiceUnitStateData) -> tuple[set[str], list[int], list[int]]:
    """Return the brokers that are lost, and which of the records are orphans and outlived, by place."""
    found = look_over(
        ((str(place), one) for place, one in enumerate(records)),
        {"a", "b"},
        NOW,
        in_flight_ms=IN_FLIGHT,
        tombstone_ms=TOMBSTONE,
    )
    return found.lost_brokers, [int(name) for name in found.orphans], [int(name) for name in found.outlived]


def test_brokers_are_lost_that_own_or_have_to_act_and_do_not_live() -> None:
    assert looked_over(record(S.OWNED, "x", "a")) == ({"x"}, [], [])
    assert looked_over(record(S.OWNED, "a", "x")) == (set(), [], [])
    assert looked_over(record(S.ASSIGNING, "x", "y")) == ({"x", "y"}, [], [])
    assert looked_over(record(S.RELEASING, "a", "x", IN_FLIGHT + 1)) == ({"x"}, [], [])
    assert looked_over(record(S.FREE, None, "x")) == (set(), [], [])


@pytest.mark.parametrize("state", [S.ASSIGNING, S.RELEASING, S.SPLITTING])
def test_a_change_that_lasts_longer_than_it_may_has_nobody_to_end_it(state: ServiceUnitState) -> None:
    assert looked_over(record(state, "a", "b", IN_FLIGHT)) == (set(), [], [])
    assert looked_over(record(state, "a", "b", IN_FLIGHT + 1)) == (set(), [0], [])


def test_a_bundle_owned_by_nobody_named_is_an_orphan() -> None:
    """A foreign record: no broker would take it for its own, and none could be assigned it."""
    for nobody in (None, ""):
        assert looked_over(record(S.OWNED, nobody, "a", IN_FLIGHT)) == (set(), [], [])
        assert looked_over(record(S.OWNED, nobody, "a", IN_FLIGHT + 1)) == (set(), [0], [])
    assert override(record(S.OWNED, None, "a"), "b", NOW, epoch=1).dst_broker == "b"


@pytest.mark.parametrize("state", [S.FREE, S.DELETED])
def test_records_without_owner_go_when_they_are_old(state: ServiceUnitState) -> None:
    assert looked_over(record(state, None, "a", TOMBSTONE)) == (set(), [], [])
    assert looked_over(record(state, None, "a", TOMBSTONE + 1)) == (set(), [], [0])


def test_all_records_are_looked_at_though_a_broker_is_lost() -> None:
    records = [
        record(S.OWNED, "x", None),
        record(S.ASSIGNING, "a", None, IN_FLIGHT + 1),
        record(S.FREE, None, "a", TOMBSTONE + 1),
    ]
    assert looked_over(*records) == ({"x"}, [1], [2])


@pytest.mark.parametrize(
    ("state", "destination", "source", "successor"),
    [
        (S.RELEASING, "b", "a", "a"),
        (S.RELEASING, "x", "a", "a"),
        (S.RELEASING, "b", "x", None),
        (S.SPLITTING, None, "a", "a"),
        (S.SPLITTING, None, "x", None),
        (S.ASSIGNING, "b", "a", None),
        (S.OWNED, None, "a", None),
    ],
)
def test_an_orphan_goes_to_whoever_may_hold_it_still(
    state: ServiceUnitState, destination: str | None, source: str | None, successor: str | None
) -> None:
    assert successor_of_orphan(record(state, destination, source), {"a", "b"}) == successor
