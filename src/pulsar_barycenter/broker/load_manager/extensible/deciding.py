"""The decisions of a broker with the extensible load manager: each broker assigns and splits, the leader unloads.

It makes a snapshot of the known loads, calls the pure functions of `load`, and carries out the result. Decisions and
refusals go to the decision log.

It needs numpy; a broker imports it at its first decision.
Source: Pulsar's `ExtensibleLoadManagerImpl.selectAsync`, `UnloadScheduler`, `SplitScheduler`.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import structlog

from pulsar_barycenter.broker.load_manager.balancing_configuration import balancing_configuration
from pulsar_barycenter.broker.load_manager.extensible.deciding_parts import DecidingParts
from pulsar_barycenter.broker.load_manager.pipeline_feed import Published
from pulsar_barycenter.broker.load_manager.round_driver import carry_out_round
from pulsar_barycenter.load.decisions import Placement, Unload
from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind, StrategyError
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.rounds.round import UnloadOutcome, moves
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.shedding.transfer_plan import UNLOAD_REASONS
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument, TrafficFigures
from pulsar_barycenter.load.snapshot.extensible_snapshot import (
    NO_WINDOWS,
    Windows,
    build_extensible_snapshot,
    windows_of_owners,
)
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot, namespace_of
from pulsar_barycenter.load.splitting.split_plan import SplitPlan
from pulsar_barycenter.load.strategies import placer_of, shedder_of, splitter_of
from pulsar_barycenter.load.strategy import NOTHING_REMEMBERED
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

_KIND = ManagerKind.EXTENSIBLE


async def _keep_children() -> bool:
    """Return False: the new bundles stay with the owner."""
    return False


class ExtensibleDecisions:
    """Decides for the load manager of one broker: which broker gets a bundle, and which bundles are unloaded
    or split.
    """

    def __init__(self, parts: DecidingParts) -> None:
        self._parts = parts
        self._selection_memory = SelectionMemory()
        self._shedding_memory = NOTHING_REMEMBERED
        self._splitting_memory = NOTHING_REMEMBERED
        self._recently_unloaded: dict[str, int] = {}
        self._brokers: tuple[int, Published | None, LoadSnapshot] | None = None

    # ---- snapshots ----

    async def _known(self) -> tuple[ExtensibleDocument, Windows]:
        """Return the loads that this broker knows, and the averages of bundles (short- and long-term) that the
        pipeline, a separate program, published. The averages are empty while decisions do not use the pipeline.
        """
        published = await self._parts.load_data.published()
        known = ExtensibleDocument(
            loads=self._parts.load_data.loads(),
            top_bundles=self._parts.load_data.tops(),
            lookups=await self._parts.load_data.lookups(),
            owners=dict(self._parts.load_data.owners()),
            traffic=self._traffic(published),
        )
        if published is None:
            return known, NO_WINDOWS
        windows = windows_of_owners(known, published.bundles)
        await asyncio.sleep(0)  # with many bundles this step is as long as the next one
        return known, windows

    def _traffic(self, published: Published | None) -> TrafficFigures:
        if published is not None:
            return TrafficFigures.WINDOWS
        return TrafficFigures.LATE if self._parts.load_data.uses_pipeline else TrafficFigures.NEWEST

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the snapshot on which this broker would decide now, as a document for a file or the REST API."""
        config = self._parts.context.config.current
        known, windows = await self._known()
        by_windows = known.traffic is TrafficFigures.WINDOWS
        return SnapshotDocument(
            taken_at=self._parts.context.env.clock.now_ms(),
            brokers={},
            bundle_data=dict(windows.bundles) if by_windows else None,
            broker_data=dict(windows.brokers) if by_windows else None,
            extensible=known,
            recently_unloaded=dict(self._recently_unloaded),
            policies=PoliciesDocument.of(self._parts.context.policies.current),
            memory=self._shedding_memory.document(shedder_of(config, _KIND)),
            configuration=balancing_configuration(config),
        )

    async def snapshot(self) -> LoadSnapshot:
        """Return a snapshot of all known loads, with the anti-affinity groups of all bundles."""
        known, windows = await self._known()
        namespaces = sorted({namespace_of(bundle) for bundle in known.owners})
        for namespace in namespaces:
            await self._parts.context.policies.learn_groups(namespace, lambda: namespaces)
        return self._built(known, windows)

    def _built(self, known: ExtensibleDocument, windows: Windows = NO_WINDOWS) -> LoadSnapshot:
        return build_extensible_snapshot(
            known.loads,
            known.top_bundles,
            known.lookups,
            known.owners,
            taken_at_ms=self._parts.context.env.clock.now_ms(),
            recently_unloaded=self._recently_unloaded,
            policies=self._parts.context.policies.current,
            traffic=known.traffic,
            windows=windows,
        )

    async def snapshot_to_place(self, namespace: str) -> LoadSnapshot:
        """Return a snapshot for choosing the owner of a bundle of `namespace`. The snapshot contains bundles and their
        owners only if the namespace is in an anti-affinity group.

        In a snapshot without bundles, averages of brokers that come from the pipeline (the separate program that
        publishes averages) are used as they were published. They are not computed again from the bundles that the
        brokers own now.
        """
        policies = self._parts.context.policies
        await policies.refresh(namespace)
        await policies.learn_groups(namespace, tuple)
        if namespace in policies.current.groups:
            return await self.snapshot()
        generation, published = self._parts.load_data.generation, await self._parts.load_data.published()
        before = self._brokers
        is_known = before is not None and before[0] == generation and before[1] is published
        if before is None or not is_known or before[2].policies is not policies.current:
            known = ExtensibleDocument(
                loads=self._parts.load_data.loads(),
                lookups=await self._parts.load_data.lookups(),
                traffic=self._traffic(published),
            )
            windows = NO_WINDOWS if published is None else Windows(brokers=published.averages)
            before = self._brokers = (generation, published, self._built(known, windows))
        return before[2]

    # ---- placement ----

    async def select(self, bundle: Bundle, without: Collection[str]) -> Placement | None:
        """Choose an owner for a bundle, but none of the brokers `without`. The result is None, or a placement with
        `broker` None, if no broker qualifies.
        """
        config = self._parts.context.config.current
        # Read before the registrations: a broker that left is in neither.
        leaving = await self._parts.load_data.leaving()
        snapshot = await self.snapshot_to_place(str(bundle.namespace))
        request = PlacementRequest(str(bundle), self._parts.context.bundles.has_non_persistent_topic(bundle))
        placement, self._selection_memory = select_broker_extensible(
            snapshot,
            request,
            ExtensibleFilterSettings.of(config),
            placer_of(config, _KIND),
            self._parts.context.env.random,
            self._selection_memory,
            without={*without, *leaving},
        )
        self._parts.executor.log_placement(placement)
        self._parts.metrics.assigned("Failure" if placement.broker is None else "Success")
        return placement if placement.broker is not None else None

    # ---- shedding ----

    async def shed(self) -> None:
        """As leader, unload bundles from the most loaded brokers. The strategy's plan names the next owner of each."""
        config, now_ms = self._parts.context.config.current, self._parts.context.env.clock.now_ms()
        if not (
            self._parts.context.is_leader() and config.load_balancer_enabled and config.load_balancer_shedding_enabled
        ):
            return
        oldest_ms = now_ms - config.load_balancer_shedding_grace_period_minutes * 60_000
        self._recently_unloaded = {name: at for name, at in self._recently_unloaded.items() if at >= oldest_ms}
        try:
            shedder, selection = shedder_of(config, _KIND), FilteredSelection.of(config, _KIND)
        except StrategyError as error:  # the key was set while the broker ran
            log.error("shedding_strategy_refused", reason=str(error))
            return
        if len(self._parts.context.registration.brokers) < 2:
            self._parts.executor.log_round(Reason(code=Code.TOO_FEW_BROKERS, strategy=shedder.name))
            return
        snapshot = await self.snapshot()
        plan, memory = shed(shedder, snapshot, self._shedding_memory.of(shedder))
        self._shedding_memory = self._shedding_memory.then(shedder, memory)
        self._parts.executor.log_round(plan.reason)
        if plan.usage_spread is not None:
            self._parts.metrics.usage_stats(*plan.usage_spread)
        destinations = selection.destinations(plan, snapshot, self._selection_memory, self._parts.context.env.random)

        async def unload(unload: Unload) -> UnloadOutcome:
            if not await self._parts.executor.unload(unload, unload.destination):
                return UnloadOutcome(False)
            at_ms = self._parts.context.env.clock.now_ms()
            self._recently_unloaded[unload.bundle] = at_ms
            memory = shedder.unloaded(unload, at_ms, self._shedding_memory.of(shedder))
            self._shedding_memory = self._shedding_memory.then(shedder, memory)
            return UnloadOutcome(True)

        unloaded = await carry_out_round(
            moves(plan, destinations, shedder), self._parts.executor, unload, may_continue=self._parts.context.is_leader
        )
        self._selection_memory = destinations.memory
        self._count(unloaded, plan.reason)

    def _count(self, unloaded: Sequence[Unload], why: Reason) -> None:
        brokers = {unload.source: unload.reason.code for unload in unloaded}
        reasons = Counter(("Success", UNLOAD_REASONS.get(code, "Unknown")) for code in brokers.values())
        if not brokers:
            reasons[("Skip", UNLOAD_REASONS.get(why.code, "Unknown"))] += 1
        self._parts.metrics.unloaded(brokers=len(brokers), bundles=len(unloaded), reasons=reasons)

    # ---- splitting ----

    async def split_own(self) -> None:
        """Split this broker's bundles that have been too large for the configured time."""
        config = self._parts.context.config.current
        if not (config.load_balancer_enabled and config.load_balancer_auto_bundle_split_enabled):
            return
        splitter = splitter_of(config, _KIND)
        snapshot = self._own_snapshot()
        remembered = self._splitting_memory.of(splitter)
        wanted: set[str] = set()

        def note_bundle(bundle: str) -> Sequence[int]:
            wanted.add(bundle)
            return ()

        splitter.decide(snapshot, {}, note_bundle, remembered)  # finds the bundles whose boundaries are needed
        cuts = {bundle: await self._parts.context.boundaries(bundle) for bundle in sorted(wanted)}
        decided = [remembered]

        def plan(counts: Mapping[str, int]) -> SplitPlan:
            found, decided[0] = splitter.decide(snapshot, counts, lambda bundle: cuts.get(bundle, ()), remembered)
            return found

        splits = await self._parts.executor.counted_splits(plan)
        self._splitting_memory = self._splitting_memory.then(splitter, decided[0])
        for split in list(splits):
            await self._parts.executor.split(split, unload=_keep_children)

    def _own_snapshot(self) -> LoadSnapshot:
        """Return a snapshot that has only this broker, with all its bundles."""
        me, stats = self._parts.context.urls.broker_id, self._parts.stats()
        known = ExtensibleDocument(
            loads={me: BrokerLoadData()},
            top_bundles={me: TopBundlesLoadData(tuple(BundleLoadData(name, found) for name, found in stats.items()))},
            lookups={me: BrokerLookupData(load_manager_class_name=_KIND.class_name)},
            owners=dict.fromkeys(stats, me),
        )
        return self._built(known)
