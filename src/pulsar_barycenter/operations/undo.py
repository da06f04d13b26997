"""The way back: what a journal says was moved, as a plan of moves to where each bundle was at first.

A move that was begun and did not end is among them, since it may have come to its end: if it did not, the bundle is
where it is to go, and `execute` counts it as done.
"""

from collections.abc import Iterable

from pulsar_barycenter.operations.journal import Entry, MoveState
from pulsar_barycenter.operations.plan import PlannedMove


def backward(entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves back, what was moved last first. A bundle that came back by itself is left out.

    Worked example: x went from a to b, y from a to b, x from b to c. Back go x from c to a, then y from b to a.
    """
    first: dict[str, str] = {}
    last: dict[str, Entry] = {}
    for entry in entries:
        if entry.bundle and entry.state is MoveState.BEGUN:
            first.setdefault(entry.bundle, entry.source)
            last.pop(entry.bundle, None)
            last[entry.bundle] = entry
    return tuple(
        PlannedMove(
            bundle=bundle,
            source=entry.destination,
            destination=first[bundle],
            sentence=f"back to where it was before plan {entry.plan} of {entry.by}",
        )
        for bundle, entry in reversed(last.items())
        if entry.destination != first[bundle]
    )
