"""The states of a bundle that a broker holds: the transitions, the refusals, and the terms and log that go along."""

from itertools import product
from types import SimpleNamespace

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership import holdings
from pulsar_barycenter.broker.ownership.holdings import TRANSITIONS, Holding, HoldingEvent, Holdings, HoldingState
from pulsar_barycenter.broker.ownership.locks import BundleLock
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.ownership.term import PauseDetector
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName

BUNDLE = Bundle.full(NamespaceName.parse("public/default"))
OWNER = Owner("b1", None, None, None, None, is_local=True)


class Log(ServingLog):
    def __init__(self) -> None:
        self.events = []

    def started(self, term, reason):
        self.events.append("started")

    def ended(self, term, reason):
        self.events.append("ended")


class World:
    """Holdings on a clock that only the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.log = Log()
        self.changed: list[Bundle] = []
        clock = SimpleNamespace(now_ms=lambda: round(self.now_s * 1000))
        pauses = PauseDetector(5.0, lambda: self.now_s, clock.now_ms)
        self.holdings = Holdings(pauses=pauses, clock=clock, serving_log=self.log, changed=self.changed.append)

    def prepare(self, epoch: int = 1) -> Holding:
        return self.holdings.prepare(BUNDLE, BundleLock(None, None, epoch), OWNER)

    def send(self, holding: Holding, event: HoldingEvent) -> None:
        steps = {
            HoldingEvent.ACTIVATE: lambda: self.holdings.activate(holding, "test"),
            HoldingEvent.UNLOAD: lambda: self.holdings.unload(holding),
            HoldingEvent.END: lambda: self.holdings.end(holding, "test"),
        }
        steps[event]()


def test_every_order_of_events_keeps_to_the_table():
    """What the table has not is refused and changes nothing; flags and log follow the state."""
    for events in product(HoldingEvent, repeat=4):
        world = World()
        holding = world.prepare()
        began = False
        for event in events:
            before, told = holding.state, list(world.log.events)
            if (before, event) in TRANSITIONS:
                world.send(holding, event)
                assert holding.state is TRANSITIONS[before, event]
            else:
                with pytest.raises(AssertionError, match=f"{event.value} of bundle {BUNDLE}, which is {before.value}"):
                    world.send(holding, event)
                assert holding.state is before
                assert world.log.events == told
            assert holding.term.active is (holding.state is HoldingState.SERVING)
            assert holding.term.may_acknowledge is (holding.state is not HoldingState.ENDED)
            began = began or holding.state is HoldingState.SERVING
            ended = holding.state is HoldingState.ENDED
            assert world.log.events == ["started", "ended"][: began + (began and ended)]


def test_a_term_that_ended_never_comes_back():
    ways_out = {state for (state, _), after in TRANSITIONS.items() if after is not state}
    assert HoldingState.ENDED not in ways_out
    assert {after for (state, _), after in TRANSITIONS.items() if state is HoldingState.ENDED} == {HoldingState.ENDED}


def test_the_page_of_states_says_what_the_table_says():
    """The docstring's row of each state names the events that are listed for it, those that lead nowhere excepted."""
    rows = {line.split()[1]: line for line in holdings.__doc__.splitlines() if line.startswith("| ")}
    for state in HoldingState:
        told = {event for event in HoldingEvent if event.name in rows[state.name].replace(state.name, "")}
        assert told == {event for (at, event), after in TRANSITIONS.items() if at is state and after is not state}


def test_only_an_ended_holding_is_forgotten():
    world = World()
    holding = world.prepare()
    world.holdings.activate(holding, "test")
    with pytest.raises(AssertionError, match="serving"):
        world.holdings.forget(holding)
    assert BUNDLE in world.holdings
    world.holdings.end(holding, "test")
    world.holdings.forget(holding)
    assert BUNDLE not in world.holdings


def test_forgetting_an_old_generation_leaves_the_new_one():
    world = World()
    old = world.prepare(epoch=1)
    world.holdings.end(old, "lost")
    new = world.prepare(epoch=2)
    world.holdings.forget(old)
    assert world.holdings.get(BUNDLE) is new


def test_nothing_is_served_by_a_process_that_stood_still():
    world = World()
    holding = world.prepare()
    assert world.holdings.serving(BUNDLE) is None
    world.holdings.activate(holding, "test")
    assert world.holdings.serving(BUNDLE) is holding
    world.now_s = 5.1
    assert world.holdings.serving(BUNDLE) is None
    assert not holding.term.may_acknowledge


def test_each_change_is_told_once():
    world = World()
    holding = world.prepare()
    for event in (HoldingEvent.ACTIVATE, HoldingEvent.UNLOAD, HoldingEvent.END):
        world.send(holding, event)
    world.holdings.forget(holding)
    assert world.changed == [BUNDLE] * 4
