"""In any order of events: one broker serves a bundle, all brokers agree, and nothing is stuck."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.service_units.service_unit_state import StorageType
from support.ownership_world import Fault, ViolationError, World, play
from support.short_forms import examples

STEPS = 250


def history(seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2**20) for _ in range(STEPS)]


@settings(max_examples=examples(200))
@given(st.sampled_from(StorageType), st.lists(st.integers(0, 2**20 - 1), max_size=STEPS))
def test_one_serves_all_agree_and_it_comes_to_rest(storage: StorageType, choices: list[int]) -> None:
    """With brokers that die, join and are considered dead, and with records that are late, duplicated, or compacted.

    On the way: never two servers, except where one was considered dead; brokers that have read equally far agree;
    each later term of a bundle has the higher number. At the end: everything is read, the owner of every owned
    bundle serves it and no other broker holds anything of it, and unowned bundles can be assigned.
    """
    play(World(storage), choices)


@pytest.mark.parametrize("storage", StorageType)
def test_long_histories_hold_and_are_rich(storage: StorageType) -> None:
    accepted = refused = served = split = 0
    for seed in range(300):
        world = World(storage)
        play(world, history(seed))
        accepted, refused, served = accepted + world.accepted, refused + world.refused, served + world.served
        split += "p0" in world.boundaries
    assert min(accepted, refused) > 3000
    assert served > 1000
    assert split > 30


@pytest.mark.parametrize("storage", StorageType)
@pytest.mark.parametrize("fault", Fault)
def test_a_planted_fault_is_found(fault: Fault, storage: StorageType) -> None:
    """So the world can fail."""
    for seed in range(1500):
        try:
            play(World(storage, fault), history(seed))
        except ViolationError:
            return
    pytest.fail(f"nothing came of it: {fault.value}")
