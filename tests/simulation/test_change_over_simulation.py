"""Seeded histories of clusters in which each incarnation of a broker has one load manager or the other.

.venv/bin/python -m pytest tests/simulation -k change_over --sim-seeds 20000 -n 2      (nightly)
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from pulsar_barycenter.broker.ownership.channel.record_ownership import RecordOwnership
from pulsar_barycenter.load.managers import ManagerKind
from support.simulation.cluster import Settings
from support.simulation.faults import OF_ALL, OF_ONE
from support.simulation.loop import SimulationError
from support.simulation.scenario import Verdict, run_scenario
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

SHARE = 12
"""For so many histories of the other simulation one is played here, on each place of records."""

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
PLACES = {
    "topic": f"{CHANNEL}.ServiceUnitStateTableViewImpl",
    "store": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
}
ONCE_FAILED = {
    "topic": {**dict.fromkeys((1022, 1025, 1087, 1151), OF_ONE), 107601726: (*OF_ONE, *OF_ALL)},
    "store": {
        **dict.fromkeys((1042, 1043, 1049, 1087, 1168, 1240, 1288, 2156, 3145), OF_ONE),
        **dict.fromkeys((5010, 163479914), (*OF_ONE, *OF_ALL)),
    },
}
"""Seeds of histories that found a fault, and among which faults they were drawn; they are always played."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "change_over_seed" in metafunc.fixturenames:
        rows = [
            (place, seed)
            for place, once in ONCE_FAILED.items()
            for seed in seeds_to_play(metafunc.config, 1 / SHARE, once)
        ]
        metafunc.parametrize(("place", "change_over_seed"), rows, ids=[f"{place}-seed-{seed}" for place, seed in rows])


def play(seed: int, place: str, **options: object) -> Verdict:
    """Play the history of a seed with its own settings, and a load manager drawn for each incarnation of a broker."""
    settings = Settings.drawn(random.Random(seed))
    config = {
        **settings.config,
        "load_manager_migration_enabled": True,
        "load_manager_service_unit_state_table_view_class_name": PLACES[place],
    }
    managers = ({}, {"load_manager_class_name": ManagerKind.EXTENSIBLE.class_name})
    return run_scenario(seed, settings=replace(settings, config=config, alternatives=managers), **options)  # type: ignore[arg-type]


def test_a_cluster_survives_the_change_over_of_its_brokers(place: str, change_over_seed: int) -> None:
    """At each step one server for each bundle and a complete tiling; at the end every message, in order."""
    try:
        verdict = play(change_over_seed, place, faults=ONCE_FAILED[place].get(change_over_seed))
    except Exception as error:
        asked = f"-k 'change_over and {place}' --sim-seed {change_over_seed}"
        replay = f".venv/bin/python -m pytest tests/simulation {asked}"
        raise AssertionError(f"seed {change_over_seed}: {error!r}; replay: {replay}") from error
    assert verdict.messages > 0


def first_failure(seeds: range) -> str | None:
    """Return the name of the first check that fails over `seeds`."""
    for seed in seeds:
        try:
            play(seed, "store")
        except SimulationError as error:
            return error.check
    return None


def test_records_without_locks_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that owns only by its record serves in parallel with one that owns by a lock."""
    start: Callable[[RecordOwnership], None] = RecordOwnership.start

    def without_locks(self: RecordOwnership) -> None:
        self._holds_locks = lambda: False
        start(self)

    async def let_all_in(*_: object, **_also: object) -> None:
        return

    monkeypatch.setattr(RecordOwnership, "start", without_locks)
    admitted: Callable[..., Awaitable[None]] = let_all_in
    monkeypatch.setattr("pulsar_barycenter.broker.control_plane.refuse_mixed_ownership", admitted)
    assert first_failure(range(40)) in {"one server", "epochs rise", "fencing"}
