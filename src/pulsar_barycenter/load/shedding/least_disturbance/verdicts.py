"""The plan of a round of LeastDisturbance, with the reason for each bundle that moves and for each broker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_barycenter.load.decisions import Unload
from pulsar_barycenter.load.reasons import Alternative, Code, Compared, Reason, format_figure
from pulsar_barycenter.load.shedding.least_disturbance.assignment import (
    ABOVE,
    BY_NUMBER,
    EVENS,
    EXCHANGED,
    RETURNED,
    Found,
    RowMove,
)
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import BundleLoads
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import (
    BAND_KEY,
    MOVES_KEY,
    NAME,
    PATIENCE_KEY,
    REPORT_KEY,
    Settings,
)
from pulsar_barycenter.load.shedding.least_disturbance.prediction import RECENT, SETTLED, Prediction
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import UsageLines, reported_at_ms
from pulsar_barycenter.load.shedding.plan import ROUND_LIMIT, RoundLimit, ShedPlan
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot
from pulsar_barycenter.naming.counted import count_of

_CODES: Final = {EXCHANGED: Code.EXCHANGED, RETURNED: Code.GIVEN_IN_EXCHANGE, EVENS: Code.WORTH_ITS_PRICE}
_ESTIMATES: Final = {RECENT: "recent", SETTLED: "settled"}


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of one round on all brokers: whether each broker gives bundles, and why. `now_ms` is the time of the
    round (epoch ms).
    """

    settings: Settings
    view: Prediction
    found: Found
    now_ms: int

    @property
    def sheds(self) -> Flags:
        return self.found.asked

    @property
    def need(self) -> Floats:
        return np.zeros(len(self.found.asked))

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        if not len(snapshot.brokers):
            return Reason(code=Code.NO_BROKERS, strategy=NAME)
        if self.found.moves:
            return self.broker(snapshot, self.found.moves[0].source)
        highest = self.broker(snapshot, int(np.argmax(self.view.at_most)))
        return Reason(code=Code.BALANCED, strategy=NAME, settings=highest.settings, cause=highest)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        code, compared, settings = self._judged(snapshot, broker)
        usage = self.view.usage[:, broker]
        said = " and ".join(
            f"{format_figure(float(value), '%')} by the {_ESTIMATES[each]}" for each, value in enumerate(usage)
        )
        return Reason(
            code=code,
            strategy=NAME,
            subject=snapshot.brokers.names[broker],
            compared=compared,
            settings=settings,
            flags=snapshot.brokers.flags_of(broker),
            detail=f"predicted usage {said} estimate",
        )

    def _judged(self, snapshot: LoadSnapshot, broker: int) -> tuple[Code, tuple[Compared, ...], tuple[str, ...]]:
        view, band = self.view, self.settings.band
        if not view.fresh[broker]:
            age_s = (self.now_ms - int(reported_at_ms(snapshot)[broker])) / 1000
            limit_s = self.settings.stale_ms / 1000
            if age_s > limit_s:
                age = Compared("age of its load data", age_s, ">", "limit", limit_s, "s")
                return Code.OUTDATED_LOAD_DATA, (age,), (REPORT_KEY,)
            return Code.TOO_LITTLE_KNOWN, (), (PATIENCE_KEY,)
        why = next((move.why for move in self.found.moves if move.source == broker), ABOVE)
        if why == BY_NUMBER:
            return Code.TOO_MANY_IDLE, (), ()
        if why == RETURNED:
            return Code.TAKES_IN_EXCHANGE, (), (BAND_KEY,)
        if why == EVENS:
            return Code.EVENS_OUT, (), (BAND_KEY, PATIENCE_KEY)
        if self.found.missed[broker] > 0 and not self.found.asked[broker]:
            missed, price = self.found.missed.item(broker), self.settings.price
            waits = (_missed(missed, "<", price),) if missed < price else ()
            return Code.GAIN_TOO_NEW, waits, (BAND_KEY, PATIENCE_KEY)
        less, more = int(np.argmin(view.apart[:, broker])), int(np.argmax(view.apart[:, broker]))
        if view.apart[less, broker] > band and not self.found.asked[broker]:
            return Code.NO_GAIN, (self._against(less, broker, ">"),), (BAND_KEY,)
        if view.apart[less, broker] > band:
            return Code.ABOVE_BAND, (self._against(less, broker, ">"),), (BAND_KEY,)
        if self.found.asked[broker] and why == ABOVE:
            return Code.GIVES_TOO, (self._against(less, broker, "<="),), (BAND_KEY,)
        if self.found.asked[broker]:
            return Code.FILLS_ANOTHER, (self._against(less, broker, "<="),), (BAND_KEY,)
        if not view.known[broker]:
            return Code.TOO_LITTLE_KNOWN, (), (REPORT_KEY,)
        if view.apart[more, broker] > band:
            both = (self._against(more, broker, ">"), self._against(less, broker, "<="))
            return Code.MAY_NOT_LAST, both, (PATIENCE_KEY, BAND_KEY)
        return Code.WITHIN_BAND, (self._against(more, broker, "<="),), (BAND_KEY,)

    def _against(self, estimate: int, broker: int, relation: str) -> Compared:
        usage, level = float(self.view.usage[estimate, broker]), float(self.view.target[estimate, broker])
        what, against = f"predicted usage by the {_ESTIMATES[estimate]} estimate", "reachable usage + band"
        return Compared(what, usage, relation, against, level + self.settings.band, "%")


def _missed(missed: float, relation: str, price: float) -> Compared:
    """Return a comparison of the gain × minutes that a broker has missed (because its best move was not made) with the
    price of the move, both in percentage points × minutes.
    """
    return Compared("gain missed so far in points × minutes", 100 * missed, relation, "price", 100 * price)


def limit_of(budget: int, most: int) -> RoundLimit:
    """Return what limits the moves of a round: the budget of moves, if it allows fewer than `most`; otherwise `most`,
    the maximum number of bundles of a round.
    """
    if budget >= most:
        return ROUND_LIMIT
    return RoundLimit(Code.BUDGET_USED, "what the budget of an hour allows", MOVES_KEY)


@dataclass(frozen=True, slots=True)
class DisturbancePlan(ShedPlan):
    """The plan of a LeastDisturbance round. `moves` has the move of each bundle in `rows`, in the same order. `loads`
    and `lines` are the bundle loads and usage lines that the round computed; the placement strategy uses them as well.
    """

    verdicts: Verdicts
    loads: BundleLoads
    lines: UsageLines

    @property
    def moves(self) -> tuple[RowMove, ...]:
        return self.verdicts.found.moves[: len(self.rows)]

    def _unload(self, position: int, cause: Reason) -> Unload:
        move = self.verdicts.found.moves[position]
        bundles, brokers = self.snapshot.bundles, self.snapshot.brokers.names
        name, source, goal = bundles.names[move.row], brokers[move.source], brokers[move.destination]
        if move.why == BY_NUMBER:
            what, against = f"bundles without load on {source}", f"on {goal} after the move"
            compared: tuple[Compared, ...] = (Compared(what, move.before, ">", against, move.taker, "bundles"),)
            reason = Reason(code=Code.CARRIES_NOTHING, strategy=NAME, subject=name, compared=compared, cause=cause)
            return Unload(name, source, reason, goal)
        compared = (
            Compared(f"{source} above its reachable usage by", move.before, ">", "after the move by", move.after, "%"),
            Compared(
                f"{goal} above its own after the move by", move.taker, "<", f"{source} before by", move.before, "%"
            ),
        )
        alternatives: tuple[Alternative, ...] = ()
        if move.price is not None:
            gain, settings = move.price.gain, self.verdicts.settings
            compared = (
                Compared("gain of the move", gain, ">", "least gain", settings.least_gain, "%"),
                _missed(move.price.missed, ">=", settings.price),
                *compared,
            )
            alternatives = tuple(
                Alternative(
                    bundles.names[row],
                    Code.GAINS_TOO_LITTLE,
                    Compared("gain of its move", other, "<=", "gain of the move", gain, "%") if other <= gain else None,
                )
                for row, other in move.price.others
            )
        sessions = int(bundles.sessions[move.row])
        topics = int(bundles.topics[move.row])
        reason = Reason(
            code=_CODES.get(move.why, Code.LEAST_DISTURBING),
            strategy=NAME,
            subject=name,
            compared=compared,
            alternatives=alternatives,
            detail=f"the move disturbs {count_of(sessions, 'session')} of {count_of(topics, 'topic')}",
            cause=cause,
        )
        return Unload(name, source, reason, goal)

    def destinations(self) -> Mapping[str, str]:
        """Return the destination of each bundle that moves."""
        bundles, brokers = self.snapshot.bundles.names, self.snapshot.brokers.names
        return {bundles[move.row]: brokers[move.destination] for move in self.moves}
