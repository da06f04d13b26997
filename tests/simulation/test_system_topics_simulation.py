"""Seeded histories of a system topic that moves between brokers while others publish to it and read it.

.venv/bin/python -m pytest tests/simulation -k "system_topic and survives" --sim-seed 4711    (one again)
"""

import pytest

from pulsar_barycenter.broker.system_topics.publisher import Publisher
from pulsar_barycenter.broker.system_topics.reader import Reader
from pulsar_barycenter.broker.system_topics.repeats import Repeats
from support.simulation.loop import SimulationError
from support.simulation.seeds import seeds_to_play
from support.simulation.system_topics import run_history

pytestmark = pytest.mark.simulation

SHARE = 0.3
"""How many histories are played here for one of a whole cluster."""

LAST_EVENTS = 60
IN_ONE = 10
"""Histories of one test: each takes a fifth of a second, and a test of its own would cost half of that again."""


def pytest_generate_tests(metafunc):
    if "seeds" in metafunc.fixturenames:
        every = seeds_to_play(metafunc.config, SHARE)
        groups = [every[at : at + IN_ONE] for at in range(0, len(every), IN_ONE)]
        metafunc.parametrize("seeds", groups, ids=[f"seeds-{group[0]}-{group[-1]}" for group in groups])


def events_of(seed):
    lines: list[str] = []
    with pytest.raises(BaseException):  # noqa: B017 (it failed before; here only its events are wanted)
        run_history(seed, lines=lines)
    return lines


def test_a_system_topic_survives_what_befalls_its_owner(seeds):
    """No reader sees a message lost, duplicated or reordered, and all views agree at rest."""
    for seed in seeds:
        try:
            history = run_history(seed)
        except Exception as error:
            last = "\n".join(events_of(seed)[-LAST_EVENTS:])
            again = f".venv/bin/python -m pytest tests/simulation -k 'system_topic and survives' --sim-seed {seed}"
            raise AssertionError(f"seed {seed}: {error!r}\n\n{last}\n\nreplay: {again}") from error
        assert history.acknowledged > 0


def test_the_same_seed_plays_the_same_history():
    assert run_history(7) == run_history(7)


def test_messages_are_stored_twice_now_and_then():
    """Otherwise the removal of duplicates would not be tried."""
    assert any(run_history(seed).stored_twice for seed in range(40))


def check_that_fails(seeds):
    """Return the name of the first check that fails over `seeds`."""
    for seed in seeds:
        try:
            run_history(seed)
        except SimulationError as error:
            return error.check
        except TimeoutError:
            return "every message arrives"
    return None


def test_a_reader_that_takes_repeats_for_news_is_caught(monkeypatch):
    monkeypatch.setattr(Repeats, "is_repeat", lambda self, producer, sequence_id: False)
    assert check_that_fails(range(20)) == "every message once, in order"


def test_a_reader_that_goes_on_from_the_latest_is_caught(monkeypatch):
    honest = Reader._subscribe

    def forgetful(self, request_id):
        if self._attempts > 1:
            self._position = None
        return honest(self, request_id)

    monkeypatch.setattr(Reader, "_subscribe", forgetful)
    assert check_that_fails(range(20)) in {"all read the same", "nothing acknowledged is lost", "every message arrives"}


def test_a_reader_that_delivers_the_last_entry_again_is_caught(monkeypatch):
    monkeypatch.setattr(Repeats, "is_repeat", lambda self, producer, sequence_id: False)
    monkeypatch.setattr(Reader, "_is_due", lambda self, place: self._position is None or place >= self._position)
    assert check_that_fails(range(20)) == "every message once, in order"


def test_a_publisher_that_sends_again_in_another_order_is_caught(monkeypatch):
    honest = Publisher._attach

    async def disorderly(self, connection):
        self._pending = dict(reversed(self._pending.items()))
        await honest(self, connection)

    monkeypatch.setattr(Publisher, "_attach", disorderly)
    assert check_that_fails(range(40)) is not None
