"""Whatever happens in which order: one broker serves a bundle, all see the same, and nothing is stuck."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.service_units.service_unit_state import StorageType
from support.ownership_world import Fault, ViolationError, World, play

STEPS = 250


def history(seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2**20) for _ in range(STEPS)]


@settings(max_examples=200)
@given(st.sampled_from(StorageType), st.lists(st.integers(0, 2**20 - 1), max_size=STEPS))
def test_one_serves_all_agree_and_it_comes_to_rest(storage: StorageType, choices: list[int]) -> None:
    """With brokers that die, join and are thought dead, and with records that are late, come twice, or are compacted.

    On the way: never two who serve, save where one was thought dead; whoever read as much as another sees the same; of
    the terms of a bundle each later one has the higher number. In the end: all is read, every bundle that is owned is
    served by its owner and nobody else holds anything of it, and what nobody owns can be assigned.
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
