"""A plan: the bundles to move, with source and destination; and the check of its result.

A plan is text with one JSON object on each line, as `barycenter decide --json` prints it; other lines are ignored.

    {"kind": "unload", "bundle": "t/n/0x00000000_0x80000000", "source": "b1:8080", "destination": "b2:8080", …}
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError

MOST_MOVES: Final = 100_000
_KIND: Final = "unload"
_Broker = Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a bundle that is planned. `sentence` is the reason as text, blank if none is known."""

    bundle: Annotated[str, msgspec.Meta(max_length=4_096)]
    source: _Broker
    destination: _Broker
    sentence: str = ""


class _Line(msgspec.Struct):
    kind: str = ""


class PlanError(ValueError):
    """A text is not a plan; the message names the line, and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves in the order in which they begin, no bundle twice. `name` identifies the plan; it is a hash of the
    moves.
    """

    moves: tuple[PlannedMove, ...]

    @property
    def name(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.moves)).hexdigest()[:16]


def read_plan(text: bytes) -> Plan:
    """Return the plan of moves that lines of JSON describe.

    Raises:
        PlanError: a line is not a JSON object, a move lacks a field, a bundle occurs twice, or moves are too many.
    """
    moves = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and (move := _move(line, number)) is not None:
            moves.append(move)
        if len(moves) > MOST_MOVES:
            raise PlanError(f"the plan has more than {MOST_MOVES:,} moves; divide it into several plans")
    if not moves:
        raise PlanError(f"there is no move: a move is a line with kind {_KIND!r}, as `decide --json` prints it")
    return plan_of(moves)


def plan_of(moves: Sequence[PlannedMove]) -> Plan:
    """Check the moves, and return a plan with them in the same order.

    Raises:
        PlanError: a bundle occurs twice or its name is not valid, or a move has the same source and destination.
    """
    seen: set[str] = set()
    for move in moves:
        try:
            bundle = str(Bundle.parse(move.bundle))
        except InvalidNameError as error:
            raise PlanError(f"{move.bundle}: {error}") from error
        if bundle in seen:
            raise PlanError(
                f"the plan has two moves of {bundle}; a plan can move a bundle only once: remove one of the two"
            )
        if move.source == move.destination:
            raise PlanError(
                f"the move of {bundle} has the same source and destination, {move.source}; remove this move"
            )
        seen.add(bundle)
    return Plan(tuple(moves))


def _move(line: bytes, number: int) -> PlannedMove | None:
    try:
        if decode_json(line, _Line).kind != _KIND:
            return None
        fields: dict[str, Any] = decode_json(line, dict[str, Any])
        return msgspec.convert(fields, PlannedMove)
    except msgspec.DecodeError as error:
        hint = (
            "; run decide with a placement strategy, so that it names destinations"
            if "destination" in str(error)
            else ""
        )
        raise PlanError(f"line {number} is not a move: {error}{hint}") from error


class MoveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a move. `served_by` are the brokers that say they serve the bundle, sorted; `is_done` is whether
    the destination, and no other broker, serves the bundle.
    """

    bundle: str
    source: str
    destination: str
    served_by: tuple[str, ...]
    is_done: bool


def verified(moves: Sequence[PlannedMove], owned: Mapping[str, frozenset[str]]) -> list[MoveOutcome]:
    """Return the result of each move, in the order of the moves; `owned` are the bundles that each broker says it
    serves.
    """
    holders: dict[str, list[str]] = {}
    for broker in sorted(owned):
        for bundle in owned[broker]:
            holders.setdefault(bundle, []).append(broker)
    found = []
    for move in moves:
        served_by = tuple(holders.get(move.bundle, ()))
        found.append(
            MoveOutcome(
                bundle=move.bundle,
                source=move.source,
                destination=move.destination,
                served_by=served_by,
                is_done=served_by == (move.destination,),
            )
        )
    return found
