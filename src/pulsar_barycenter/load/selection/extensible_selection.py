"""Which broker shall own a bundle, as the extensible load manager chooses it.

    live brokers ▸ its filters (`load.filters.extensible_filters`) ▸ placement

Loads play no part before the placement, and there is no second choice.

Worked example: of four live brokers one runs another load manager, one has 50 000 topics already, and the namespace's
anti-affinity group is on a third. The fourth is chosen, however loaded it is; were it, too, at 50 000 topics, the
bundle would have no owner until that changes.

Source: Pulsar's `ExtensibleLoadManagerImpl.selectAsync` (4.x).
"""

import random
from collections.abc import Collection
from typing import Any

import numpy as np

from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings, live_brokers, narrow
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.placement.placer import Placer
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, choose, next_in_turn
from pulsar_barycenter.load.selection.selection_reason import explained
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot


def select_broker_extensible(
    snapshot: LoadSnapshot,
    request: PlacementRequest,
    settings: ExtensibleFilterSettings,
    placer: Placer[Any],
    rng: random.Random,
    memory: SelectionMemory,
    *,
    without: Collection[str] = (),
) -> tuple[Placement, SelectionMemory]:
    """Return who shall own the bundle, and what is to be remembered.

    Brokers `without` are no candidates: the one that is lost, or whose taking over failed. Namespaces excluded from
    shedding are served in turn, whatever `placer` would say.
    """
    live = live_brokers(snapshot) & np.array([name not in without for name in snapshot.brokers.names], bool)
    narrowed = narrow(snapshot, request, settings, live)
    chosen_by = next_in_turn if request.namespace in settings.excluded_namespaces else choose
    choice, memory = chosen_by(snapshot, narrowed.candidates, request, placer, rng, memory)
    notes = [outcome.note for outcome in narrowed.outcomes if outcome.note]
    notes += [f"a filter failed and was ignored: {failure}" for failure in narrowed.failures]
    return explained(snapshot, request.bundle, choice, narrowed.outcomes, notes), memory
