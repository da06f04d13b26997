"""Plans a roll: the order of the brokers, and the destination of each bundle, with as few moves as possible.

A broker restarts when it is empty, so each bundle moves at least once. A bundle that goes to a broker that has already
restarted moves only once. Before the first step no broker has restarted, so the bundles of the first step move twice:
the roll begins with the broker that has the fewest. The leader is last, because its restart moves the leadership.

At the end the last brokers are empty. The refill brings bundles to them, the heaviest first, so that few are enough.

With a second pool, bundles go from old brokers to new ones, and none moves twice.

Of the brokers with room a bundle goes to those with the fewest other namespaces of its anti-affinity group, even if
another one has restarted: it may then move once more.

Each receiver has two limits, in bundles and in load. The load of a bundle is its throughput in bytes/s, or 0 if it is
not known. A step whose bundles fit nowhere is not possible, and the plan says which bundles these are.

All functions are pure.
"""

import enum
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pulsar_barycenter.operations.plan import PlannedMove

MAX_BROKERS: Final = 1_000
_ALL_ORDERS_UP_TO: Final = 5
_MAX_SIMULATED_MOVES: Final = 400_000
_ENOUGH_OF_MEAN: Final = 0.9


def namespace_of(bundle: str) -> str:
    """Return the namespace in the name of a bundle."""
    return bundle.rpartition("/")[0]


MayServe: TypeAlias = Callable[[str], frozenset[str]]
"""Returns the brokers that may serve a bundle by the isolation policies."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum for a broker that receives bundles during a roll: a number of bundles, and a load in bytes/s (in +
    out). Infinite: no limit.
    """

    bundles: float = math.inf
    load: float = math.inf


class OverflowTo(enum.StrEnum):
    """Where a bundle goes if no broker that has restarted has room for it: to the emptiest broker that has not
    restarted yet (EMPTIEST), or to the one that restarts last (LAST).
    """

    EMPTIEST = "emptiest"
    LAST = "last"
    """The broker that restarts last: when it restarts, the most others have restarted."""


class _Occupied:
    """The bundles and the load of each broker at one step of a plan. The method `move` changes this object while the
    plan is made.
    """

    def __init__(
        self,
        owners: Mapping[str, str],
        loads: Mapping[str, float],
        limits: Mapping[str, Limit],
        groups: Mapping[str, str],
    ) -> None:
        self.owner = dict(owners)
        self._groups = groups
        self._members: dict[tuple[str, str], Counter[str]] = {}
        """The namespaces of a group on a broker, each with the number of its bundles there."""
        self._loads = loads
        self._limits = limits
        self._of: dict[str, dict[str, None]] = {broker: {} for broker in limits}
        self._load = dict.fromkeys(limits, 0.0)
        for bundle, broker in sorted(owners.items()):
            self._of.setdefault(broker, {})[bundle] = None
            self._load[broker] = self._load.get(broker, 0.0) + self.load(bundle)
            self._count_member(bundle, broker, 1)

    def load(self, bundle: str) -> float:
        return self._loads.get(bundle, 0.0)

    def on(self, broker: str) -> list[str]:
        """Return the bundles of a broker, the one with the highest load first."""
        return sorted(self._of.get(broker, {}), key=lambda bundle: (-self.load(bundle), bundle))

    def count(self, broker: str) -> int:
        return len(self._of.get(broker, {}))

    def move(self, bundle: str, destination: str) -> None:
        source = self.owner[bundle]
        del self._of[source][bundle]
        self._load[source] -= self.load(bundle)
        self._count_member(bundle, source, -1)
        self._count_member(bundle, destination, 1)
        self.owner[bundle] = destination
        self._of[destination][bundle] = None
        self._load[destination] += self.load(bundle)

    def _count_member(self, bundle: str, broker: str, change: int) -> None:
        namespace = namespace_of(bundle)
        if group := self._groups.get(namespace, ""):
            self._members.setdefault((group, broker), Counter())[namespace] += change

    def relatives(self, broker: str, bundle: str) -> int:
        """Return how many other namespaces of the same anti-affinity group as the bundle's namespace have bundles on a
        broker.
        """
        namespace = namespace_of(bundle)
        members = self._members.get((self._groups.get(namespace, ""), broker), Counter[str]())
        return sum(count > 0 and name != namespace for name, count in members.items())

    def fullness(self, broker: str, bundle: str = "") -> float:
        """Return how full a broker is: its number of bundles and its load, each as a fraction of its limit, of which
        the larger one is returned; 1 means that a limit is reached. If `bundle` is given, it counts as one more bundle
        of the broker; if this bundle has no load, only the number of bundles counts, because no load changes.
        """
        limit = self._limits[broker]
        more, count = (self.load(bundle), 1) if bundle else (0.0, 0)
        of_bundles = (self.count(broker) + count) / limit.bundles if limit.bundles else math.inf
        if bundle and not more:
            return of_bundles
        of_load = (self._load[broker] + more) / limit.load if limit.load else 0.0
        return max(of_bundles, of_load)

    def fits(self, broker: str, bundle: str) -> bool:
        return self.fullness(broker, bundle) <= 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class Cluster:
    """The input of a plan: the owner of each bundle, the load of each bundle (bytes/s, in + out), and the limits of all
    brokers that may receive bundles.

    `groups` maps a namespace to its anti-affinity group; it has only namespaces with a group.
    """

    owners: Mapping[str, str]
    loads: Mapping[str, float]
    limits: Mapping[str, Limit]
    may_serve: MayServe
    groups: Mapping[str, str] = field(default_factory=dict)

    def occupied(self) -> _Occupied:
        return _Occupied(self.owners, self.loads, self.limits, self.groups)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a roll: the brokers that restart together, and the moves that empty them before.

    `stay` maps the bundles that no other broker may serve to the reason. `no_room` maps the bundles for which no
    receiver has room below its limits to the reason. Neither kind is moved.
    """

    brokers: tuple[str, ...]
    moves: tuple[PlannedMove, ...] = ()
    stay: Mapping[str, str] = field(default_factory=dict)
    no_room: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollPlan:
    """The steps of a roll in their order; and `refill`, the moves to the brokers that restart last, which would
    otherwise stay empty.
    """

    steps: tuple[Step, ...]
    refill: tuple[PlannedMove, ...] = ()

    @property
    def moves(self) -> int:
        """The number of moves of the whole plan, including the refill."""
        return sum(len(step.moves) for step in self.steps) + len(self.refill)

    @property
    def no_room(self) -> int:
        return sum(len(step.no_room) for step in self.steps)

    def moves_of_bundles(self) -> dict[str, int]:
        """Return for each bundle how often the plan moves it."""
        found: dict[str, int] = {}
        for move in itertools.chain(*(step.moves for step in self.steps), self.refill):
            found[move.bundle] = found.get(move.bundle, 0) + 1
        return found


def limits_of(
    owners: Mapping[str, str], loads: Mapping[str, float], receivers: Collection[str], *, serving: int, room: float
) -> dict[str, Limit]:
    """Return equal limits for the receivers. `serving` is the number of brokers that share all bundles; the limit is
    `room` times an equal share (1.2: a fifth more than the share), but always enough for the share plus the largest
    bundle.

    If `loads` is empty, only the number of bundles is limited.
    """
    count = max(1, serving)
    share = len(owners) / count
    known = [loads.get(bundle, 0.0) for bundle in owners]
    load_share = sum(known) / count
    load = max(load_share * room, load_share + max(known, default=0.0)) if sum(known) > 0 else math.inf
    return dict.fromkeys(receivers, Limit(math.ceil(share * room), load))


def emptied(
    cluster: Cluster,
    leaving: Sequence[str],
    *,
    restarted: Collection[str],
    waiting: Sequence[str],
    overflow: OverflowTo = OverflowTo.EMPTIEST,
) -> Step:
    """Return the step that empties the brokers `leaving`. Their bundles go to brokers that have restarted, and if these
    have no room, to brokers that restart later (`waiting`, in the order of the roll); `overflow` says to which of
    these. A broker in `leaving` gets no bundle.
    """
    return _emptied(cluster.occupied(), cluster.may_serve, leaving, restarted, waiting, overflow)


def _emptied(
    occupied: _Occupied,
    may_serve: MayServe,
    leaving: Sequence[str],
    restarted: Collection[str],
    waiting: Sequence[str],
    overflow: OverflowTo,
) -> Step:
    bundles = [bundle for broker in leaving for bundle in occupied.on(broker)]
    heaviest_first = sorted(bundles, key=lambda bundle: (-occupied.load(bundle), bundle))
    choice = _placed(occupied, may_serve, heaviest_first, restarted, waiting, overflow)
    if choice.overflowed:  # light bundles first: more of them fit on restarted brokers
        other = _placed(occupied, may_serve, heaviest_first[::-1], restarted, waiting, overflow)
        choice = min(choice, other, key=lambda placed: (len(placed.no_room), placed.overflowed))
    moves = []
    for bundle, destination in choice.destinations.items():
        sentence = f"{occupied.owner[bundle]} restarts; {destination} has room" + (
            " and has restarted already" if destination in restarted else ""
        )
        moves.append(
            PlannedMove(bundle=bundle, source=occupied.owner[bundle], destination=destination, sentence=sentence)
        )
        occupied.move(bundle, destination)
    return Step(tuple(leaving), tuple(moves), choice.stay, choice.no_room)


@dataclass(slots=True)
class _Placed:
    destinations: dict[str, str] = field(default_factory=dict)
    stay: dict[str, str] = field(default_factory=dict)
    no_room: dict[str, str] = field(default_factory=dict)
    overflowed: int = 0


def _placed(
    occupied: _Occupied,
    may_serve: MayServe,
    bundles: Iterable[str],
    restarted: Collection[str],
    waiting: Sequence[str],
    overflow: OverflowTo,
) -> _Placed:
    """Return destinations for the bundles, as `emptied` describes. After the call, `occupied` is the same as
    before it.
    """
    found = _Placed()
    sources = []
    ranks = {broker: rank for rank, broker in enumerate(waiting)}
    try:
        for bundle in bundles:
            allowed = may_serve(bundle)
            first = [broker for broker in restarted if broker in allowed]
            second = [broker for broker in waiting if broker in allowed]
            if not first and not second:
                found.stay[bundle] = "no other broker of the roll may serve it"
                continue
            fitting = _apart(occupied, bundle, [one for one in (*first, *second) if occupied.fits(one, bundle)])
            is_overflow = not any(broker in first for broker in fitting)
            fitting = [broker for broker in fitting if is_overflow or broker in first]
            if not fitting:
                found.no_room[bundle] = "each broker that may serve it would pass its limit"
                continue
            found.overflowed += is_overflow
            if is_overflow and overflow is OverflowTo.LAST:
                destination = max(fitting, key=ranks.__getitem__)
            else:
                destination = min(fitting, key=lambda broker: (occupied.fullness(broker, bundle), broker))
            found.destinations[bundle] = destination
            sources.append((bundle, occupied.owner[bundle]))
            occupied.move(bundle, destination)
    finally:
        for bundle, source in sources:
            occupied.move(bundle, source)
    return found


def _apart(occupied: _Occupied, bundle: str, brokers: Sequence[str]) -> list[str]:
    """Return those of `brokers` that have the fewest other namespaces of the bundle's anti-affinity group; all of them
    if the bundle's namespace has no group.
    """
    relatives = {broker: occupied.relatives(broker, bundle) for broker in brokers}
    fewest = min(relatives.values(), default=0)
    return [broker for broker in brokers if relatives[broker] == fewest]


def forecast(
    cluster: Cluster,
    batches: Sequence[Sequence[str]],
    *,
    restarted: Collection[str] = (),
    refills: bool = True,
    overflow: OverflowTo = OverflowTo.EMPTIEST,
) -> RollPlan:
    """Return the steps and moves of a roll without a second pool, as they will be if nothing else changes in the
    cluster. `batches` are the brokers that restart together, in the order of the roll.

    `restarted` brokers need no restart and receive bundles first. With `refills` the plan ends with moves to the
    brokers of the last batch. `overflow` says where bundles go if the restarted brokers have no room.
    """
    occupied = cluster.occupied()
    ready, steps = list(restarted), []
    for at, batch in enumerate(batches):
        waiting = [broker for later in batches[at + 1 :] for broker in later]
        steps.append(_emptied(occupied, cluster.may_serve, batch, ready, waiting, overflow))
        ready += batch
    refill = _refilled(occupied, cluster.may_serve, batches[-1], ready) if refills and batches else ()
    return RollPlan(tuple(steps), refill)


def refilled(cluster: Cluster, empty: Sequence[str], brokers: Collection[str]) -> tuple[PlannedMove, ...]:
    """Return moves from other brokers in `brokers` to those in `empty`, until the latter have nearly the mean load.

    Only moves are chosen that make the fuller one of the two brokers less full, and of these the heaviest bundles, so
    that few moves are enough.
    """
    return _refilled(cluster.occupied(), cluster.may_serve, empty, brokers)


def _refilled(
    occupied: _Occupied, may_serve: MayServe, empty: Sequence[str], brokers: Collection[str]
) -> tuple[PlannedMove, ...]:
    moves: list[PlannedMove] = []
    moved: set[str] = set()
    for receiver in empty:
        while True:
            fullness = {broker: occupied.fullness(broker) for broker in sorted(brokers)}
            if fullness[receiver] >= _ENOUGH_OF_MEAN * sum(fullness.values()) / len(fullness):
                break
            bundle = _to_bring(occupied, may_serve, receiver, fullness, moved)
            if not bundle:
                break
            source = occupied.owner[bundle]
            sentence = f"{receiver} has restarted and is empty"
            moves.append(PlannedMove(bundle=bundle, source=source, destination=receiver, sentence=sentence))
            moved.add(bundle)
            occupied.move(bundle, receiver)
    return tuple(moves)


def _to_bring(
    occupied: _Occupied, may_serve: MayServe, receiver: str, fullness: Mapping[str, float], moved: Collection[str]
) -> str:
    """Return the bundle to move to `receiver`, from the fullest other broker that has a suitable one; blank if there is
    none.

    A bundle is suitable if its move makes the fuller one of the two brokers less full, its namespace may be on
    `receiver`, and it is not in `moved`, the bundles that were chosen already. `fullness` is that of each broker.
    """
    for donor in sorted(fullness, key=lambda broker: (-fullness[broker], broker)):
        if donor == receiver:
            continue
        for bundle in occupied.on(donor):
            after = occupied.fullness(receiver, bundle)
            is_better = after < fullness[donor] and after <= 1.0 + 1e-9
            is_apart = occupied.relatives(receiver, bundle) <= occupied.relatives(donor, bundle)
            if bundle not in moved and is_better and is_apart and receiver in may_serve(bundle):
                return bundle
    return ""


def batches_of(brokers: Sequence[str], size: int) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(brokers[at : at + size]) for at in range(0, len(brokers), size))


def best_plan(
    cluster: Cluster,
    brokers: Collection[str],
    leader: str,
    *,
    batch: int = 1,
    restarted: Collection[str] = (),
    refills: bool = True,
) -> RollPlan:
    """Try several orders of brokers, and return the best plan: with the fewest bundles without room, then with the
    fewest moves.

    `batch` is the number of brokers that restart together; `restarted` brokers need no restart and receive bundles
    first; with `refills` the plan ends with moves to the brokers of the last batch. The leader is last, if it is one of
    the `brokers`. With up to 5 other brokers in a small cluster, all orders are tried. Otherwise only the choice of the
    first broker is varied, beginning with the brokers that have the fewest bundles; the larger the cluster, the fewer
    choices are tried. After the first broker, brokers with more bundles come earlier.
    """
    plans = (
        forecast(cluster, batches_of(order, batch), restarted=restarted, refills=refills, overflow=overflow)
        for order in _orders(cluster, brokers, leader)
        for overflow in OverflowTo
    )
    return min(plans, key=lambda plan: (plan.no_room, plan.moves))


def _orders(cluster: Cluster, brokers: Collection[str], leader: str) -> Iterable[tuple[str, ...]]:
    occupied = cluster.occupied()
    others = sorted((broker for broker in brokers if broker != leader), key=lambda name: (occupied.count(name), name))
    end = (leader,) if leader in brokers else ()
    if len(others) <= _ALL_ORDERS_UP_TO and math.factorial(len(others)) * len(cluster.owners) <= _MAX_SIMULATED_MOVES:
        for order in itertools.permutations(others):
            yield (*order, *end)
        return
    tried = max(1, min(len(others), _MAX_SIMULATED_MOVES // max(1, len(cluster.owners) * len(brokers))))
    for first in others[:tried]:
        yield (first, *(broker for broker in reversed(others) if broker != first), *end)


def naive_moves(owners: Mapping[str, str], brokers: Sequence[str]) -> int:
    """Return the number of moves of a roll without a plan: brokers restart in the order of their names, and the bundles
    of a broker go evenly to all other brokers, because the leader does not know which of them have restarted already.
    """
    counts = dict.fromkeys(sorted(brokers), 0)
    for broker in owners.values():
        counts[broker] = counts.get(broker, 0) + 1
    moves = 0
    for broker in sorted(brokers):
        others = [name for name in counts if name != broker]
        leaving, counts[broker] = counts[broker], 0
        moves += leaving
        for number in range(leaving if others else 0):
            counts[others[number % len(others)]] += 1
    return moves


def second_pool(cluster: Cluster, old: Sequence[str], new: Sequence[str]) -> RollPlan:
    """Return the plan that empties the brokers `old` in their order. Their bundles go to those of the brokers `new`
    that have started by then.

    When the i-th old broker is emptied, the first i new brokers have started; when the last old broker is emptied, all
    new brokers have started. Each bundle moves once.
    """
    occupied = cluster.occupied()
    steps = []
    for at, broker in enumerate(old):
        started = started_by(at, old, new)
        steps.append(_emptied(occupied, cluster.may_serve, (broker,), started, (), OverflowTo.EMPTIEST))
    return RollPlan(tuple(steps))


def started_by(step: int, old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Return the new brokers that have started when the old broker number `step` (from 0 on) is emptied: the first
    `step + 1`, and all of them in the last step.
    """
    return tuple(new) if step == len(old) - 1 else tuple(new[: step + 1])
