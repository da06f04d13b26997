"""The reason of a selection: the strategy's choice, and the brokers that filters removed before it."""

from collections.abc import Sequence

import msgspec

from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.outcome import FilterOutcome
from pulsar_barycenter.load.placement.placer import PlacementChoice
from pulsar_barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Reason
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, LoadSnapshot


def explained(
    snapshot: LoadSnapshot,
    bundle: str,
    choice: PlacementChoice,
    outcomes: Sequence[FilterOutcome],
    notes: Sequence[str] = (),
) -> Placement:
    """Return the strategy's choice of a broker for `bundle` as a placement, whose reason is built on demand.

    `outcomes` are the filters' outcomes, in order: the candidates of a filter are the brokers that the previous one
    kept, and the strategy chose among those that the last one kept. In the reason, the brokers that the strategy
    rejected come first, then those that filters removed, by name. The caller must not change the arguments afterwards.
    """
    brokers, narrowing = snapshot.brokers, tuple([outcome for outcome in outcomes if outcome.gone])
    broker = None if choice.broker is None else brokers.names[choice.broker]
    return Placement(bundle, broker, _Explained(brokers, choice, narrowing, tuple(notes)))


class _Explained(msgspec.Struct, frozen=True, gc=False):
    """Builds the reason of a strategy's choice. `narrowing` are the outcomes of the filters that removed brokers.

    This object keeps only the brokers of the snapshot and not the bundles, because placements are kept for a whole
    round.
    """

    brokers: BrokerTable
    choice: PlacementChoice
    narrowing: tuple[FilterOutcome, ...]
    notes: tuple[str, ...]

    def __call__(self) -> Reason:
        brokers, choice, narrowing = self.brokers, self.choice, self.narrowing
        compared, shown = choice.figures()
        removed = sum(outcome.gone for outcome in narrowing)
        if len(shown) < MAX_ALTERNATIVES and narrowing:
            shown += _removed(brokers.names, narrowing, MAX_ALTERNATIVES - len(shown))
        keys = (key for outcome in narrowing for key in outcome.settings)
        return Reason(
            code=choice.code,
            strategy=choice.strategy,
            subject="" if choice.broker is None else brokers.names[choice.broker],
            compared=compared,
            alternatives=shown,
            more_alternatives=choice.rejected_count + removed - len(shown),
            settings=tuple(dict.fromkeys((*choice.settings, *keys))),
            flags=() if choice.broker is None else brokers.flags_of(choice.broker),
            detail="; ".join(self.notes),
        )


def _removed(names: Sequence[str], narrowing: Sequence[FilterOutcome], count: int) -> tuple[Alternative, ...]:
    """Return the first `count` of the brokers that filters removed, in the order of their names. Each has the reason of
    the filter that removed it.
    """
    rows = (narrowing[0].among & ~narrowing[-1].kept).nonzero()[0][:count].tolist()
    if len(narrowing) == 1:
        return tuple(narrowing[0].alternatives(names, rows))
    found: dict[int, Alternative] = {}
    for outcome in narrowing:
        gone = [row for row in rows if not outcome.kept.item(row)]
        found.update(zip(gone, outcome.alternatives(names, gone), strict=True))
        rows = [row for row in rows if row not in found]
    return tuple(found[row] for row in sorted(found))
