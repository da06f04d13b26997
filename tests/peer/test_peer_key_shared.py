"""Key_Shared subscriptions: the slot of each key, and the consumer of each slot after others joined and left."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from pulsar_barycenter.broker.subscriptions.sticky_keys import HalvedRanges, HashRing, StickySelector
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("pulsar peer")]

SLOTS = [1, 2, 255, *range(300, 65_535, 1_009), 65_534, 65_535]


@dataclass(frozen=True, eq=False)
class Member:
    number: int
    name: str
    priority_level: int = 0
    hash_ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Case:
    """`steps` are numbers and names of consumers; a consumer that is there leaves. `points` is 0 for ranges."""

    points: int
    steps: list[tuple[int, str]]
    keys: list[str]


def drawn(random_: random.Random) -> Case:
    names = [f"{random_.choice(('consumer', 'c', 'é', ''))}{random_.choice(('', '-1', '-2', '-3'))}" for _ in range(9)]
    joining = [(number, names[number]) for number in (random_.randrange(9) for _ in range(random_.randrange(1, 25)))]
    keys = ["".join(random_.choices("abcdéß/0123", k=random_.randrange(40))) for _ in range(8)]
    return Case(random_.choice((0, 0, 1, 3, 100, 500)), joining, [*keys, "", "k1"])


def ours(case: Case) -> dict[str, Any]:
    selector: StickySelector[Member] = HashRing(case.points) if case.points else HalvedRanges()
    present: dict[int, Member] = {}
    for number, name in case.steps:
        if number in present:
            selector.remove([present.pop(number)])
        else:
            present[number] = Member(number, name)
            selector.add(present[number])
    owners = [selector.select(slot) for slot in SLOTS]
    return {
        "owners": [-1 if owner is None else owner.number for owner in owners],
        "slots": [selector.slot_of(key.encode()) for key in case.keys],
    }


def test_keys_and_consumers_have_the_slots_that_pulsar_gives_them(
    complete_peer: PulsarPeer, cases: int, seed: int
) -> None:
    random_ = random.Random(f"{seed} key_shared")
    questions = [drawn(random_) for _ in range(cases)]

    def document(case: Case) -> dict[str, Any]:
        return {"points": case.points, "steps": case.steps, "keys": case.keys, "slots": SLOTS}

    for case, answer in complete_peer.ask("KeyShared", "slots", questions, document):
        assert ours(case) == answer, case
