"""The search for moves: single moves by their price, or the fewest that bring every broker within the band.

While moves are free (`budget`), the search makes a plan of many moves. Else it makes single moves, each once it is
worth its price (`unevenness`). If none is, and a broker is far above its reachable usage, by more than two bands by
both estimates, it makes a plan as well. But a round of few moves makes none while a single move gains: the first moves
of a plan take bundles that fit, not those that gain most. A plan has three steps:

1. **Relieve.** A round acts once a broker is above the band: by both estimates its usage exceeds the usage that it can
   reach by more than the band. Then all brokers near the edge of the band give bundles as well, until they are near the
   reachable usage (`Settings.goal`). Each bundle goes to the broker with the most room at that moment, so that several
   brokers share the load of one giver. A giver first gives the bundle that relieves it most for its cost. When one
   bundle is enough, it gives the one that brings it nearest to the reachable usage. A bundle that fits nowhere goes to
   a broker where both then have less than the giver had, if there is one, or moves in exchange for a lighter bundle.
2. **Fill.** A broker far below the reachable usage, such as an empty one among a hundred, lifts no other broker above
   the band. The brokers with the highest excess give it bundles.
3. **Spread.** Bundles without load do not change usage. A broker that has far more of them than the mean gives some
   away, by number.

No move follows one estimate alone: by both estimates, the taker ends below what the giver had.

Worked example (band 8 points, goal 1.4): usages are 70, 70, 70, 70 and 0 %, the reachable usage is 56 %. The first
broker gives 12.6 to 15.4 points: of bundles of 9, 7, 5, 4 … points it gives the one of 9, then the one of 5, which
leaves it at 56 %.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from pulsar_barycenter.load.reasons import MAX_ALTERNATIVES
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY, BundleLoads, blocks
from pulsar_barycenter.load.shedding.least_disturbance.givers import SESSIONS, Giver, Givers
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.prediction import RECENT, SETTLED, Prediction
from pulsar_barycenter.load.shedding.least_disturbance.roomiest import Roomiest
from pulsar_barycenter.load.shedding.least_disturbance.unevenness import Offer, Price, Unevenness
from pulsar_barycenter.load.shedding.ordering import by_group
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot

MayGo = Callable[[int, int], Flags]
"""Returns for a bundle (row) and its broker (row) the flags of the brokers that may take it."""

FAR_ABOVE: Final = 2.0
"""A broker is far above the reachable usage if it is more than this many bands above it by both estimates. Where moves
have a price, a plan of many moves begins then."""
_FEW: Final = 8
"""A round of at most this many moves prefers single moves to a plan. Each single move is a search among all brokers; a
plan is one search for all its moves."""
FAR_BELOW: Final = 2.0
"""A broker is filled once it is more than this many bands below the reachable usage."""
IDLE: Final = 1e-4
"""A bundle that takes less than this fraction of a broker is without load."""
_TAKERS: Final = 4
"""A single move goes to one of this many brokers with the least excess, or with the most room."""
_PARTNERS: Final = 8
_PAIRED: Final = 128
"""An exchange is tried with _PARTNERS of the least loaded brokers, among the _PAIRED heaviest bundles of each side."""
_REFINED: Final = 64
_DEARER: Final = 1.25
_FINER: Final = 0.002
"""Up to _REFINED moves are improved: by a bundle that costs at most _DEARER times as much and fits better by _FINER."""
_TOO_MANY: Final = 8
"""A broker gives away idle bundles if it has at least this many more than the mean, and at least twice as many."""


class RowMove(NamedTuple):
    """A move that the search chose: the bundle in `row` goes from the broker in row `source` to the broker in row
    `destination`. `why` is one of the constants in this module. The excess of a broker is how far its usage is above
    its reachable usage (a fraction).

    `before` and `after` are the excess of the source before and after the move, `taker` is the excess of the
    destination after it. If `why` is BY_NUMBER, these three are numbers of bundles without load. `price` is set only if
    `why` is EVENS.
    """

    row: int
    source: int
    destination: int
    before: float
    after: float
    taker: float
    why: int
    price: Price | None = None


ABOVE: Final = 0
FILLS: Final = 1
BY_NUMBER: Final = 2
EXCHANGED: Final = 3
RETURNED: Final = 4
EVENS: Final = 5


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search for moves: the moves in the order in which they are made.

    `asked` flags the brokers that had to give bundles. `unseen` flags those of them that were not examined any more,
    because the round was full. `missed` is for each broker how much it has lost so far because its best move was not
    made: the sum of gain × minutes (see `Settings.price`).
    """

    moves: tuple[RowMove, ...]
    asked: Flags
    unseen: Flags
    missed: Floats


class Search:
    """A search for moves, with its state: for each broker, how far its usage would be above its reachable usage after
    all moves chosen so far.
    """

    def __init__(
        self,
        snapshot: LoadSnapshot,
        loads: BundleLoads,
        view: Prediction,
        movable: Flags,
        may_go: MayGo,
        settings: Settings,
    ) -> None:
        self._snapshot, self._loads, self._view, self._settings = snapshot, loads, view, settings
        self._may_go = may_go
        self._apart, self._slope = view.apart.copy(), view.slope
        self._upper: Floats = self._apart.max(axis=0)
        self._takes: Flags = view.fresh & view.known
        self._gives: Flags = view.fresh
        self._room_to_goal = Roomiest(self._room(settings.goal))
        count = len(snapshot.brokers)
        self._asked = np.zeros(count, bool)
        self._unseen = np.zeros(count, bool)
        self._moves: list[RowMove] = []
        # one more, by which a round sees that it is full
        self._most = settings.most + 1
        self._movable = movable
        self._givers = Givers(snapshot, loads, movable, view.slope)

    def run(self) -> Found:
        """Return the moves that bring the usage of each broker to at most the band (`Settings.band`) above its
        reachable usage. If these are more moves than the round may make, return only the first of them, at most one
        more than the round may make.
        """
        if self._is_possible:
            self._plan(self._settings.band, self._settings.edge)
        return self._found(np.zeros(len(self._snapshot.brokers)))

    def run_by_price(self, missed: Floats, minutes: float) -> Found:
        """Return the single moves that are worth their price. A move is, if the sum of gain × minutes over the rounds
        in which it was not made has reached `Settings.price`. `missed` has this sum for each broker, up to the last
        round, which was `minutes` ago.

        If there is no such move, but a broker is far above its reachable usage (by more than FAR_ABOVE bands), return a
        plan like that of `run`, in which only brokers above the band (`Settings.band`) give bundles. A round that may
        make only few moves returns no such plan while any single move has a gain.
        """
        if not self._is_possible:
            return self._found(np.zeros(len(missed)))
        offers = self._offers()
        now = self._by_price(offers, missed, minutes)
        if not self._moves and not (offers and self._makes_few):
            self._plan(FAR_ABOVE * self._settings.band, self._settings.band)
        return self._found(now)

    def _plan(self, limit: float, edge: float) -> None:
        self._relieve(limit, edge)
        self._share_out()
        self._refine()
        self._fill()
        if not self._moves:
            self._spread_idle()

    def _found(self, missed: Floats) -> Found:
        return Found(tuple(self._moves), self._asked, self._unseen, missed)

    @property
    def _is_possible(self) -> bool:
        return bool(self._takes.any()) and len(self._snapshot.brokers) >= 2

    @property
    def _is_full(self) -> bool:
        return len(self._moves) >= self._most

    @property
    def _makes_few(self) -> bool:
        return self._settings.most <= _FEW

    # ---- single moves, by their price ----

    def _by_price(self, offers: dict[int, Offer], missed: Floats, minutes: float) -> Floats:
        """Choose the single moves that are worth their price (`Settings.price`), those with the greatest gain first,
        and add them to the moves. A move is worth its price if the gain × minutes that its broker has missed before
        this round (`missed`) has reached the price.

        If a broker is far above its reachable usage by both estimates of load, and the round may make only few moves,
        its present gain is added as if the broker had missed it for all of `Settings.patience_min`.

        Return the gain × minutes that each broker has missed, with this round included; 0 for a broker without a move
        that gains.
        """
        lasted_min = self._settings.patience_min if self._makes_few else 0.0
        far = self._apart.min(axis=0) > FAR_ABOVE * self._settings.band
        now = np.zeros(len(missed))
        before = missed.copy()
        for source, offer in offers.items():
            gain = offer.net * (1 - self._view.doubt.item(source))
            now[source] = missed[source] + gain * minutes
            before[source] += gain * lasted_min * far.item(source)
        worth = before >= self._settings.price
        while not self._is_full:
            ranked = sorted(offers.items(), key=lambda item: (-item[1].net, item[0]))
            made = next(((source, offer) for source, offer in ranked if worth[source]), None)
            if made is None:
                break
            source, offer = made
            # without a price (no patience) a broker gives as long as there is a gain
            worth[source], self._asked[source] = self._settings.price <= 0, True
            others = [(self._givers[other].rows.item(that.at), that.gain) for other, that in ranked if other != source]
            price = Price(offer.gain, float(before[source]), tuple(others[:MAX_ALTERNATIVES]))
            apart = float(self._apart[:, source].min())
            self._move(self._givers[source], offer.at, source, offer.taker, apart, EVENS)
            self._moves[-1] = self._moves[-1]._replace(price=price)
            offers = self._offers()
        return now

    def _offers(self) -> dict[int, Offer]:
        """Return the best single move of each broker, by the row of the broker. A broker has none if no move gains more
        than the least gain (`Settings.least_gain`).
        """
        settings = self._settings
        uneven = Unevenness(self._apart[RECENT], self._gives, settings.scale)
        sources = uneven.promising(settings.least_gain)
        self._givers.collect(sources)
        found = {}
        for source in sources.tolist():
            giver = self._givers[source]
            there = np.flatnonzero(giver.there)
            takers = self._takers(source)
            if not len(there) or not len(takers):
                continue
            apart = float(self._apart[:, source].min())
            gain = np.empty((len(takers), len(there)))
            for place, taker in enumerate(takers.tolist()):
                ends = (self._apart[:, taker, None] + self._slope[taker] * giver.work[:, there]).max(axis=0)
                gained = uneven.gains(source, taker, self._slope, giver.work[RECENT, there])
                gain[place] = np.where(ends < apart, gained, 0.0)
            net = gain - settings.least_gain * giver.cost[there] / (1 + SESSIONS)
            while (best := float(net.max())) > 0:
                place, at = divmod(int(net.argmax()), len(there))
                if self._may_go(giver.rows.item(there[at]), source)[takers[place]]:
                    found[source] = Offer(best, float(gain[place, at]), int(there[at]), int(takers[place]))
                    break
                net[place, at] = 0.0
        return found

    def _takers(self, source: int) -> Integers:
        """Return the brokers that may take a bundle from `source`: some with the least usage above (or the most below)
        their reachable usage, and some that can take the most work until they are as full as the others. These can be
        different brokers if capacities differ.
        """
        excess = np.where(self._takes, self._upper, np.inf)
        excess[source] = np.inf
        by_excess = np.argsort(excess, kind="stable")[:_TAKERS]
        by_room = np.argsort(excess / self._slope, kind="stable")[:_TAKERS]
        found = np.union1d(by_excess, by_room)
        return found[np.isfinite(excess[found])]

    # ---- brokers above the band ----

    def _relieve(self, limit: float, edge: float) -> None:
        """If the usage of any broker is above its reachable usage by more than `limit`, choose bundles to move away
        from every broker that is above its own reachable usage by more than `edge`.
        """
        lower = self._apart.min(axis=0)
        if not (self._gives & (lower > limit)).any():
            return
        above = np.flatnonzero(self._gives & (lower > edge))
        above = above[np.argsort(-lower[above], kind="stable")]
        self._asked[above] = True
        self._givers.collect(above)
        for source in above.tolist():
            self._unseen[source] = self._is_full
            if not self._is_full:
                self._give(source)

    def _give(self, source: int) -> None:
        """Choose bundles of the broker in row `source` to move, until its usage is near its reachable usage
        (`Settings.goal`).
        """
        giver, goal = self._givers[source], self._settings.goal
        while not self._is_full:
            apart = min(self._apart.item(0, source), self._apart.item(1, source))
            if apart <= goal:
                return
            if self._take_best(giver, source, apart) or self._take_better(giver, source, apart):
                continue
            if apart <= self._settings.edge or not self._exchange(giver, source, apart):
                return

    def _take_best(self, giver: Giver, source: int, apart: float) -> bool:
        """Choose a bundle of the broker in row `source` to move, and as its destination the broker that can take the
        most work, of those that may take the bundle. Of the bundles that fit there, choose the one with the most relief
        (usage that `source` saves) per cost of the move. Return whether there was such a bundle.

        `giver` has the bundles of `source`, `apart` is how far `source` is above its reachable usage. Of bundles that
        relieve it more than it needs, the best is the one that leaves it nearest to its reachable usage.
        """
        # the giver is above the goal, so it has no room itself
        goal, room = self._settings.goal, self._room_to_goal
        heaviest = min(room.highest, (apart + goal) / self._slope.item(source))
        most, chosen, destination = 0.0, None, -1
        for at in giver.in_order(heaviest):
            if giver.worth.item(at) <= most:
                break
            relief = giver.relief.item(at)
            counts = relief if relief <= apart else apart - goal + max(0.0, goal - (relief - apart))
            worth = counts / giver.cost.item(at)
            if worth > most:
                roomiest, takes = room.among(self._may_go(giver.rows.item(at), source))
                if takes >= giver.heavy.item(at):
                    most, chosen, destination = worth, at, roomiest
        if chosen is None:
            return False
        self._move(giver, chosen, source, destination, apart, ABOVE)
        return True

    def _take_better(self, giver: Giver, source: int, apart: float) -> bool:
        """Choose a bundle of `source` and a taker so that the fuller one of the two brokers ends with an excess (usage
        above its reachable usage) that is lower than the present excess of `source`, and of such bundles the one with
        the best ratio of improvement to cost.

        `giver` has the bundles of the broker in row `source`, `apart` is its present excess. Return whether a bundle
        was chosen; the excess must become lower by at least the goal (`Settings.goal`).
        """
        best = int(np.argmax(np.where(self._takes, (apart - self._upper) / self._slope, -np.inf)))
        upper, slope = float(self._upper[best]), float(self._slope[best])
        if not self._takes[best] or apart - upper <= self._settings.edge:
            return False
        after = np.maximum(apart - giver.relief, upper + slope * giver.heavy)
        may = giver.there & (after <= apart - self._settings.goal)
        worth = np.where(may, (apart - after) / giver.cost, -1.0)
        room = self._room(apart - self._settings.goal)
        room[source] = -1.0
        while True:
            worth = np.where(giver.heavy <= float(room.max()), worth, -1.0)
            most = float(worth.max(initial=-1.0))
            if most <= 0:
                return False
            equals = np.flatnonzero(worth >= most * (1 - 1e-12))
            at = int(equals[np.argmin(giver.heavy[equals])])
            fits = (room >= giver.heavy[at]) & self._may_go(int(giver.rows[at]), source)
            if fits.any():
                destination = int(np.argmax(np.where(fits, room, -np.inf)))
                self._move(giver, at, source, destination, apart, ABOVE)
                return True
            worth[at] = -1.0

    def _exchange(self, giver: Giver, source: int, apart: float) -> bool:
        """Choose a bundle of `source` to move to one of the least loaded brokers, and a lighter bundle of that broker
        to move back. Return whether such a pair was found.

        `giver` has the bundles of the broker in row `source`, `apart` is how far that broker is above its reachable
        usage. Afterwards the excess (usage above reachable usage) of the fuller one of the two brokers must be lower
        than `apart` by more than the goal (`Settings.goal`).
        """
        upper = np.where(self._takes & self._gives, self._upper, np.inf)
        upper[source] = np.inf
        partners = np.argsort(upper, kind="stable")[:_PARTNERS]
        partners = partners[upper[partners] < apart - self._settings.goal]
        self._givers.collect(partners)
        mine = giver.heaviest(_PAIRED)
        best, least = None, apart - self._settings.goal
        for partner in partners.tolist():
            other = self._givers[partner]
            theirs = other.heaviest(_PAIRED)
            if not len(mine) or not len(theirs):
                continue
            more = giver.work[:, mine, None] - other.work[:, None, theirs]
            kept = self._apart[:, source, None, None] - self._slope[source] * more
            got = self._apart[:, partner, None, None] + self._slope[partner] * more
            after = np.maximum(kept, got).max(axis=0)
            at = int(np.argmin(after))
            gives, returns = int(mine[at // len(theirs)]), int(theirs[at % len(theirs)])
            if (
                after.flat[at] < least
                and self._may_go(int(giver.rows[gives]), source)[partner]
                and self._may_go(int(other.rows[returns]), partner)[source]
            ):
                best, least = (partner, gives, returns), float(after.flat[at])
        if best is None:
            return False
        partner, gives, returns = best
        self._asked[partner] = True
        # the bundle that comes back moves first, so that the taker has room for the other one
        self._move(self._givers[partner], returns, partner, source, apart, RETURNED)
        self._move(giver, gives, source, partner, apart, EXCHANGED)
        return True

    def _room(self, limit: float) -> Floats:
        """Return how much more work (load as one number) each broker can take until its usage is `limit` above its
        reachable usage. Negative: it is above this already. -1 for a broker that must not take bundles.
        """
        return np.where(self._takes, (limit - self._upper) / self._slope, -1.0)

    def _move(self, giver: Giver, at: int, source: int, destination: int, before: float, why: int) -> None:
        giver.take(at)
        recent, settled = giver.work.item(0, at), giver.work.item(1, at)
        after, _ = self._carries(source, -recent, -settled)
        _, taker = self._carries(destination, recent, settled)
        self._moves.append(RowMove(giver.rows.item(at), source, destination, before, after, taker, why))

    def _carries(self, broker: int, recent: float, settled: float) -> tuple[float, float]:
        """Change the predicted usage of `broker` by that of a bundle, whose work (load as one number) is `recent` and
        `settled` by the two estimates; negative: the bundle is removed.

        Return how far the broker's usage is then above its reachable usage, first by the estimate that gives the lower
        value, then by the other one.
        """
        # scalar by scalar: numpy takes as long for a column of two as for one of a thousand
        apart, slope = self._apart, self._slope.item(broker)
        by_recent = apart[0, broker] = apart.item(0, broker) + slope * recent
        by_settled = apart[1, broker] = apart.item(1, broker) + slope * settled
        less, more = (by_recent, by_settled) if by_recent < by_settled else (by_settled, by_recent)
        self._upper[broker] = more
        if self._takes.item(broker):
            self._room_to_goal.set(broker, (self._settings.goal - more) / slope)
        return less, more

    def _share_out(self) -> None:
        """Distribute the chosen bundles among the takers once more: the heaviest bundle first, each to the broker whose
        usage is at that moment the least above its reachable usage.

        Keep the result only if it lowers the highest excess (usage above reachable usage) among the takers.
        """
        if len(self._moves) < 2:
            return
        if any(move.why != ABOVE for move in self._moves):
            return
        rows, sources, destinations = np.array([move[:3] for move in self._moves]).T
        work = np.array([self._loads.recent[rows], self._loads.settled[rows]])
        apart = self._apart.copy()
        for estimate in (RECENT, SETTLED):
            np.subtract.at(apart[estimate], destinations, self._slope[destinations] * work[estimate])
        emptiest = Roomiest(np.where(self._takes, -apart.max(axis=0), -np.inf))
        goals: list[int] = [NOBODY] * len(rows)
        # numbers of Python from here on: what changes is one value at a time
        slope, (recent, settled), (recent_work, settled_work) = self._slope.tolist(), apart.tolist(), work.tolist()
        bundles, givers = rows.tolist(), sources.tolist()
        for place in np.argsort(-work.max(axis=0), kind="stable").tolist():
            source = givers[place]
            goal, _ = emptiest.among(self._may_go(bundles[place], source), source)
            goals[place] = goal
            recent[goal] += slope[goal] * recent_work[place]
            settled[goal] += slope[goal] * settled_work[place]
            emptiest.set(goal, -max(recent[goal], settled[goal]))
        apart = np.array([recent, settled])
        takers = np.union1d(goals, destinations)
        if apart.max(axis=0)[takers].max() < self._upper[takers].max():
            self._adopt(self._moves, goals, apart)

    def _adopt(self, moves: Sequence[RowMove], goals: Sequence[int], apart: Floats) -> bool:
        """Replace the chosen moves by `moves`, but with the destinations `goals`, and the state of the search by
        `apart`: how far each broker is above its reachable usage after these moves. Return whether they were replaced.

        They are not replaced if any broker that takes a bundle would then be above its reachable usage by at least as
        much as the giver of this bundle was before the move.
        """
        slope, (recent, settled) = self._slope.tolist(), self._view.apart.tolist()
        rows = np.array([move.row for move in moves], np.int64)
        work = zip(self._loads.recent[rows].tolist(), self._loads.settled[rows].tolist(), strict=True)
        adopted = []
        for move, goal, (by_recent, by_settled) in zip(moves, goals, work, strict=True):
            source = move.source
            had = min(recent[source], settled[source])
            recent[source] -= slope[source] * by_recent
            settled[source] -= slope[source] * by_settled
            recent[goal] += slope[goal] * by_recent
            settled[goal] += slope[goal] * by_settled
            taker = max(recent[goal], settled[goal])
            if taker >= had:
                return False
            after = min(recent[source], settled[source])
            adopted.append(RowMove(move.row, source, goal, had, after, taker, move.why, move.price))
        self._moves, self._apart, self._upper = adopted, apart, apart.max(axis=0)
        self._room_to_goal = Roomiest(self._room(self._settings.goal))
        return True

    def _refine(self) -> None:
        """Replace chosen bundles by other bundles of the same broker, if the giver and the taker then both end nearer
        to their reachable usage.
        """
        if not 0 < len(self._moves) <= _REFINED or any(move.why != ABOVE for move in self._moves):
            return
        apart, moves = self._apart.copy(), list(self._moves)
        swapped: list[tuple[Giver, int, int]] = []
        for place, move in enumerate(moves):
            giver = self._givers[move.source]
            at = int(np.flatnonzero(giver.rows == move.row)[0])
            more = giver.work - giver.work[:, at, None]
            kept = apart[:, move.source, None] - self._slope[move.source] * more
            got = apart[:, move.destination, None] + self._slope[move.destination] * more
            off = np.maximum(np.abs(kept), np.abs(got)).max(axis=0)
            better = giver.there & (giver.cost <= _DEARER * giver.cost[at]) & (off < off[at] - _FINER)
            other = int(np.argmin(np.where(better, off, np.inf))) if better.any() else at
            if other == at or not self._may_go(int(giver.rows[other]), move.source)[move.destination]:
                continue
            apart[:, move.source] -= self._slope[move.source] * more[:, other]
            apart[:, move.destination] += self._slope[move.destination] * more[:, other]
            giver.give_back(at)
            giver.take(other)
            swapped.append((giver, at, other))
            moves[place] = move._replace(row=int(giver.rows[other]))
        if not self._adopt(moves, [move.destination for move in moves], apart):
            for giver, at, other in reversed(swapped):
                giver.give_back(other)
                giver.take(at)

    # ---- brokers far below the reachable usage ----

    def _fill(self) -> None:
        upper = np.where(self._takes, self._upper, np.inf)
        below = np.flatnonzero(upper < -FAR_BELOW * self._settings.band)
        for taker in below[np.argsort(upper[below], kind="stable")].tolist():
            lacks = True
            while lacks and not self._is_full:
                lacks = self._upper[taker] < -self._settings.edge and self._fill_one(taker)

    def _fill_one(self, taker: int) -> bool:
        """Choose one bundle to move to `taker`, a broker far below its reachable usage, from the broker that is the
        most above its own and has a suitable bundle. Return whether a bundle was chosen.
        """
        lower = np.where(self._gives, self._apart.min(axis=0), -np.inf)
        lower[taker] = -np.inf
        order = np.argsort(-lower, kind="stable")[:64]
        self._givers.collect(order[np.isfinite(lower[order])])
        upper, slope = float(self._upper[taker]), float(self._slope[taker])
        for source in order.tolist():
            apart = float(lower[source])
            if not apart > 0 or apart - upper <= self._settings.edge:
                return False
            giver = self._givers[source]
            keeps = apart - float(self._slope[source]) * giver.heavy
            gets = upper + slope * giver.heavy
            may = giver.there & (gets <= self._settings.goal) & (keeps >= gets)
            worth = np.where(may, giver.worth, -1.0)
            at = int(np.argmax(worth)) if len(worth) else -1
            if at >= 0 and worth[at] > 0 and self._may_go(int(giver.rows[at]), source)[taker]:
                self._asked[source] = True
                self._move(giver, at, source, taker, apart, FILLS)
                return True
        return False

    # ---- bundles without load ----

    def _spread_idle(self) -> None:
        """Choose idle bundles (without load) to move away from brokers that have far more idle bundles than the
        mean.
        """
        bundles, loads = self._snapshot.bundles, self._loads
        count = len(self._snapshot.brokers)
        owner = self._view.owner
        slope = float(self._slope.mean())
        idle = np.empty(len(owner), bool)
        for block in blocks(len(owner)):
            idle[block] = np.maximum(loads.recent[block], loads.settled[block]) * slope < IDLE
        if not idle.any():
            return
        idle &= owner != NOBODY
        numbers = np.bincount(owner[idle], minlength=count).astype(float)
        mean = float(numbers[self._takes].mean())
        crowded = (numbers >= 2 * mean) & (numbers >= mean + _TOO_MANY) & self._gives
        if not crowded.any():
            return
        rows = np.flatnonzero(idle & self._movable & crowded.take(bundles.owner))
        order, edges = by_group(bundles.owner[rows], count)
        fewest = Roomiest(np.where(self._takes, -numbers, -np.inf))
        for source in np.flatnonzero(crowded).tolist():
            own = rows[order[edges[source] : edges[source + 1]]]
            for row in own[: int(numbers[source] - mean)].tolist():
                destination, fits = fewest.among(self._may_go(row, source), source)
                if fits == -np.inf:
                    continue
                if numbers[destination] + 1 >= numbers[source] or self._is_full:
                    break
                self._asked[source] = True
                before, taker = numbers.item(source), numbers.item(destination) + 1
                self._moves.append(RowMove(row, source, destination, before, before - 1, taker, BY_NUMBER))
                for broker, number in ((source, before - 1), (destination, taker)):
                    numbers[broker] = number
                    if self._takes[broker]:
                        fewest.set(broker, -number)
