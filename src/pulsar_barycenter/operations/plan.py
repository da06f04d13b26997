"""A plan: which bundles shall go from which broker to which, and whether they are there.

A line of JSON a move, as `barycenter decide --json` prints them; lines of other kinds are passed over.

    {"kind": "unload", "bundle": "t/n/0x00000000_0x80000000", "source": "b1:8080", "destination": "b2:8080", …}
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError

MOST_MOVES: Final = 100_000
_KIND: Final = "unload"
_Broker = Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """`sentence` says why, if anybody did."""

    bundle: Annotated[str, msgspec.Meta(max_length=4_096)]
    source: _Broker
    destination: _Broker
    sentence: str = ""


class _Line(msgspec.Struct):
    kind: str = ""


class PlanError(ValueError):
    """A text is no plan; the message says which line, and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves in the order in which they begin, no bundle twice. `name` tells plans apart: it follows from the moves."""

    moves: tuple[PlannedMove, ...]

    @property
    def name(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.moves)).hexdigest()[:16]


def read_plan(text: bytes) -> Plan:
    """Return the plan in lines of JSON.

    Raises:
        PlanError: a line is no JSON object, a move lacks something, a bundle is named twice, or there are too many.
    """
    moves = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and (move := _move(line, number)) is not None:
            moves.append(move)
        if len(moves) > MOST_MOVES:
            raise PlanError(f"there are more than {MOST_MOVES:,} moves; make several plans")
    if not moves:
        raise PlanError(f"there is no move: a line of each is needed, with kind {_KIND!r}, as decide --json prints")
    return plan_of(moves)


def plan_of(moves: Sequence[PlannedMove]) -> Plan:
    """Return the plan of these moves.

    Raises:
        PlanError: a bundle is named twice or is none, or would stay.
    """
    seen: set[str] = set()
    for move in moves:
        try:
            bundle = str(Bundle.parse(move.bundle))
        except InvalidNameError as error:
            raise PlanError(f"{move.bundle}: {error}") from error
        if bundle in seen:
            raise PlanError(f"{bundle} is named twice; a plan moves a bundle once")
        if move.source == move.destination:
            raise PlanError(f"{bundle} is to go from {move.source} to itself")
        seen.add(bundle)
    return Plan(tuple(moves))


def _move(line: bytes, number: int) -> PlannedMove | None:
    try:
        if msgspec.json.decode(line, type=_Line).kind != _KIND:
            return None
        fields: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        return msgspec.convert(fields, PlannedMove)
    except msgspec.DecodeError as error:
        hint = "; let decide name destinations, with a placement strategy" if "destination" in str(error) else ""
        raise PlanError(f"line {number} is no move: {error}{hint}") from error


class MoveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """`served_by` are the brokers that serve the bundle by their own word, sorted; `is_done`: the destination alone."""

    bundle: str
    source: str
    destination: str
    served_by: tuple[str, ...]
    is_done: bool


def verified(moves: Sequence[PlannedMove], owned: Mapping[str, frozenset[str]]) -> list[MoveOutcome]:
    """Return what became of each move, in their order; `owned` are the bundles that each broker says it serves."""
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
