"""Why a selection ended as it did: the strategy's choice, and the brokers that filters removed before it."""

from collections.abc import Sequence

import numpy as np

from barycenter.load.decisions import Placement
from barycenter.load.filters.outcome import FilterOutcome, PlacementRequest
from barycenter.load.placement.choice import PlacementChoice
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Reason
from barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot


def explained(
    snapshot: LoadSnapshot,
    request: PlacementRequest,
    choice: PlacementChoice,
    candidates: Flags,
    outcomes: Sequence[FilterOutcome],
    notes: Sequence[str],
) -> Placement:
    """Return the choice among `candidates` as a placement. `outcomes` are those of the filters, in their order."""
    filtered = _removed(snapshot, candidates, outcomes)
    alternatives = (*choice.rejected, *(alternative for alternative, _ in filtered))[:MAX_ALTERNATIVES]
    total = choice.rejected_count + len(filtered)
    broker = None if choice.broker is None else snapshot.brokers.names[choice.broker]
    reason = Reason(
        code=choice.code,
        strategy=choice.strategy,
        subject=broker or "",
        compared=choice.compared,
        alternatives=alternatives,
        more_alternatives=total - len(alternatives),
        settings=tuple(
            dict.fromkeys((*choice.settings, *(key for _, outcome in filtered for key in outcome.settings)))
        ),
        flags=() if choice.broker is None else snapshot.flags_of_broker(choice.broker),
        detail="; ".join(notes),
    )
    return Placement(request.bundle, broker, reason)


def _removed(
    snapshot: LoadSnapshot, candidates: Flags, outcomes: Sequence[FilterOutcome]
) -> list[tuple[Alternative, FilterOutcome]]:
    """Return the brokers that a filter removed for good, by name, each with the first filter that did."""
    found: dict[int, FilterOutcome] = {}
    for outcome in outcomes:
        for row in np.flatnonzero(outcome.removed & ~candidates).tolist():
            found.setdefault(row, outcome)
    return [(found[row].alternative(snapshot, row), found[row]) for row in sorted(found)]
