"""Says why a bundle moved, by comparing the move that was seen with the recomputed rounds of that time. Pure.

The first row that applies gives the reason:

| the move | basis | agrees |
|---|---|---|
| the journal of `balance` has it | journal | - |
| the broker that had the bundle has ended | seen | - |
| the cluster's own shedding was off | seen | - |
| its strategy is not known here, or too little load was recorded before | seen | - |
| a recomputed round moves this bundle from this broker | recomputed | yes |
| recomputed rounds do not | recomputed | no: the reason why they do not |
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.balancer.judging.moves_seen import SeenMove, Whose
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.watch.recomputing import RecomputedMove, RecomputedRound

SHEDDING_ENABLED_KEY: Final = "loadBalancerSheddingEnabled"
_MAX_NAMED: Final = 3
"""The number of bundles that a sentence names."""


class Basis(enum.StrEnum):
    """What the reason of a move is based on: a recomputed round (RECOMPUTED), the journal of `barycenter balance`
    (JOURNAL), or only the move itself (SEEN).
    """

    RECOMPUTED = "recomputed"
    JOURNAL = "journal"
    SEEN = "seen"
    """Nothing but the move itself."""


@dataclass(frozen=True, slots=True)
class Why:
    """The reason of a move or split. `basis` is what it is based on. `agrees` is whether a recomputed round makes the
    same decision; None if no round could be compared.
    """

    basis: Basis
    sentence: str
    short: str
    agrees: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known about the time of a move. `rounds` are the recomputed rounds of that time, oldest first. `journal`
    maps a bundle and its destination to the reason in the journal of `barycenter balance`. `sheds` is whether the
    cluster's own shedding was on. `problem` says why no round can be recomputed; "" if rounds can be recomputed.
    `settings_missing` is whether no settings were recorded, so that Pulsar's defaults are assumed.
    """

    rounds: Sequence[RecomputedRound]
    journal: Mapping[tuple[str, str], str]
    sheds: bool
    settings_missing: bool = False
    problem: str = ""


def why_moved(move: SeenMove, known: Known) -> Why:
    """Return the reason why a bundle moved: the one in the journal of `barycenter balance`, or the one of a recomputed
    round; if there is neither, a sentence that says what was seen of the move.
    """
    if (said := known.journal.get((move.bundle, move.destination))) is not None:
        return Why(Basis.JOURNAL, f"barycenter balance moved it: {said}", f"barycenter balance: {short_reason(said)}")
    if move.whose is Whose.FAILOVER:
        return _seen(f"{move.source} is no longer in the cluster, so another broker serves the bundle")
    if not known.sheds:
        return _seen(
            f"the cluster's own shedding was off ({SHEDDING_ENABLED_KEY}=false), so a person or a program moved it"
        )
    if known.problem:
        return _seen(f"no reason can be recomputed: {known.problem}")
    if not known.rounds:
        return _seen("no load was recorded before the move, so no reason can be recomputed")
    assumed = ". No settings were recorded: Pulsar's defaults were assumed" if known.settings_missing else ""
    for round_ in reversed(known.rounds):
        for made in round_.moves:
            if (made.bundle, made.source) == (move.bundle, move.source):
                return _agreeing(move, round_, made, assumed)
    return _disagreeing(move, known.rounds, assumed)


def _seen(sentence: str) -> Why:
    return Why(Basis.SEEN, sentence, sentence)


def _agreeing(move: SeenMove, round_: RecomputedRound, made: RecomputedMove, assumed: str) -> Why:
    sentence = f"{round_.strategy}: {made.sentence}"
    if made.destination == move.destination:
        sentence += f"; to this broker: {made.placement}" if made.placement else ""
    elif made.destination:
        sentence += f"; the recomputed round would place it on {made.destination}"
    short = f"{round_.strategy}: {short_reason(made.sentence)}"
    return Why(Basis.RECOMPUTED, sentence + assumed, short, agrees=True)


def _disagreeing(move: SeenMove, rounds: Sequence[RecomputedRound], assumed: str) -> Why:
    """Return the reason of a move that no recomputed round makes. It says what the newest of the `rounds` that shed
    bundles of the same broker does instead; if there is no such round, what the newest round does. `assumed` is a text
    that is appended.
    """
    from_same = [round_ for round_ in rounds if any(made.source == move.source for made in round_.moves)]
    round_ = (from_same or rounds)[-1]
    others = [made.bundle for made in round_.moves if made.source == move.source]
    if others:
        named = ", ".join(others[:_MAX_NAMED]) + (" and others" if len(others) > _MAX_NAMED else "")
        head = f"{round_.strategy} would move {count_of(len(others), 'other bundle')} from {move.source}"
        sentence = f"{head}, not this one: {named}; {round_.verdicts.get(move.source, round_.sentence)}"
        return Why(Basis.RECOMPUTED, sentence + assumed, f"{head}, not this one", agrees=False)
    verdict = round_.verdicts.get(move.source, round_.sentence)
    head = f"{round_.strategy} would not have moved it"
    sentence = f"{head}: {verdict}; a person or another program moved it, or the leader knew other load"
    return Why(Basis.RECOMPUTED, sentence + assumed, f"{head}: {short_reason(verdict)}", agrees=False)
