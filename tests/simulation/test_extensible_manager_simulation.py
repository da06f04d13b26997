"""Seeded histories of clusters with the extensible load manager, with both locations of ownership records.

.venv/bin/python -m pytest tests/simulation -k extensible --sim-seeds 20000 -n 2      (nightly)
"""

import random
from dataclasses import replace

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from support.simulation.cluster import Settings
from support.simulation.faults import OF_ALL, OF_ONE
from support.simulation.loop import SimulationError
from support.simulation.scenario import Verdict, run_scenario
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

SHARE = 0.4
"""How many histories are played here on each place of records, for one of the other simulation."""

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
PLACES = {
    "topic": f"{CHANNEL}.ServiceUnitStateTableViewImpl",
    "store": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
}
ONCE_FAILED = {
    "topic": {
        **dict.fromkeys((116, 123, 129, 2361, 2369, 2541, 4121, 4478, 4511, 10116, 10143, 7000086), OF_ONE),
        **dict.fromkeys((1064, 92001410), (*OF_ONE, *OF_ALL)),
    },
    "store": {
        **dict.fromkeys((1, 12, 18, 24, 1045), OF_ONE),
        **dict.fromkeys((92000644, 487790155), (*OF_ONE, *OF_ALL)),
    },
}
"""Seeds of histories that found a fault, and among which faults they were drawn; they are always played."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "extensible_seed" in metafunc.fixturenames:
        rows = [
            (place, seed) for place, once in ONCE_FAILED.items() for seed in seeds_to_play(metafunc.config, SHARE, once)
        ]
        metafunc.parametrize(("place", "extensible_seed"), rows, ids=[f"{place}-seed-{seed}" for place, seed in rows])


def play(seed: int, place: str, **options: object) -> Verdict:
    """Play the history of a seed with its own settings and the extensible load manager."""
    settings = Settings.drawn(random.Random(seed))
    config = {
        **settings.config,
        "load_manager_class_name": ManagerKind.EXTENSIBLE.class_name,
        "load_manager_service_unit_state_table_view_class_name": PLACES[place],
    }
    return run_scenario(seed, settings=replace(settings, config=config), **options)  # type: ignore[arg-type]


def test_a_cluster_of_the_extensible_load_manager_survives_what_befalls_it(place: str, extensible_seed: int) -> None:
    """At each step one server for each bundle and a complete tiling; at the end every message, in order."""
    try:
        verdict = play(extensible_seed, place, faults=ONCE_FAILED[place].get(extensible_seed))
    except Exception as error:
        again = f".venv/bin/python -m pytest tests/simulation -k 'extensible and {place}' --sim-seed {extensible_seed}"
        raise AssertionError(f"seed {extensible_seed}: {error!r}; replay: {again}") from error
    assert verdict.messages > 0


@pytest.mark.parametrize("place", PLACES)
def test_the_same_seed_plays_the_same_history_of_the_extensible_load_manager(place: str) -> None:
    assert play(11, place) == play(11, place)


@pytest.mark.parametrize("place", PLACES)
def test_rounds_of_shedding_move_bundles_of_the_extensible_load_manager(place: str) -> None:
    assert play(0, place, faults=("shed", "burst")).shed > 3


def first_failure(place: str, seeds: range, faults: tuple[str, ...]) -> str | None:
    """Return the name of the first check that fails over `seeds`."""
    for seed in seeds:
        try:
            play(seed, place, faults=faults)
        except SimulationError as error:
            return error.check
    return None


def test_numbers_of_a_former_life_that_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that serves by its record from before it lost its session serves in parallel with its successor."""
    monkeypatch.setattr(
        "pulsar_barycenter.broker.ownership.channel.machine.own_life.OwnLife.has_numbered", lambda self, record: True
    )
    found = first_failure("store", range(40), ("session loss", "pause", "lookups", "crash"))
    assert found in {"one server", "epochs rise", "fencing"}


def test_a_leader_that_takes_the_registration_for_the_session_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose registration is missing for a moment continues to serve; its bundles must not be given to
    others."""
    monkeypatch.setattr("pulsar_barycenter.broker.ownership.channel.leader_repairs.SESSIONS_ROOT", "/nowhere")
    # One history in some thirty finds it.
    assert first_failure("store", range(48, 80), ("lost registrations", "lookups", "burst")) == "one server"
