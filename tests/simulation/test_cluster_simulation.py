"""Seeded histories of whole clusters: crashes, pauses, lost sessions, partitions, unloads, splits.

.venv/bin/python -m pytest tests/simulation --sim-seeds 5000 -n 2        (nightly)
.venv/bin/python -m pytest tests/simulation --sim-first 1000 -n 2        (others; without it the commit draws them)
.venv/bin/python -m pytest tests/simulation -k survives --sim-seed 4711  (one again, with its last events)
"""

import asyncio
import json
from pathlib import Path

import pytest

from pulsar_barycenter.broker.topics.registry import TopicRegistry
from support.simulation.cluster import Settings
from support.simulation.faults import OF_ALL, OF_BALANCE, OF_ONE
from support.simulation.loop import SimulationError
from support.simulation.scenario import run_scenario
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

LAST_EVENTS = 60

ONCE_FAILED = {
    **dict.fromkeys((207, 312, 896, 897, 1179, 1267, 1482), OF_ONE[:-1]),
    88864119: OF_ONE,
    141: (*OF_ONE, *OF_ALL),
    **dict.fromkeys((96000893, 96001345, 96001779, 610001826, 700009237), (*OF_ONE, *OF_ALL, *OF_BALANCE)),
}
"""Seeds of histories that found a fault, and among which faults they were drawn; they are always played."""


def pytest_generate_tests(metafunc):
    if "sim_seed" in metafunc.fixturenames:
        seeds = seeds_to_play(metafunc.config, once_failed=ONCE_FAILED)
        metafunc.parametrize("sim_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


def replay_command(seed):
    return f".venv/bin/python -m pytest tests/simulation -k survives --sim-seed {seed}"


def events_of(seed):
    lines: list[str] = []
    with pytest.raises(BaseException):  # noqa: B017 (it failed before; here only its events are wanted)
        run_scenario(seed, lines=lines, faults=ONCE_FAILED.get(seed))
    return lines


def test_a_cluster_survives_what_befalls_it(sim_seed, request):
    """At each step one server for each bundle and a complete tiling; at the end every message, in order."""
    try:
        verdict = run_scenario(sim_seed, faults=ONCE_FAILED.get(sim_seed))
    except Exception as error:
        lines = events_of(sim_seed)
        if (file := request.config.getoption("--sim-log")) is not None:
            Path(file).write_text("\n".join(lines) + "\n")
        last = "\n".join(lines[-LAST_EVENTS:])
        raise AssertionError(f"seed {sim_seed}: {error!r}\n\n{last}\n\nreplay: {replay_command(sim_seed)}") from error
    assert verdict.messages > 0


def test_the_same_seed_plays_the_same_history():
    first, second = (run_scenario(11) for _ in range(2))
    assert first == second


def test_other_seeds_play_other_histories():
    assert run_scenario(11).digest != run_scenario(12).digest


def test_rounds_of_shedding_move_bundles():
    """Otherwise restarts while shedding would only be restarts."""
    verdict = run_scenario(0, faults=("rolling restart while shedding", "burst"))
    assert verdict.shed > 3


def check_that_fails(seeds, **options):
    """Return the name of the first check that fails over `seeds`."""
    for seed in seeds:
        try:
            run_scenario(seed, **options)
        except SimulationError as error:
            return error.check
    return None


def test_a_broker_that_does_not_notice_its_pauses_is_caught(monkeypatch):
    """Without detection and without fences a broker that wakes up continues to serve what another one took over."""
    monkeypatch.setattr("pulsar_barycenter.broker.ownership.term.PauseDetector.has_paused", lambda self: False)
    monkeypatch.setattr("support.memory_ledgers.MemoryLedgerStorage.fence", _fence_nothing)
    found = check_that_fails(range(40), faults=("pause", "lookups", "reset", "burst"))
    assert found in {"one server", "fencing", "every message in order"}


def test_ledgers_that_are_not_fenced_are_caught(monkeypatch):
    """When the store ends a session early, only the fence stops the former owner from acknowledging entries that are
    lost."""
    monkeypatch.setattr("support.memory_ledgers.MemoryLedgerStorage.fence", _fence_nothing)
    hard_times = Settings(session_timeout_ms=8_000, faults_per_s=4.0)
    found = check_that_fails(range(40), faults=("session loss", "lookups", "reset", "burst"), settings=hard_times)
    assert found in {"every message in order", "every message arrives"}


async def _fence_nothing(self, ledger_id, *, epoch):
    ledger = self.disk.ledger(ledger_id)
    return await self.open(ledger_id, entry_count=len(ledger.entries))


def test_a_disk_that_lies_about_durability_is_caught(monkeypatch):
    """A crash that loses acknowledged entries shows as missing messages."""
    from pulsar_barycenter.ledger.entry_index import EntryIndex
    from support.memory_ledgers import MemoryLedgerStorage

    honest = MemoryLedgerStorage.crash

    def forgetful(self, *, survivors=None):
        for writer in self._writers:
            ledger = writer._ledger
            del ledger.entries[-3:]
            kept, before, ledger.index = len(ledger.entries), ledger.index, EntryIndex()
            sizes = [len(entry) for entry in ledger.entries]
            ledger.index.extend(sizes, before.message_counts(0, kept), before.publish_times(0, kept))
        honest(self, survivors=survivors)

    monkeypatch.setattr(MemoryLedgerStorage, "crash", forgetful)
    found = check_that_fails(range(30), faults=("crash", "burst"))
    assert found in {"every message in order", "every message arrives"}


def test_a_split_that_leaves_a_gap_is_caught(monkeypatch):
    """A record of boundaries that does not cover the hash range shows in the step in which it is written."""
    from pulsar_barycenter.broker.namespaces import boundaries

    honest = boundaries.boundaries_value

    def with_gap(record, bundles):
        value = json.loads(honest(record, bundles))
        if len(value["bundles"]["boundaries"]) > 3:
            del value["bundles"]["boundaries"][0]
        return json.dumps(value).encode()

    monkeypatch.setattr(boundaries, "boundaries_value", with_gap)
    assert check_that_fails(range(30), faults=("split", "burst")) == "tiling"


def test_a_doubt_that_is_forgotten_is_caught(monkeypatch):
    """A term withholds a receipt while a clock is wrong, and gives the next one when the clock is right again."""
    detector = "pulsar_barycenter.broker.ownership.term.PauseDetector"
    monkeypatch.setattr(f"{detector}.has_paused", lambda self: self._has_stood_still() or self._is_overdue())
    assert check_that_fails(range(25, 40), faults=("clock jump", "clock jump", "burst")) == "receipts in order"


def test_what_is_left_of_a_lock_is_missed_when_nobody_clears_it_up(monkeypatch):
    """An unload whose last write the store does not answer leaves a lock that keeps all brokers from the bundle."""
    monkeypatch.setattr("pulsar_barycenter.broker.ownership.locks.BundleLocks.scrub_later", lambda self, bundle: None)
    monkeypatch.setattr("pulsar_barycenter.broker.ownership.locks.BundleLocks.scrub_idle", lambda self, bundle: None)
    found = check_that_fails(range(40), faults=("read-only store", "lost answers", "unload"))
    assert found in {"served in time", "every message arrives"}


def test_a_hand_over_that_takes_too_long_is_caught(monkeypatch):
    """A broker keeps a bundle for a quarter of a minute after its topics are closed."""
    honest = TopicRegistry.close_bundle

    async def tarry(self, bundle, *, reason):
        closed = await honest(self, bundle, reason=reason)
        await asyncio.sleep(15)
        return closed

    monkeypatch.setattr(TopicRegistry, "close_bundle", tarry)
    assert check_that_fails(range(3), faults=("burst",)) == "served in time"
