"""Whether each bundle of a plan is where it was to go."""

from collections.abc import Mapping, Sequence

import msgspec

from pulsar_barycenter.operations.plan import PlannedMove


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`served_by` are the brokers that serve the bundle by their own word, sorted; `is_done`: the destination alone."""

    bundle: str
    source: str
    destination: str
    served_by: tuple[str, ...]
    is_done: bool


def verified(moves: Sequence[PlannedMove], owned: Mapping[str, frozenset[str]]) -> list[Verdict]:
    """Return what became of each move, in their order; `owned` are the bundles that each broker says it serves."""
    holders: dict[str, list[str]] = {}
    for broker in sorted(owned):
        for bundle in owned[broker]:
            holders.setdefault(bundle, []).append(broker)
    found = []
    for move in moves:
        served_by = tuple(holders.get(move.bundle, ()))
        found.append(
            Verdict(
                bundle=move.bundle,
                source=move.source,
                destination=move.destination,
                served_by=served_by,
                is_done=served_by == (move.destination,),
            )
        )
    return found
