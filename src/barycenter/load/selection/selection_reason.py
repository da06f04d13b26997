"""Why a selection ended as it did: the strategy's choice, and the brokers that filters removed before it."""

from collections.abc import Sequence

import numpy as np

from barycenter.load.decisions import Placement
from barycenter.load.filters.outcome import FilterOutcome
from barycenter.load.placement.placer import PlacementChoice
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Reason
from barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot


def explained(
    snapshot: LoadSnapshot,
    bundle: str,
    choice: PlacementChoice,
    candidates: Flags,
    outcomes: Sequence[FilterOutcome],
    notes: Sequence[str] = (),
) -> Placement:
    """Return the choice among `candidates` as a placement.

    `outcomes` are those of the filters, in their order, each one's candidates what the one before kept. The brokers
    that a filter removed for good come after those that the strategy rejected, by name.
    """
    shown, keys = choice.rejected, choice.settings
    gone = int(np.count_nonzero(outcomes[0].among)) - int(np.count_nonzero(candidates)) if outcomes else 0
    if gone:
        rows, removers = _removed(candidates, outcomes)
        keys = tuple(dict.fromkeys((*keys, *(key for outcome in removers for key in outcome.settings))))
        shown += tuple(_alternative(snapshot, row, removers) for row in rows[: MAX_ALTERNATIVES - len(shown)].tolist())
    broker = None if choice.broker is None else snapshot.brokers.names[choice.broker]
    reason = Reason(
        code=choice.code,
        strategy=choice.strategy,
        subject=broker or "",
        compared=choice.compared,
        alternatives=shown,
        more_alternatives=choice.rejected_count + gone - len(shown),
        settings=keys,
        flags=() if choice.broker is None else snapshot.flags_of_broker(choice.broker),
        detail="; ".join(notes),
    )
    return Placement(bundle, broker, reason)


def _removed(candidates: Flags, outcomes: Sequence[FilterOutcome]) -> tuple[Integers, list[FilterOutcome]]:
    """Return the rows that were removed for good, and the filters that were the first to remove any of them.

    The filters come by the row that they removed first.
    """
    rows = left = np.flatnonzero(outcomes[0].among & ~candidates)
    found: list[tuple[int, FilterOutcome]] = []
    for outcome in outcomes:
        if outcome.kept is not outcome.among and len(left):
            stay = outcome.kept[left]
            where = int(stay.argmin())
            if not stay[where]:
                found.append((int(left[where]), outcome))
                left = left[stay]
    return rows, [outcome for _, outcome in sorted(found, key=lambda each: each[0])]


def _alternative(snapshot: LoadSnapshot, row: int, removers: Sequence[FilterOutcome]) -> Alternative:
    first = next(outcome for outcome in removers if outcome.among[row] and not outcome.kept[row])
    return first.alternative(snapshot, row)
