"""LeastDisturbance: moves bundles where the predicted gain has lasted long enough to be worth the disturbance.

Each round looks for the single move of a bundle that would even out the brokers' predicted usage most. It is made once
it has missed as much as it costs: a large gain in the next round, a small one if it lasts. A budget limits the moves of
an hour. When a broker has joined or left, or a broker is far above the usage that it can reach and no single move
helps, a round plans many moves: the fewest that bring every broker within a band around that usage.

Worked example (band 6 points): b1 has eight equal bundles and a usage of 80 %; b2 and b3 have just joined, and b3 has
twice the cores. Each can reach 20 %. So in one round b1 gives six bundles, two to b2 and four to b3: only the brokers
have changed, and the recent and the settled estimate of every bundle agree. If instead one of five equal brokers rises
from 40 % to 80 %, nothing moves at first, because its settled estimate is still near 40 %; the first bundle moves
in the third minute, and the next ones as the budget of moves allows.

When to use it: brokers of different strength, load that comes and goes, clusters in which moves are expensive. When
not: if the cluster shall choose as Apache Pulsar does, which has no such strategy. With the modular load manager, name
it as the placement strategy as well: it then gives a new bundle to the broker that will be the least loaded with it.
The extensible load manager sheds by it if `loadBalancerLoadSheddingStrategy` names it, and places by its own strategy.

A broker with an outdated report neither gives nor takes bundles. A broker with a single report takes none, unless it is
empty. A bundle that came to its broker a short while ago, for whatever reason, stays for the grace period, and does not
go back for twice as long.

Source: our own; decision 0038 names the work that it builds on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from pulsar_barycenter.load.decisions import Unload
from pulsar_barycenter.load.filters.extensible_filters import AllowedTransfers, ExtensibleFilterSettings
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.load.shedding.least_disturbance.assignment import Found, Search
from pulsar_barycenter.load.shedding.least_disturbance.budget import Budget, is_new_structure, made
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import BundleLoads, first_loads, next_loads
from pulsar_barycenter.load.shedding.least_disturbance.givers import movable_rows
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import MINUTE_MS, NAME, Settings
from pulsar_barycenter.load.shedding.least_disturbance.newest_load import why_it_stays
from pulsar_barycenter.load.shedding.least_disturbance.prediction import predict
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import (
    UsageLines,
    is_urgent,
    next_lines,
    reported_at_ms,
    was_silent,
)
from pulsar_barycenter.load.shedding.least_disturbance.verdicts import DisturbancePlan, Verdicts, limit_of
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

_LONGEST_MIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class DisturbanceMemory:
    """What the strategy remembers between rounds: the time of the last round (epoch ms); `loads`, the estimated loads
    of bundles, and `lines`, which estimate the usage of each broker from the load of its bundles (both None before the
    first round); and the budget of moves. `missed` is for each broker how much it has lost because its best move was
    not made yet, as gain × minutes (see `Settings.price`).
    """

    at_ms: int = 0
    loads: BundleLoads | None = None
    lines: UsageLines | None = None
    budget: Budget = field(default_factory=Budget)
    missed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeastDisturbance(Shedder[DisturbanceMemory]):
    """The strategy LeastDisturbance. `filters` are the filters of the extensible load manager, which the strategy
    applies itself, because that load manager carries out planned destinations without a further check.
    """

    name: ClassVar[str] = NAME
    settings: Settings = field(default_factory=Settings)
    filters: ExtensibleFilterSettings = field(default_factory=ExtensibleFilterSettings)

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(Settings.of(config), ExtensibleFilterSettings.of(config))

    def start(self) -> DisturbanceMemory:
        return DisturbanceMemory()

    def why_it_stays(self, plan: SheddingPlan, position: int, unload: Unload, load: LoadSnapshot) -> Reason | None:
        assert isinstance(plan, DisturbancePlan), "the plan is one of `decide`"
        return why_it_stays(plan, position, unload, load)

    def decide(self, snapshot: LoadSnapshot, memory: DisturbanceMemory) -> tuple[DisturbancePlan, DisturbanceMemory]:
        """Return the plan of bundles to unload, each with its destination, and the memory for the next round."""
        settings = self.settings
        now_ms, minutes = _times(snapshot, memory)
        budget = memory.budget.grown(settings.moves_of_an_hour(len(snapshot.brokers)), minutes, settings)
        with np.errstate(over="ignore", invalid="ignore"):
            if memory.loads is None:
                loads = first_loads(snapshot)
                lines = next_lines(None, snapshot, loads.units, 0.0, settings)
                budget = budget.begun(now_ms, settings)
            else:
                lines = next_lines(memory.lines, snapshot, memory.loads.units, minutes, settings)
                believed = is_urgent(lines, settings)
                silent = was_silent(memory.lines, snapshot, settings)
                loads = next_loads(memory.loads, snapshot, minutes, now_ms, believed, silent, lines.doubt, settings)
                if is_new_structure(memory.loads, loads):
                    budget = budget.freed(now_ms, settings)
                if loads.units != memory.loads.units:
                    lines = next_lines(None, snapshot, loads.units, 0.0, settings)
            view = predict(snapshot, loads, lines, now_ms, settings)
            if budget.is_unlimited(now_ms) and (view.fresh & ~view.known).any():
                budget = budget.still_unlimited(now_ms, settings)
            movable = movable_rows(snapshot, loads, view, settings, now_ms)
            allowed = AllowedBrokers(snapshot, loads, self.filters, now_ms - 2 * settings.grace_ms)
            most = min(settings.most, budget.moves(now_ms))
            search = Search(snapshot, loads, view, movable, allowed, replace(settings, most=most))
            if budget.is_free(now_ms):
                found = search.run()
            else:
                missed = [memory.missed.get(name, 0.0) for name in snapshot.brokers.names]
                found = search.run_by_price(np.array(missed), minutes)
        verdicts = Verdicts(settings, view, found, now_ms)
        count = made(found.moves, budget.moves(now_ms), settings)
        rows = np.array([move.row for move in found.moves[:count]], np.int64)
        waiting = None
        if len(found.moves) > len(rows):
            waiting = found.unseen.copy()
            waiting[[move.source for move in found.moves[len(rows) :]]] = True
        plan = DisturbancePlan(
            NAME,
            snapshot,
            verdicts,
            rows,
            np.zeros(len(rows)),
            waiting=waiting,
            limit=limit_of(budget.moves(now_ms), settings.most),
            loads=loads,
            lines=lines,
        )
        still = _missed_after(found, count, snapshot.brokers.names)
        return plan, DisturbanceMemory(now_ms, loads, lines, budget.spent(count, now_ms), still)


def _missed_after(found: Found, made_moves: int, names: tuple[str, ...]) -> dict[str, float]:
    """Return for each broker the gain × minutes that it has missed because its best move was not made (see
    `Settings.price`), this round included. Brokers from which a bundle moves in this round have 0, and are omitted.
    """
    missed = found.missed.copy()
    missed[[move.source for move in found.moves[:made_moves]]] = 0.0
    return {names[row]: float(missed[row]) for row in np.flatnonzero(missed).tolist()}


def _times(snapshot: LoadSnapshot, memory: DisturbanceMemory) -> tuple[int, float]:
    """Return the time of the snapshot (epoch ms), and the minutes since the last round; 1 if there was no earlier
    round.
    """
    newest = int(reported_at_ms(snapshot).max(initial=0))
    now_ms = snapshot.taken_at_ms or max(newest, memory.at_ms + MINUTE_MS if memory.loads is not None else 0)
    if memory.loads is None or now_ms <= memory.at_ms:
        return now_ms, 1.0
    return now_ms, min(_LONGEST_MIN, (now_ms - memory.at_ms) / MINUTE_MS)


class AllowedBrokers:
    """Finds the brokers that may take a bundle: those that policies allow, without those that the bundle left recently.
    Call the object with the row of the bundle and the row of its broker.

    The policies are evaluated once for each namespace; without isolation policies, once.
    """

    def __init__(
        self, snapshot: LoadSnapshot, loads: BundleLoads, filters: ExtensibleFilterSettings, since_ms: int
    ) -> None:
        self._snapshot, self._loads, self._since_ms = snapshot, loads, since_ms
        self._of_namespace: dict[tuple[int, int], Flags] = {}
        self._transfers = None if snapshot.extensible is None else AllowedTransfers(snapshot, filters)
        self._has_policies = self._transfers is not None or bool(snapshot.policies.isolation)

    def __call__(self, row: int, source: int) -> Flags:
        bundles = self._snapshot.bundles
        namespace = bundles.namespace.item(row) if self._has_policies else -1
        key = namespace, source if self._transfers is not None else -1
        found = self._of_namespace.get(key)
        if found is None:
            found = self._of_namespace[key] = self._by_policies(row, source)
        if self._loads.left and (stays := self._loads.left.get(bundles.names[row])):
            found = found.copy()
            index = self._snapshot.brokers.index
            found[[index[name] for name, at_ms in stays if name in index and at_ms >= self._since_ms]] = False
        return found

    def _by_policies(self, row: int, source: int) -> Flags:
        snapshot, transfers = self._snapshot, self._transfers
        if transfers is None:
            return policy_candidates(snapshot, PlacementRequest(snapshot.bundles.names[row])).kept
        rows = np.array([row])
        allowed = [transfers(rows, source, broker)[0] for broker in range(len(snapshot.brokers))]
        return np.array(allowed, bool)
