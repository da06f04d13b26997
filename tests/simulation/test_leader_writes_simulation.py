"""Seeded histories of clusters whose leader writes for all, and grants the sessions: `leaderOnlyMetadataWrites=true`.

.venv/bin/python -m pytest tests/simulation/test_leader_writes_simulation.py --sim-seeds 10000    (plays 2,000)

In addition to the requirements of any cluster, the store has at most one ephemeral key, the leader's.
"""

import random
from dataclasses import replace
from typing import Any

import pytest

from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes, SessionTable
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.session import SessionWatch
from pulsar_barycenter.metadata.store import Notification
from support.simulation.cluster import Settings
from support.simulation.faults import OF_ALL, OF_BALANCE, OF_ONE, Faults
from support.simulation.leader_faults import LeaderFaults
from support.simulation.loop import SimulationError
from support.simulation.scenario import Verdict, run_scenario
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

SHARE = 5
"""For so many histories of the other simulation one is played here."""

TIMEOUTS_MS = (3_000, 4_000, 4_000, 8_000)
"""Half of a session is the lease, and a write takes a request more than where brokers write themselves."""

TIMEOUT = "metadata_store_session_timeout_millis"
PLACE = "load_manager_service_unit_state_table_view_class_name"
CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
MANAGERS: tuple[dict[str, str], ...] = (
    {},
    {},
    {
        "load_manager_class_name": ManagerKind.EXTENSIBLE.class_name,
        PLACE: f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
    },
    {},
    {"load_manager_class_name": ManagerKind.SIMPLE.class_name},
    {
        "load_manager_class_name": ManagerKind.EXTENSIBLE.class_name,
        PLACE: f"{CHANNEL}.ServiceUnitStateTableViewImpl",
    },
)
"""What histories are played with, one after the other: mostly the modular load manager."""

ONCE_FAILED = {96000365: (*OF_ONE, *OF_ALL, *OF_BALANCE), 118599083: None, 618162210: None}
"""Seeds of histories that found a fault, and among which faults they were drawn (None: all); they are always
played."""

ROUGH = ("crash", "pause", "store partition", "partition", "lookups", "burst", "unload")
LATE = ("leader writes", "leader commands", "leader away")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sim_seed" in metafunc.fixturenames:
        seeds = seeds_to_play(metafunc.config, 1 / SHARE, ONCE_FAILED)
        metafunc.parametrize("sim_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


class OneEphemeralKey(Faults):
    """Checks that at each change of the store."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        judged = self.cluster.referee.on_change

        def on_change(backend: MemoryBackend, change: Notification) -> None:
            judged(backend, change)
            record = backend.keys.get(change.path, session=None)
            if record is not None and record.stat.ephemeral and change.path != leader_path(self.cluster.settings):
                error = SimulationError("one ephemeral key", change.path)
                self._loop.failures.append(error)
                raise error

        self.cluster.referee.on_change = on_change  # type: ignore[method-assign]


def leader_path(settings: Settings) -> str:
    of_records = settings.config.get("load_manager_class_name") == ManagerKind.EXTENSIBLE.class_name
    return CHANNEL_LEADER_PATH if of_records else LEADER_PATH


def play(
    seed: int, *, befalling: type[Faults] = OneEphemeralKey, timeouts_ms: tuple[int, ...] = (), **options: Any
) -> Verdict:
    """Play the history of a seed; one of three has the extensible load manager, one of six the simple one. Each
    incarnation of a broker draws its own session timeout, from two in every other history unless `timeouts_ms` are
    given."""
    source = random.Random(seed)
    settings = Settings.drawn(source)
    config = {**settings.config, "leader_only_metadata_writes": "true", **MANAGERS[seed % len(MANAGERS)]}
    timeout_ms = source.choice(TIMEOUTS_MS)
    others_ms = timeouts_ms or ((timeout_ms, source.choice(TIMEOUTS_MS)) if seed % 2 else ())
    apart = tuple({TIMEOUT: each_ms} for each_ms in others_ms)
    settings = replace(settings, session_timeout_ms=timeout_ms, config=config, alternatives=apart)
    return run_scenario(seed, settings=settings, befalling=befalling, **options)


def test_a_cluster_whose_leader_writes_for_all_survives_what_befalls_it(sim_seed: int) -> None:
    """At each step one server for each bundle and a complete tiling; at the end every message, in order."""
    try:
        verdict = play(sim_seed, faults=ONCE_FAILED.get(sim_seed))
    except Exception as error:
        again = f".venv/bin/python -m pytest tests/simulation -k leader_writes_for_all --sim-seed {sim_seed}"
        raise AssertionError(f"seed {sim_seed}: {error!r}; replay: {again}") from error
    assert verdict.messages > 0


def test_the_same_seed_plays_the_same_history_of_leader_writes() -> None:
    assert play(11) == play(11)


def check_that_fails(seeds: range, **options: Any) -> str | None:
    """Return the name of the first check that fails."""
    for seed in seeds:
        try:
            play(seed, **options)
        except SimulationError as error:
            return error.check
    return None


def test_a_leader_that_does_not_wait_for_the_lease_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives a silent broker's bundles away as soon as it has marked the session."""

    def marked(self: SessionTable, session: str, now_s: float) -> None:
        self.released(session)

    monkeypatch.setattr(SessionTable, "marked", marked)
    assert check_that_fails(range(20, 80), faults=("partition", "lookups", "burst")) in {"one server", "fencing"}


def test_a_leader_that_goes_by_its_own_timeout_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader with 3 s gives away what a broker with 12 s still serves."""
    monkeypatch.setattr(LeaseTimes, "at_least", lambda self, lease_ms: self)
    found = check_that_fails(
        range(18, 78), timeouts_ms=(3_000, 12_000), faults=("store partition", "partition", "lookups", "burst")
    )
    assert found in {"one server", "fencing", "epochs rise"}


def test_a_broker_that_goes_on_without_its_lease_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that the store does not answer continues to serve, while the leader, without its heartbeat, waits for
    its lease."""

    class Endless(SessionWatch):
        deadline_s = float("inf")  # type: ignore[assignment]

    monkeypatch.setattr("pulsar_barycenter.metadata.leader_writes.session_lease.SessionWatch", Endless)
    found = check_that_fails(range(60), faults=("store partition", "partition", "lookups", "burst"))
    assert found in {"one server", "fencing", "epochs rise"}


def test_a_store_that_does_not_ask_for_the_epoch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_barycenter.metadata.memory.key_table.check_guard", lambda _guard, _actual: None)
    found = check_that_fails(range(40), befalling=LeaderFaults, faults=(*ROUGH, *LATE))
    assert found in {"former leaders", "epochs rise"}


def test_former_leaders_store_nothing_where_they_wrote_for_all() -> None:
    """With brokers that own by locks: the location of other records of epochs is tested elsewhere."""
    seeds = [seed for seed in range(4) if seed % 3 != 2]
    played = [play(seed, befalling=LeaderFaults, faults=(*ROUGH, *LATE)) for seed in seeds]
    assert all(verdict.messages for verdict in played)
    assert sum(verdict.faults.get("leader writes", 0) for verdict in played) > 0
