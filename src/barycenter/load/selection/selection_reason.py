"""Why a selection ended as it did: the strategy's choice, and the brokers that filters removed before it."""

from collections.abc import Sequence

from barycenter.load.decisions import Placement
from barycenter.load.filters.outcome import FilterOutcome
from barycenter.load.placement.placer import PlacementChoice
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Reason
from barycenter.load.snapshot.load_snapshot import LoadSnapshot


def explained(
    snapshot: LoadSnapshot,
    bundle: str,
    choice: PlacementChoice,
    outcomes: Sequence[FilterOutcome],
    notes: Sequence[str] = (),
) -> Placement:
    """Return the choice as a placement.

    `outcomes` are those of the filters that count, in their order, each one's candidates what the one before kept; what
    the last one kept was chosen from. The brokers that were removed come after those that the strategy rejected, by
    name.
    """
    shown, keys = choice.rejected, choice.settings
    narrowing = [outcome for outcome in outcomes if outcome.gone]
    removed = 0
    if narrowing:
        removed = sum([outcome.gone for outcome in narrowing])
        keys = tuple(dict.fromkeys((*keys, *(key for outcome in narrowing for key in outcome.settings))))
        if len(shown) < MAX_ALTERNATIVES:
            shown += _removed(snapshot, narrowing, MAX_ALTERNATIVES - len(shown))
    broker = None if choice.broker is None else snapshot.brokers.names[choice.broker]
    reason = Reason(
        code=choice.code,
        strategy=choice.strategy,
        subject=broker or "",
        compared=choice.compared,
        alternatives=shown,
        more_alternatives=choice.rejected_count + removed - len(shown),
        settings=keys,
        flags=() if choice.broker is None else snapshot.flags_of_broker(choice.broker),
        detail="; ".join(notes),
    )
    return Placement(bundle, broker, reason)


def _removed(snapshot: LoadSnapshot, narrowing: Sequence[FilterOutcome], count: int) -> tuple[Alternative, ...]:
    """Return the first so many that were removed, by name, each with what its filter says."""
    rows = (narrowing[0].among & ~narrowing[-1].kept).nonzero()[0][:count].tolist()
    if len(narrowing) == 1:
        return tuple(narrowing[0].alternatives(snapshot, rows))
    found: dict[int, Alternative] = {}
    for outcome in narrowing:
        gone = [row for row in rows if not outcome.kept.item(row)]
        found.update(zip(gone, outcome.alternatives(snapshot, gone), strict=True))
        rows = [row for row in rows if row not in found]
    return tuple(found[row] for row in sorted(found))
