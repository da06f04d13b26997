"""Derives the owners of each bundle over time, and the moves that went back, from the events of a record.

The owner is the one in the decision; the gaps of topics show how long clients waited for it. The parts of a split
bundle inherit its history: a part that returns to a former owner of the whole bundle has moved back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pulsar_barycenter.demo.record import Event, Record
from pulsar_barycenter.load.moved_back import Whereabouts, Window
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.errors import InvalidNameError

AGAIN_WITHIN_S: Final = 60.0
WINDOW: Final = Window(again=AGAIN_WITHIN_S, back=math.inf)
"""Which moves went back: a demo is so short that a return to any former owner counts. Seconds."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """A time in which a bundle had one owner, or none (None); from_s ≤ time < until_s, seconds since 1970."""

    owner: str | None
    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class DemoMove:
    """The move of a bundle from one owner to another; `index` is the position of its event in the record.

    `failed_over`: the owner was killed, so no strategy chose the move. `back`: a strategy chose the move, and the new
    owner is a former owner of the bundle. `again_after_s`: if a strategy chose the move, and the bundle's previous move
    was at most `AGAIN_WITHIN_S` before it, the seconds between the two moves; otherwise None. `after_split`: a part of
    a split bundle was placed for the first time.
    """

    index: int
    at_s: float
    bundle: str
    source: str
    destination: str
    failed_over: bool
    back: bool
    again_after_s: float | None
    after_split: bool

    @property
    def moved_back(self) -> bool:
        """Whether a strategy moved the bundle to a former owner, or moved it again within `AGAIN_WITHIN_S`."""
        return self.back or self.again_after_s is not None


@dataclass(slots=True)
class Lane:
    """The owners of one bundle over time. `root` is the bundle from which this bundle came by splits; the bundle itself
    if it is not part of a split bundle.
    """

    bundle: str
    root: str
    tenures: list[Tenure] = field(default_factory=list)


@dataclass(slots=True)
class _Followed:
    lane: Lane
    owner: str | None
    since_s: float
    last_owner: str | None
    past: Whereabouts = field(default_factory=Whereabouts)
    unplaced_part: bool = False

    def pass_to(self, owner: str | None, at_s: float) -> None:
        if at_s > self.since_s:
            self.lane.tenures.append(Tenure(self.owner, self.since_s, at_s))
        if self.owner is not None:
            self.past.lost(self.owner, at_s)
        self.owner, self.since_s = owner, at_s
        self.last_owner = owner or self.last_owner


def follow_bundles(record: Record, ended_at_s: float) -> tuple[list[Lane], list[DemoMove]]:
    """Return the owners over time of each bundle up to `ended_at_s` (`Lane`), and all moves, oldest first.

    The parts of a split bundle follow the bundle. A bundle whose first event is an unload was on its source from the
    start. If no event names a part of a split bundle, the lane of the whole bundle continues: the parts stayed on their
    broker, under unknown names.
    """
    followed: dict[str, _Followed] = {}
    lanes: list[Lane] = []
    moves: list[DemoMove] = []
    killed: set[str] = set()
    split: set[str] = set()

    def begin(bundle: str, root: str, owner: str | None, at_s: float) -> _Followed:
        lanes.append(Lane(bundle, root))
        followed[bundle] = _Followed(lanes[-1], owner, at_s, owner)
        return followed[bundle]

    for index, event in enumerate(record.events):
        if event.kind == "broker joined":
            killed.discard(event.destination or "")
        elif event.kind == "broker killed" and event.source is not None:
            killed.add(event.source)
            for state in followed.values():
                if state.owner == event.source:
                    state.pass_to(None, event.at_s)
        elif event.kind == "split":
            state = followed.get(event.bundle) or begin(
                event.bundle, event.bundle, event.source, min(record.started_at_s, event.at_s)
            )
            parts = _parts(event.bundle, record.events[index + 1 :])
            if parts:
                state.pass_to(state.owner, event.at_s)
                del followed[event.bundle]
                split.add(event.bundle)
            for name in parts:
                part = begin(name, state.lane.root, state.owner, event.at_s)
                part.last_owner, part.past = state.last_owner, state.past.copy()
                part.unplaced_part = True
        elif event.kind in ("assignment", "unload") and event.bundle not in split:
            known = followed.get(event.bundle)
            if known is None:
                since_s = event.at_s if event.source is None else min(record.started_at_s, event.at_s)
                known = begin(event.bundle, event.bundle, event.source or event.destination, since_s)
            moves += _pass_on(known, event, index, killed)

    for state in followed.values():
        state.pass_to(None, ended_at_s)
    return sorted((lane for lane in lanes if lane.tenures), key=_place), moves


def _place(lane: Lane) -> tuple[str, float, str]:
    return lane.root, lane.tenures[0].from_s if lane.root != lane.bundle else -math.inf, lane.bundle


def _pass_on(state: _Followed, event: Event, index: int, killed: set[str]) -> list[DemoMove]:
    """Record that the bundle of `event` goes to the event's destination. Return the move in a list; the list is empty
    if the bundle did not change its owner, or had no owner before.
    """
    destination = event.destination
    if destination == state.owner:
        return []
    source = state.last_owner
    if destination is None or source is None:
        state.pass_to(destination, event.at_s)
        return []
    failed_over = source in killed
    since_last_s = state.past.since_last(event.at_s)
    move = DemoMove(
        index=index,
        at_s=event.at_s,
        bundle=event.bundle,
        source=source,
        destination=destination,
        failed_over=failed_over,
        back=not failed_over and WINDOW.is_back(state.past.since_left(destination, event.at_s)),
        again_after_s=since_last_s if not failed_over and WINDOW.is_again(since_last_s) else None,
        after_split=state.unplaced_part and event.kind == "assignment",
    )
    state.pass_to(destination, event.at_s)
    state.past.moved(source, event.at_s)
    state.unplaced_part = False
    return [move]


def _parts(name: str, later: Sequence[Event]) -> list[str]:
    """Return the parts of the split bundle `name`, sorted by range: those that the events after the split name, and the
    ranges between these. Empty if no event names a part.
    """
    whole = _bundle(name)
    if whole is None:
        return []
    named = {part.range for event in later if (part := _bundle(event.bundle)) and _is_part(part, whole)}
    outermost = [
        one for one in named if not any(o != one and o.lower <= one.lower and one.upper <= o.upper for o in named)
    ]
    if not outermost:
        return []
    edges = sorted(
        {whole.range.lower, whole.range.upper, *(edge for one in outermost for edge in (one.lower, one.upper))}
    )
    return [str(Bundle(whole.namespace, BundleRange(*ends))) for ends in pairwise(edges)]


def _is_part(bundle: Bundle, whole: Bundle) -> bool:
    inside = whole.range.lower <= bundle.range.lower and bundle.range.upper <= whole.range.upper
    return inside and bundle.namespace == whole.namespace and bundle.range != whole.range


def _bundle(name: str) -> Bundle | None:
    try:
        return Bundle.parse(name)
    except InvalidNameError:
        return None
