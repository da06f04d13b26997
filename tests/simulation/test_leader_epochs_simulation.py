"""Seeded histories in which former leaders continue to write and command: nothing is stored or carried out.

.venv/bin/python -m pytest tests/simulation/test_leader_epochs_simulation.py --sim-seeds 4000    (plays 100)
"""

from typing import Any

import pytest

from pulsar_barycenter.metadata.coordination.epochs import Epoch, EpochGate, EpochRecord, epoch_path, read_epoch
from pulsar_barycenter.metadata.store import Guard, MetadataStore
from support.simulation.cluster import Settings
from support.simulation.leader_faults import LeaderFaults
from support.simulation.loop import SimulationError
from support.simulation.scenario import run_scenario
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

SHARE = 20
"""For so many histories of the other simulation one is played here."""

OFTEN_ANOTHER = Settings(session_timeout_ms=1_500, faults_per_s=4.0)
FAULTS = ("crash", "pause", "session loss", "store partition", "notifications", "lookups")
LATE = ("leader writes", "leader commands", "leader learns", "leader away")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sim_seed" in metafunc.fixturenames:
        seeds = seeds_to_play(metafunc.config, 1 / SHARE)
        metafunc.parametrize("sim_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


def test_nothing_is_stored_or_done_for_a_former_leader(sim_seed: int) -> None:
    """`-k former_leader --sim-seed` and its number play a failing history again."""
    assert run_scenario(sim_seed, befalling=LeaderFaults).messages > 0


def test_former_leaders_are_refused_and_leaders_of_now_are_not() -> None:
    """So the histories above test something."""
    played: list[LeaderFaults] = []

    class Kept(LeaderFaults):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            played.append(self)

    for seed in range(8):
        run_scenario(seed, befalling=Kept, settings=OFTEN_ANOTHER, faults=(*FAULTS, *LATE))
    assert sum(each.refused for each in played) > 5
    assert sum(each.accepted for each in played) > 30


def test_the_same_seed_plays_the_same_history() -> None:
    first, second = (run_scenario(5, befalling=LeaderFaults) for _ in range(2))
    assert first == second


def check_that_fails() -> str | None:
    """Return the name of the first check that fails."""
    for seed in range(20):
        try:
            run_scenario(seed, befalling=LeaderFaults, settings=OFTEN_ANOTHER, faults=(*FAULTS, *LATE))
        except SimulationError as error:
            return error.check
    return None


def test_a_store_that_asks_no_guard_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_barycenter.metadata.memory.key_table.check_guard", lambda _guard, _actual: None)
    assert check_that_fails() == "former leaders"


def test_a_broker_that_obeys_whoever_commands_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def admit(self: EpochGate, epoch: int) -> Guard:
        current = await read_epoch(self._store, self._leader_path)
        assert current is not None
        return current.guard

    monkeypatch.setattr(EpochGate, "admit", admit)
    assert check_that_fails() == "former leaders"


def test_epochs_that_begin_anew_with_each_leader_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if epochs were the version of the leader's ephemeral key."""

    async def take(store: MetadataStore, leader_path: str, broker_id: str) -> Epoch | None:
        key = await store.get(leader_path)
        if key is None or not key.stat.created_by_self:
            return None
        path, record = epoch_path(leader_path), EpochRecord(key.stat.version + 1, broker_id)
        stat = await store.put(path, b'{"epoch":%d}' % record.epoch)
        return Epoch(record.epoch, Guard(path, stat.version))

    monkeypatch.setattr("pulsar_barycenter.broker.cluster.leadership.take_epoch", take)
    assert check_that_fails() == "epochs rise"
