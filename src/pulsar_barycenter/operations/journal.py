"""The journal of a plan: a file with one line for each state of a move, so that a killed tool can continue.

A line is on the disk before the action that it announces begins. The journal also shows who moved what, when, and why.

Only one process at a time uses a journal; `journal_file` has the lock, and the request to stop.

`backward` returns the moves that reverse a journal.
"""

import enum
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from pulsar_barycenter.operations.journal_file import JournalError, JournalFile
from pulsar_barycenter.operations.plan import Plan, PlannedMove


class MoveState(enum.StrEnum):
    BEGUN = "begun"
    """The broker has received the request to unload the bundle, or is about to."""
    SERVED = "served"
    """The destination serves the bundle."""
    FAILED = "failed"
    """If the bundle was unloaded and another broker got it, this broker is the destination in the entry."""
    MOVED_AWAY = "moved away"
    """The destination served the bundle, and it has moved again since."""
    CANCELLED = "cancelled"
    """Another process asked to begin no more moves; the entry names no bundle."""


_DONE: Final = (MoveState.SERVED, MoveState.MOVED_AWAY)


class Entry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A line of the journal of moves: the state that a move reached. `at` is epoch ms, `plan` the name of the plan,
    `by` the user, `why` the reason.

    `took_s` is the duration of the move in seconds, if the move has ended.
    """

    at: int
    plan: str
    by: str
    bundle: str
    source: str
    destination: str
    state: MoveState
    detail: str = ""
    why: str = ""
    took_s: float | None = None


Journal: TypeAlias = JournalFile[Entry]
"""The journal of the moves of a plan."""


def move_journal(file: Path) -> Journal:
    """Return the journal of moves in `file`, which is created at the first entry."""
    return JournalFile(file, Entry)


def left_of(plan: Plan, entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves of a plan that are not done yet according to the `entries` of its journal, in the plan's order.
    A move that began and did not end is not done.

    A move whose bundle has moved again since then counts as done and is left out: an operator has to decide whether to
    repeat it.

    Raises:
        JournalError: the entries belong to another plan.
    """
    last: dict[str, MoveState] = {}
    for entry in entries:  # an entry without a bundle is not about a move
        if entry.plan != plan.name:
            raise JournalError("the journal belongs to another plan; name a new file with --journal")
        last[entry.bundle] = entry.state
    return tuple(move for move in plan.moves if last.get(move.bundle) not in _DONE)


def made_of(entries: Iterable[Entry]) -> Counter[str]:
    """Return how often each bundle moved according to the `entries` of a journal, to the planned destination or to
    another broker.
    """
    made: Counter[str] = Counter()
    destinations: dict[str, str] = {}
    for entry in entries:
        if entry.state is MoveState.BEGUN:
            destinations[entry.bundle] = entry.destination
        elif entry.state is MoveState.SERVED or (
            entry.state is MoveState.FAILED and entry.destination != destinations.get(entry.bundle, entry.destination)
        ):
            made[entry.bundle] += 1
    return made


def backward(entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves that bring each bundle in the journal back to the broker that had it first; the bundle that
    moved last comes first.

    A bundle that is back already is left out. A move that began and did not end counts as made, since it may have been.
    If it was not made, the bundle is still on its first broker, and `execute` counts the move back as done. A bundle
    that another broker than the planned destination got is moved back from that broker.

    Example: x moved from a to b, y from a to b, x from b to c. The result is x from c to a, then y from b to a.
    """
    first: dict[str, str] = {}
    last: dict[str, Entry] = {}
    for entry in entries:
        if entry.bundle and entry.state is MoveState.BEGUN:
            first.setdefault(entry.bundle, entry.source)
            last.pop(entry.bundle, None)
            last[entry.bundle] = entry
        elif entry.state is MoveState.FAILED and entry.bundle in last:
            last[entry.bundle] = entry
    return tuple(
        PlannedMove(
            bundle=bundle,
            source=entry.destination,
            destination=first[bundle],
            sentence=f"back to the broker that had it before plan {entry.plan} of {entry.by}",
        )
        for bundle, entry in reversed(last.items())
        if entry.destination != first[bundle]
    )
