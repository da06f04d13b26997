"""Seeded histories of partitioned topics that are changed by requests while the cluster has faults.

.venv/bin/python -m pytest tests/simulation/test_partitioned_changes_simulation.py --sim-seeds 5000    (plays 1,000)
"""

import random
from collections import Counter
from dataclasses import replace

import pytest

from pulsar_barycenter.broker.partition_changes import plan
from pulsar_barycenter.broker.partition_changes.coordinator import ChangeCoordinator
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.load.managers import ManagerKind
from support.simulation.cluster import Settings
from support.simulation.loop import SimulationError
from support.simulation.partitioned_changes import run_changes
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

SHARE = 5
"""For so many histories of the cluster's simulation one is played here."""

PLACE = "load_manager_service_unit_state_table_view_class_name"
CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
EXTENSIBLE = {"load_manager_class_name": ManagerKind.EXTENSIBLE.class_name}
CLUSTERS: tuple[dict[str, str], ...] = (
    {},
    {**EXTENSIBLE, PLACE: f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl"},
    {},
    {"leader_only_metadata_writes": "true"},
    {},
    {**EXTENSIBLE, PLACE: f"{CHANNEL}.ServiceUnitStateTableViewImpl"},
    {},
    {"load_manager_class_name": ManagerKind.SIMPLE.class_name},
)
"""What histories are played with, one after the other: mostly the modular load manager."""

SHORTEST_SESSION_MS = 4_000
"""Where the leader writes for all, half of a session is the lease."""

ONCE_FAILED = (1154, 7059, 900000776, 910000447, 920000737)
"""Seeds of histories that found a fault: changes that left the list too early (when they ended, or were decided while
another broker undid them), one that its broker forgot, a subscription that the store kept, and a lost term that was
followed by one of the same number."""

CALM = ("unload", "unload to", "reset", "burst")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sim_seed" in metafunc.fixturenames:
        seeds = seeds_to_play(metafunc.config, 1 / SHARE, ONCE_FAILED)
        metafunc.parametrize("sim_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


def settings_of(seed: int) -> Settings:
    drawn, config = Settings.drawn(random.Random(seed)), CLUSTERS[seed % len(CLUSTERS)]
    timeout_ms = max(SHORTEST_SESSION_MS, drawn.session_timeout_ms) if config else drawn.session_timeout_ms
    return replace(drawn, session_timeout_ms=timeout_ms, config=dict(config))


def test_a_partitioned_topic_changes_as_a_whole_or_not_at_all(sim_seed: int) -> None:
    """During all faults; no message of a topic that stays is lost, and no client loses what it uses."""
    try:
        verdict = run_changes(sim_seed, settings=settings_of(sim_seed))
    except Exception as error:
        again = f".venv/bin/python -m pytest tests/simulation -k changes_as_a_whole --sim-seed {sim_seed}"
        raise AssertionError(f"seed {sim_seed}: {error!r}; replay: {again}") from error
    assert sum(verdict.outcomes.values()) > 0


def test_the_same_seed_plays_the_same_history_of_changes() -> None:
    assert run_changes(11) == run_changes(11)


def test_changes_are_done_and_refused_in_calm_histories() -> None:
    """Otherwise it would not be tested that a refused change has no effect."""
    found: Counter[str] = Counter()
    for seed in range(3):
        found.update(run_changes(seed, faults=CALM).outcomes)
    for kind in ("create-subscription", "delete-subscription", "enlarge"):
        assert found[f"{kind} done"] > 0
    assert found["delete-subscription refused"] > 0


def check_that_fails(seeds: range, faults: tuple[str, ...]) -> str | None:
    """Return the name of the first check that fails."""
    for seed in seeds:
        try:
            run_changes(seed, faults=faults)
        except SimulationError as error:
            return error.check
    return None


def test_owners_that_let_clients_in_after_they_agreed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topic, "check_subscription_open", lambda self, name: None)
    assert check_that_fails(range(128, 200), CALM) == "no client of it"


def test_a_coordinator_that_asks_nobody_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = plan.decide
    monkeypatch.setattr(plan, "decide", lambda topic, change, answers: decided(topic, change, {}))
    assert check_that_fails(range(40), CALM) in {"no client of it", "whole changes"}


def test_changes_that_nobody_completes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_for_nothing(self: ChangeCoordinator, *, is_leader: bool) -> int:
        return 0

    monkeypatch.setattr(ChangeCoordinator, "sweep", look_for_nothing)
    monkeypatch.setattr(ChangeCoordinator, "look_at", lambda self, part, change: None)
    assert check_that_fails(range(40), ("crash", "store partition", "burst")) == "whole changes"
