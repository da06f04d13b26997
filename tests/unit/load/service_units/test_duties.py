"""All brokers do their duties, in any order: from any state, a bundle comes to rest."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest

from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.conflicts import conflict
from pulsar_barycenter.load.service_units.duties import DUTIES, Duty, Held, Role, duty_of, role_of
from pulsar_barycenter.load.service_units.repairs import concerns, look_over, override, successor_of_orphan
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
)

S = ServiceUnitState
LIVE = ("a", "b")
NAMES = (None, *LIVE, "lost")
VERSION, AT_MS, IN_FLIGHT_MS = 5, 0, 10


class Situation(NamedTuple):
    """A bundle's record, and for each live broker what it holds and whether it published after the record."""

    record: ServiceUnitStateData
    held: tuple[Held, ...]
    has_done: tuple[bool, ...]

    def duty(self, place: int) -> Duty:
        duty = duty_of(role_of(self.record, LIVE[place]), self.held[place])
        publishes = duty not in (Duty.NOTHING, Duty.BEGIN, Duty.LET_GO)
        return Duty.NOTHING if publishes and self.has_done[place] else duty

    def holding(self, place: int, held: Held) -> "Situation":
        return self._replace(held=(*self.held[:place], held, *self.held[place + 1 :]))

    def published(self, record: ServiceUnitStateData) -> "Situation":
        """Return the situation when all brokers have read a record, if it is kept; its version is ignored."""
        if conflict(self.record, record, StorageType.SYSTEM_TOPIC) is not None:
            return self
        same = msgspec.structs.replace(record, version_id=VERSION, epoch=None if record.epoch is None else 1)
        later = {Held.SERVING: Held.OUTDATED, Held.ENDED: Held.NOTHING}
        return Situation(same, tuple(later.get(held, held) for held in self.held), (False, False))


def after_duty(now: Situation, place: int) -> Situation:
    record, duty = now.record, now.duty(place)
    done = now._replace(has_done=(*now.has_done[:place], True, *now.has_done[place + 1 :]))
    match duty:
        case Duty.BEGIN:
            return now.holding(place, Held.SERVING)
        case Duty.LET_GO:
            return now.holding(place, Held.NOTHING)
        case Duty.CLAIM:
            return done.published(events.owned(record, AT_MS, 1))
        case Duty.CLAIM_AGAIN:
            return done.published(events.claimed(record, LIVE[place], AT_MS, 1))
        case Duty.HAND_OVER:
            held = Held.NOTHING if now.held[place] is Held.NOTHING else Held.CLOSED
            return done.holding(place, held).published(events.handed_over(record, AT_MS))
        case Duty.GIVE_UP:
            return done.holding(place, Held.NOTHING).published(events.freed(record, AT_MS))
        case Duty.SPLIT:
            return done.holding(place, Held.NOTHING).published(events.deleted(record, AT_MS))
    return done


def repaired(now: Situation) -> Iterator[Situation]:
    """Return the possible results of the leader's repair when no broker has a duty and the bundle is not at rest."""
    record = now.record
    found = look_over([("x", record)], LIVE, AT_MS + IN_FLIGHT_MS + 1, in_flight_ms=IN_FLIGHT_MS, tombstone_ms=1000)
    gone = [broker for broker in found.lost_brokers if concerns(record, broker)]
    assert found.orphans or gone, f"nobody finds that this is stuck: {now}"
    clear = successor_of_orphan(record, LIVE)
    successors = [clear] if clear else [*(name for name in LIVE if name != record.dst_broker), None]
    for successor in successors:
        after = now.published(override(record, successor, AT_MS, 1))
        assert after.record != record, f"the override is refused: {now}"
        yield after


def is_at_rest(now: Situation) -> bool:
    """Return whether no further step is due; then no broker may hold what it does not own."""
    owner = now.record.owner
    if now.record.state.is_in_flight or (now.record.state is S.OWNED and owner not in LIVE):
        return False
    for name, held in zip(LIVE, now.held, strict=True):
        assert held is (Held.SERVING if name == owner else Held.NOTHING), now
    return True


def situations() -> Iterator[Situation]:
    for state, destination, source, epoch in itertools.product(S, NAMES, NAMES, (None, 1)):
        if destination is source is None and state is not S.FREE:
            continue
        record = ServiceUnitStateData(state, destination, source, timestamp=AT_MS, version_id=VERSION, epoch=epoch)
        may_hold = [
            [held for held in Held if role_of(record, name) is Role.OWNER or held not in (Held.SERVING, Held.ENDED)]
            for name in LIVE
        ]
        for held in itertools.product(*may_hold):
            yield Situation(record, held, (False, False))


def test_every_situation_comes_to_rest_in_any_order_of_duties() -> None:
    """However it came about. None returns to where it was, so that each way has an end."""
    ends: set[Situation] = set()
    way: set[Situation] = set()

    def follow(now: Situation) -> None:
        if now in ends:
            return
        assert now not in way, f"it goes around: {now}"
        way.add(now)
        acting = [place for place in range(len(LIVE)) if now.duty(place) is not Duty.NOTHING]
        for place in acting:
            follow(after_duty(now, place))
        if not acting and not is_at_rest(now):
            for after in repaired(now):
                follow(after)
        way.remove(now)
        ends.add(now)

    count = 0
    for situation in situations():
        follow(situation)
        count += 1
    assert count > 1000
    assert {now.record.state for now in ends} == set(S)


@pytest.mark.parametrize("held", Held)
@pytest.mark.parametrize("role", Role)
def test_whoever_holds_what_is_not_in_the_table_lets_it_go(role: Role, held: Held) -> None:
    if (role, held) in DUTIES:
        assert duty_of(role, held) is DUTIES[role, held]
    else:
        assert duty_of(role, held) is (Duty.NOTHING if held is Held.NOTHING else Duty.LET_GO)


def test_serving_is_let_go_unless_it_is_the_term_that_the_record_began() -> None:
    for role in Role:
        duty = duty_of(role, Held.SERVING)
        assert (duty is Duty.NOTHING) is (role is Role.OWNER)


@pytest.mark.parametrize(
    ("state", "destination", "source", "epoch", "roles"),
    [
        (S.OWNED, "a", "b", 1, (Role.OWNER, Role.NONE)),
        (S.OWNED, "a", None, None, (Role.OWNER_WITHOUT_NUMBER, Role.NONE)),
        (S.ASSIGNING, "a", "b", None, (Role.HEIR, Role.PREDECESSOR)),
        (S.ASSIGNING, "a", "a", None, (Role.HEIR, Role.NONE)),
        (S.RELEASING, "a", "b", None, (Role.EXPECTANT, Role.GIVER)),
        (S.RELEASING, None, "b", None, (Role.NONE, Role.LEAVER)),
        (S.RELEASING, "", "b", None, (Role.NONE, Role.LEAVER)),
        (S.SPLITTING, "a", "b", None, (Role.NONE, Role.SPLITTER)),
        (S.FREE, "a", "b", None, (Role.NONE, Role.NONE)),
        (S.DELETED, "a", "b", None, (Role.NONE, Role.NONE)),
        (S.INIT, "a", "b", None, (Role.NONE, Role.NONE)),
    ],
)
def test_a_record_says_what_its_brokers_are(
    state: ServiceUnitState,
    destination: str | None,
    source: str | None,
    epoch: int | None,
    roles: tuple[Role, Role],
) -> None:
    record = ServiceUnitStateData(state, destination, source, epoch=epoch)
    assert (role_of(record, "a"), role_of(record, "b")) == roles
    assert role_of(record, "c") is Role.NONE
    assert role_of(None, "a") is Role.NONE
