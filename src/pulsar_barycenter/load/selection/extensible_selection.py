"""Which broker owns a bundle, as the extensible load manager chooses it.

    live brokers ▸ its filters (`load.filters.extensible_filters`) ▸ placement

Loads matter only for the placement, and there is no second choice.

Worked example: of four live brokers one runs a different load manager, one already has 50 000 topics, and a third has
the namespace's anti-affinity group. The fourth is chosen, however loaded it is. If it also had 50 000 topics, the
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
    """Return the owner that the extensible load manager chooses for the bundle, with the reason, and the memory for the
    next choice.

    The brokers in `without` are not candidates, because they are lost or failed to take over the bundle. For a bundle
    of a namespace that is excluded from shedding, brokers are chosen in turn, and `placer` is not used.
    """
    live = live_brokers(snapshot) & np.array([name not in without for name in snapshot.brokers.names], bool)
    narrowed = narrow(snapshot, request, settings, live)
    chosen_by = next_in_turn if request.namespace in settings.excluded_namespaces else choose
    choice, memory = chosen_by(snapshot, narrowed.candidates, request, placer, rng, memory)
    notes = [outcome.note for outcome in narrowed.outcomes if outcome.note]
    notes += [f"a filter failed and was ignored: {failure}" for failure in narrowed.failures]
    return explained(snapshot, request.bundle, choice, narrowed.outcomes, notes), memory
