"""Which of two records of a bundle is kept. The whole rule is compared with Pulsar's in tests/peer."""

import itertools

import msgspec
import pytest

from pulsar_barycenter.load.service_units.conflicts import Conflict, conflict
from pulsar_barycenter.load.service_units.service_unit_state import (
    GREATEST_VERSION,
    LEAST_VERSION,
    TRANSITIONS,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
)

S = ServiceUnitState
TOPIC, STORE = StorageType.SYSTEM_TOPIC, StorageType.METADATA_STORE


def record(
    state: ServiceUnitState, destination: str | None, source: str | None, version: int = 5, *, force: bool = False
) -> ServiceUnitStateData:
    return ServiceUnitStateData(state, destination, source, force=force, version_id=version)


@pytest.mark.parametrize("storage", StorageType)
@pytest.mark.parametrize("earlier", [None, record(S.OWNED, "a", None), record(S.FREE, None, "a", GREATEST_VERSION)])
def test_a_tombstone_is_always_taken(earlier: ServiceUnitStateData | None, storage: StorageType) -> None:
    assert conflict(earlier, None, storage) is None


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", S)
def test_the_first_record_over_the_metadata_store_is_numbered_one(state: ServiceUnitState, force: bool) -> None:
    """Nothing else is asked of it: a child of a split begins with Owned there as well."""
    assert conflict(None, record(state, "a", None, 1, force=force), STORE) is None
    for version in (0, 2, LEAST_VERSION):
        assert conflict(None, record(state, "a", None, version, force=force), STORE) is Conflict.NOT_FIRST


@pytest.mark.parametrize("state", S)
def test_the_first_record_over_the_system_topic_may_have_any_number(state: ServiceUnitState) -> None:
    """What was there before may be compacted away."""
    for version in (1, 7, LEAST_VERSION):
        expected = Conflict.TRANSITION if state is S.INIT else None
        assert conflict(None, record(state, "a", None, version), TOPIC) is expected


@pytest.mark.parametrize(("storage", "far"), [(TOPIC, None), (STORE, Conflict.GAP)])
def test_a_version_is_taken_once_and_gaps_only_over_the_topic(storage: StorageType, far: Conflict | None) -> None:
    owned = record(S.OWNED, "a", None, 5)
    for force in (False, True):
        for version in (LEAST_VERSION, 4, 5):
            assert conflict(owned, record(S.RELEASING, None, "a", version, force=force), storage) is Conflict.STALE
        assert conflict(owned, record(S.RELEASING, None, "a", 6, force=force), storage) is None
        assert conflict(owned, record(S.RELEASING, None, "a", 7, force=force), storage) is far
    last = record(S.OWNED, "a", None, GREATEST_VERSION)
    assert conflict(last, record(S.RELEASING, None, "a", LEAST_VERSION), storage) is None
    assert conflict(last, record(S.RELEASING, None, "a", LEAST_VERSION + 1), storage) is Conflict.STALE


@pytest.mark.parametrize("storage", StorageType)
def test_without_force_only_what_may_follow_does(storage: StorageType) -> None:
    for before, after in itertools.product(S, S):
        earlier, later = record(before, "a", "b", 5), record(after, "a", "b", 6)
        found = conflict(earlier, later, storage)
        assert (found is not Conflict.TRANSITION) is (after in TRANSITIONS[storage][before])
        assert conflict(earlier, msgspec.structs.replace(later, force=True), storage) is None


@pytest.mark.parametrize("storage", StorageType)
@pytest.mark.parametrize(
    ("before", "after", "fits"),
    [
        (record(S.OWNED, "a", "z"), record(S.SPLITTING, None, "a"), True),
        (record(S.OWNED, "a", "z"), record(S.SPLITTING, None, "z"), False),
        (record(S.OWNED, "a", "z"), record(S.SPLITTING, "a", "a"), False),
        (record(S.OWNED, "a", "z"), record(S.RELEASING, None, "a"), True),
        (record(S.OWNED, "a", "z"), record(S.RELEASING, "b", "a"), True),
        (record(S.OWNED, "a", "z"), record(S.RELEASING, "a", "a"), False),
        (record(S.OWNED, "a", "z"), record(S.RELEASING, "b", "z"), False),
        (record(S.OWNED, "a", "z"), record(S.RELEASING, "b", None), False),
        (record(S.OWNED, None, "z"), record(S.RELEASING, "b", "z"), False),
        (record(S.RELEASING, "b", "a"), record(S.ASSIGNING, "b", "a"), True),
        (record(S.RELEASING, "b", "a"), record(S.ASSIGNING, "c", "a"), False),
        (record(S.RELEASING, None, "a"), record(S.ASSIGNING, None, "a"), False),
        (record(S.RELEASING, None, "a"), record(S.FREE, None, "a"), True),
        (record(S.RELEASING, "b", "a"), record(S.FREE, None, "a"), False),
        (record(S.ASSIGNING, "b", "a"), record(S.OWNED, "b", "a"), True),
        (record(S.ASSIGNING, "b", None), record(S.OWNED, "b", "a"), False),
        (record(S.ASSIGNING, "b", "a"), record(S.OWNED, "c", "a"), False),
        (record(S.SPLITTING, None, "a"), record(S.DELETED, None, "a"), True),
        (record(S.SPLITTING, None, "a"), record(S.DELETED, None, "b"), False),
        (record(S.FREE, None, "a"), record(S.ASSIGNING, "b", None), True),
        (record(S.FREE, None, "a"), record(S.ASSIGNING, "b", "a"), False),
    ],
)
def test_the_brokers_are_those_of_the_record_before(
    before: ServiceUnitStateData, after: ServiceUnitStateData, fits: bool, storage: StorageType
) -> None:
    later = msgspec.structs.replace(after, version_id=6)
    assert conflict(before, later, storage) is (None if fits else Conflict.BROKERS)


@pytest.mark.parametrize("storage", StorageType)
def test_of_a_hand_over_and_an_override_the_first_is_kept(storage: StorageType) -> None:
    releasing = record(S.RELEASING, "b", "a", 5)
    handed, override = record(S.ASSIGNING, "b", "a", 6), record(S.OWNED, "c", "a", 6, force=True)
    for first, second in itertools.permutations((handed, override)):
        assert conflict(releasing, first, storage) is None
        assert conflict(first, second, storage) is Conflict.STALE
