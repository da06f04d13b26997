"""What the journal of moves says to a process that starts again, or to the next round. Pure.

The journal has the moves of all rounds. The name of a round's plan is in each entry.
"""

from collections.abc import Iterable, Mapping, Sequence

from pulsar_barycenter.balancer.judging.caps import PastMove
from pulsar_barycenter.operations.journal import Entry, MoveState
from pulsar_barycenter.operations.plan import PlannedMove


def under_way(entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves that began and did not end, oldest first: a killed process left them.

    Only the last move of a bundle counts.
    """
    last: dict[str, Entry] = {}
    for entry in entries:
        if entry.bundle:
            last.pop(entry.bundle, None)
            last[entry.bundle] = entry
    return tuple(
        PlannedMove(bundle=entry.bundle, source=entry.source, destination=entry.destination, sentence=entry.why)
        for entry in last.values()
        if entry.state is MoveState.BEGUN
    )


def past_moves(entries: Iterable[Entry], throughputs: Mapping[str, float], *, since_ms: int) -> list[PastMove]:
    """Return the moves that began at `since_ms` (epoch ms) or later, oldest first. `throughputs` maps bundles to their
    present throughput (bytes/s); a bundle that is not in it counts with 0.
    """
    return [
        PastMove(entry.at, entry.bundle, throughputs.get(entry.bundle, 0.0))
        for entry in entries
        if entry.state is MoveState.BEGUN and entry.at >= since_ms
    ]


def within_grace(moves: Sequence[PastMove], *, now_ms: int, grace_ms: int) -> dict[str, int]:
    """Return a mapping from bundle to the time of its last move (epoch ms), for the moves that are at most `grace_ms`
    old.
    """
    return {move.bundle: move.at_ms for move in moves if now_ms - move.at_ms <= grace_ms}
