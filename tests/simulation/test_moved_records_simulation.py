"""Seeded histories of clusters whose ownership records move from one location to the other and back, repeatedly.

Each incarnation of a broker is configured for one of the two locations.

.venv/bin/python -m pytest tests/simulation -k moved_records --sim-seeds 20000 -n 2      (nightly)
"""

import random
from dataclasses import replace

import pytest

from pulsar_barycenter.broker.ownership.channel.places.following_records import FollowingRecords
from pulsar_barycenter.broker.ownership.channel.places.syncer import RecordsSyncer
from pulsar_barycenter.load.managers import ManagerKind
from support.simulation.cluster import Settings
from support.simulation.faults import SYNCER
from support.simulation.loop import SimulationError
from support.simulation.scenario import Verdict, run_scenario
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

SHARE = 8
"""For so many histories of the other simulation one is played here."""

ONCE_FAILED = (892853661,)
"""Seeds of histories that found a fault; they are always played."""

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
CLASSES = (f"{CHANNEL}.ServiceUnitStateTableViewImpl", f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "moved_records_seed" in metafunc.fixturenames:
        seeds = seeds_to_play(metafunc.config, 1 / SHARE, ONCE_FAILED)
        metafunc.parametrize("moved_records_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


def play(seed: int, *, faults: tuple[str, ...] | None = None) -> Verdict:
    """Play the history of a seed with its own settings, and a location drawn for each incarnation of a broker.

    In every second history some of these have the modular load manager: records move while brokers change their load
    manager.
    """
    source = random.Random(seed)
    settings = Settings.drawn(source)
    changes_over = source.random() < 0.5
    config = {
        **settings.config,
        "load_manager_migration_enabled": changes_over,
        SYNCER: source.choice(("SystemTopicToMetadataStoreSyncer", "MetadataStoreToSystemTopicSyncer")),
    }
    lives: tuple[dict[str, str], ...] = tuple(
        {
            "load_manager_class_name": ManagerKind.EXTENSIBLE.class_name,
            "load_manager_service_unit_state_table_view_class_name": name,
        }
        for name in CLASSES
    )
    if changes_over:
        lives += ({"load_manager_class_name": ManagerKind.MODULAR.class_name},)
    return run_scenario(seed, settings=replace(settings, config=config, alternatives=lives), faults=faults)


def test_a_cluster_survives_that_its_records_are_moved(moved_records_seed: int) -> None:
    """At each step one server for each bundle and a complete tiling; at the end every message, in order."""
    try:
        verdict = play(moved_records_seed)
    except Exception as error:
        asked = f"-k moved_records --sim-seed {moved_records_seed}"
        replay = f".venv/bin/python -m pytest tests/simulation {asked}"
        raise AssertionError(f"seed {moved_records_seed}: {error!r}; replay: {replay}") from error
    assert verdict.messages > 0


def first_failure(seeds: range, faults: tuple[str, ...] | None = None) -> str | None:
    """Return the name of the first check that fails over `seeds`."""
    for seed in seeds:
        try:
            play(seed, faults=faults)
        except SimulationError as error:
            return error.check
    return None


def test_a_reader_that_stays_where_it_was_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stay(*_: object) -> None:
        return

    monkeypatch.setattr(FollowingRecords, "_change_over", stay)
    assert first_failure(range(2, 12)) is not None


def test_a_leader_that_waits_for_nobody_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes the authoritative location while a broker that has not noticed continues to write to the former
    one."""

    async def wait_for_nobody(self: RecordsSyncer, generation: int) -> None:
        return

    monkeypatch.setattr(RecordsSyncer, "_await_readers", wait_for_nobody)
    faults = ("move records", "move records", "notifications", "unload", "unload to", "lookups")
    found = first_failure(range(15, 40), faults)
    assert found in {"one server", "epochs rise"}
