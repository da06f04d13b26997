"""Seeded histories of producers with access modes, whose brokers, clients, store and network fail.

.venv/bin/python -m pytest tests/simulation -k "exclusive and survive" --sim-seed 4711    (one again)
"""

from collections import Counter

import pytest

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.producer_access import ProducerAccess
from support.simulation.exclusive_producers import run_access_history
from support.simulation.loop import SimulationError
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

ONCE_FAILED = (112843665,)
SHARE = 0.2
"""How many histories are played here for one of a whole cluster."""

LAST_EVENTS = 60
IN_ONE = 5
"""Histories of one test."""


def pytest_generate_tests(metafunc):
    if "seeds" in metafunc.fixturenames:
        every = seeds_to_play(metafunc.config, SHARE, ONCE_FAILED)
        groups = [every[at : at + IN_ONE] for at in range(0, len(every), IN_ONE)]
        metafunc.parametrize("seeds", groups, ids=[f"seeds-{group[0]}-{group[-1]}" for group in groups])


def events_of(seed):
    lines: list[str] = []
    with pytest.raises(BaseException):  # noqa: B017 (it failed before; here only its events are wanted)
        run_access_history(seed, lines=lines)
    return lines


def test_exclusive_producers_survive_what_befalls_their_cluster(seeds):
    """One producer per epoch, epochs that never decrease, no acknowledged message lost, and turns for all that wait."""
    attached = 0
    for seed in seeds:
        try:
            history = run_access_history(seed)
        except Exception as error:
            last = "\n".join(events_of(seed)[-LAST_EVENTS:])
            again = f".venv/bin/python -m pytest tests/simulation -k 'exclusive and survive' --sim-seed {seed}"
            raise AssertionError(f"seed {seed}: {error!r}\n\n{last}\n\nreplay: {again}") from error
        attached += history.outcomes.get("attached", 0)
    assert attached > 0  # in one history all clients may die before a broker can serve them


def test_the_same_seed_plays_the_same_history():
    assert run_access_history(5) == run_access_history(5)


def test_producers_wait_are_fenced_take_turns_and_die():
    """Otherwise the requirements would not be tried."""
    outcomes: Counter[str] = Counter()
    histories = [run_access_history(seed) for seed in range(5)]
    for history in histories:
        outcomes.update(history.outcomes)
    assert min(outcomes[event] for event in ("attached", "waited", "fenced", "left", "died")) >= 10
    assert sum(history.epochs for history in histories) >= 30
    assert sum(history.turns for history in histories) >= 10


def check_that_fails(seeds):
    """Return the name of the first check that fails over `seeds`."""
    for seed in seeds:
        try:
            run_access_history(seed)
        except SimulationError as error:
            return error.check
    return None


def test_epochs_that_are_not_stored_are_caught(monkeypatch):
    """The topic's next owner begins at the former epoch: two producers have one number."""

    async def store_nothing(self, epoch):
        return

    monkeypatch.setattr(PersistentTopic, "store_producer_epoch", store_nothing)
    assert check_that_fails(range(20)) in {"one producer an epoch", "epochs never go back"}


def test_epochs_that_are_lost_by_another_write_are_caught(monkeypatch):
    honest = PersistentTopic.store_producer_epoch

    async def store_for_a_while(self, epoch):
        await honest(self, epoch)
        self.ledger._ledgers.properties = {}

    monkeypatch.setattr(PersistentTopic, "store_producer_epoch", store_for_a_while)
    assert check_that_fails(range(20)) == "epochs never go back"


def test_a_turn_that_is_lost_with_a_claimant_is_caught(monkeypatch):
    """A producer whose turn it is leaves before it has the topic, and then no producer gets it."""
    honest = ProducerAccess.leave

    def leave(self, producer):
        had_claim = self._claim is not None and self._claim.producer is producer
        actions = honest(self, producer)
        if had_claim:
            self._claim = None
            return []
        return actions

    monkeypatch.setattr(ProducerAccess, "leave", leave)
    assert check_that_fails(range(258, 320)) == "a waiter gets its turn"


def test_a_fencing_producer_that_leaves_the_holder_its_place_is_caught(monkeypatch):
    """The fenced producer continues to write, in parallel with or after its successor."""
    monkeypatch.setattr(ProducerAccess, "_fence_all", lambda self, by: [])
    assert check_that_fails(range(20)) is not None
