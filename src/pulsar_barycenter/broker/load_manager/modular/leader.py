"""The leader's part of the modular load manager: it assigns, sheds, splits, and stores bundle data and averages.

It makes a snapshot, calls the pure functions of `load`, and has the bundles' owners carry out the result. Before each
step it checks that this broker is still the leader. Decisions and refusals go to the decision log.

It needs numpy; a broker imports it when it becomes leader.
Source: Pulsar's `ModularLoadManagerImpl` (`selectBrokerForAssignment`, `doLoadShedding`, `checkNamespaceBundleSplit`,
`writeBundleDataOnZooKeeper`).
"""

import asyncio
import heapq
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec
import structlog

from pulsar_barycenter.broker.load_manager.modular.leader_parts import LeaderParts
from pulsar_barycenter.broker.load_manager.modular.load_data import BROKER_AVERAGES_ROOT, BUNDLE_DATA_ROOT
from pulsar_barycenter.broker.load_manager.modular.snapshots import Snapshots
from pulsar_barycenter.broker.load_manager.round_driver import carry_out_round
from pulsar_barycenter.broker.load_manager.store_writes import all_of
from pulsar_barycenter.load.decisions import Placement, Split, Unload
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind, StrategyError
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    bundle_data_rank,
    default_bundle_data,
)
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.rounds.round import UnloadOutcome, moves
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.selection.unload_veto import unload_veto
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.load_snapshot import BundleTable, LoadSnapshot, namespace_of
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.load.strategies import shedder_of, splitter_of
from pulsar_barycenter.load.strategy import NOTHING_REMEMBERED, MemoryDocument
from pulsar_barycenter.metadata.errors import NotFoundError
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

_RANKED_IN_ONE_STEP: Final = 1_000


class ModularLeader:
    """Makes the decisions of the leader for the load manager of one broker: which broker gets a bundle, and which
    bundles are unloaded or split.
    """

    def __init__(self, parts: LeaderParts) -> None:
        self._parts = parts
        self.snapshots = Snapshots(parts.context, parts.load_data)
        self._selecting = asyncio.Lock()
        self.selection_memory = SelectionMemory()
        self._shedding_memory = NOTHING_REMEMBERED

    # ---- snapshots ----

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the snapshot on which this broker would decide now, as a document for a file or the REST API."""
        await self._snapshot()
        try:
            memory = self._shedding_memory.document(shedder_of(self._parts.context.config.current, ManagerKind.MODULAR))
        except StrategyError:  # the key was set while the broker ran
            memory = MemoryDocument()
        return self._parts.load_data.document(memory)

    async def _snapshot(self) -> LoadSnapshot:
        """Return a snapshot of the present load. If something changed since the last snapshot, the load data is read
        again first; if the store does not answer, the snapshot is made from what is known.

        Raises:
            MetadataError: no broker is known, and the store does not answer.
        """
        await self._parts.watch.catch_up(with_every_change=True)
        return await self.snapshots.current()

    async def _snapshot_for(self, *namespaces: str) -> LoadSnapshot:
        """Return a snapshot of the present load, with the anti-affinity groups that are needed to assign bundles of
        `namespaces`.
        """
        snapshot = await self._snapshot()
        for namespace in namespaces:
            await self._parts.context.policies.learn_groups(
                namespace, lambda: (*snapshot.namespaces, *snapshot.on_their_way.arriving)
            )
        return await self.snapshots.current()

    def _request_for(self, bundle: str) -> PlacementRequest:
        return PlacementRequest(bundle, self._parts.context.bundles.has_non_persistent_topic(Bundle.parse(bundle)))

    # ---- placement ----

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose an owner for a bundle that has none, and add the load of the bundle to this owner's load until a load
        report contains the bundle. The result is None, or a placement with `broker` None, if no broker qualifies.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        name, policies = str(bundle), self._parts.context.policies
        # outside of the lock: else the store's latency would add up over all bundles that are being assigned
        await policies.refresh(str(bundle.namespace))
        data = None if self._parts.load_data.preallocated_broker(name) else await self._parts.load_data.obtain(name)
        async with self._selecting:
            broker = self._parts.load_data.preallocated_broker(name)
            if broker is not None and await self._is_allowed(bundle, broker):
                return Placement.because(Reason(code=Code.PREALLOCATED, subject=broker), name, broker)
            placement = self._select(name, await self._snapshot_for(str(bundle.namespace)))
            if placement.broker is not None:
                self.snapshots.preallocate(name, placement.broker, data or default_bundle_data())
        self._parts.metrics.assigned(loop.time() - started)
        self._parts.executor.log_placement(placement)
        return placement if placement.broker is not None else None

    async def _is_allowed(self, bundle: Bundle, broker: str) -> bool:
        """Return whether the present policies allow `broker` to serve the bundle; they may have changed since `broker`
        was chosen.
        """
        if not self._parts.context.policies.current.narrows:
            return True
        snapshot = await self._snapshot_for(str(bundle.namespace))
        row = snapshot.brokers.index.get(broker)
        return row is not None and bool(policy_candidates(snapshot, self._request_for(str(bundle))).kept[row])

    def _select(self, bundle: str, snapshot: LoadSnapshot) -> Placement:
        """Choose an owner by the brokers' loads. If no load report is known, choose from the registered brokers."""
        selection = FilteredSelection.of(self._parts.context.config.current)
        is_blind = not len(snapshot.brokers) and bool(self._parts.context.registration.brokers)
        if is_blind:
            snapshot = self._registered_only()
        placement, self.selection_memory = selection.choose(
            snapshot, self._request_for(bundle), self._parts.context.env.random, self.selection_memory
        )
        if not is_blind:
            return placement
        reason = placement.reason
        flags = ("no load report is known, so all registered brokers count as idle", *reason.flags)
        return Placement.because(msgspec.structs.replace(reason, flags=flags), bundle, placement.broker)

    def _registered_only(self) -> LoadSnapshot:
        """Return a snapshot of the registered brokers, with their policies but without any load and bundles."""
        blank = LocalBrokerData(load_manager_class_name=ManagerKind.MODULAR.class_name)
        snapshot = build_snapshot(dict.fromkeys(self._parts.context.registration.brokers, blank), {}, {})
        return replace(snapshot, policies=self._parts.context.policies.current)

    # ---- shedding ----

    async def shed(self) -> None:
        """As leader, unload bundles from overloaded brokers, one after the other. Choose the next owner of each bundle
        before its unload.
        """
        config, load_data = self._parts.context.config.current, self._parts.load_data
        if not self._may_act() or not (config.load_balancer_enabled and config.load_balancer_shedding_enabled):
            return
        await self._parts.watch.catch_up(with_every_change=True)
        oldest_ms = self._parts.context.env.clock.now_ms() - config.load_balancer_shedding_grace_period_minutes * 60_000
        load_data.recently_unloaded = {name: at for name, at in load_data.recently_unloaded.items() if at >= oldest_ms}
        load_data.changed()
        try:
            shedder = shedder_of(config, ManagerKind.MODULAR)
            selection = FilteredSelection.of(config)
        except StrategyError as error:  # the key was set while the broker ran
            log.error("shedding_strategy_refused", reason=str(error))
            return
        if len(self._parts.context.registration.brokers) < 2:
            self._parts.executor.log_round(Reason(code=Code.TOO_FEW_BROKERS, strategy=shedder.name))
            return
        snapshot = replace(await self._snapshot(), taken_at_ms=self._parts.context.env.clock.now_ms())
        plan, memory = shed(shedder, snapshot, self._shedding_memory.of(shedder))
        self._shedding_memory = self._shedding_memory.then(shedder, memory)
        self._parts.executor.log_round(plan.reason)
        await self._carry_out(plan, shedder, selection)

    async def _carry_out(self, plan: SheddingPlan, shedder: Shedder[Any], selection: FilteredSelection) -> None:
        """Unload the bundles of the plan one after the other. The next owner of a bundle is chosen just before its
        unload, by the loads at that moment.
        """
        namespaces = {namespace_of(plan.snapshot.bundles.names[row]) for row in plan.rows.tolist()}
        snapshot = await self._snapshot_for(*sorted(namespaces))
        destinations = selection.destinations(
            plan, snapshot, self.selection_memory, self._parts.context.env.random, self._request_for
        )
        unloaded = await carry_out_round(
            moves(plan, destinations, shedder), self._parts.executor, self._unload, may_continue=self._may_act
        )
        self.selection_memory = destinations.memory
        self._parts.metrics.unloaded(brokers=len({unload.source for unload in unloaded}), bundles=len(unloaded))

    async def _unload(self, unload: Unload) -> UnloadOutcome:
        """Make the owner unload a bundle. After a success, snapshots count the bundle as a bundle of its new owner
        (`unload.destination`), until a load report contains the bundle.
        """
        load_data = self._parts.load_data
        if not await self._parts.executor.unload(unload, unload.destination):
            return UnloadOutcome(False)
        assert unload.destination is not None
        load_data.recently_unloaded[unload.bundle] = self._parts.context.env.clock.now_ms()
        data = load_data.known(unload.bundle)
        if data is not None:
            self.snapshots.preallocate(unload.bundle, unload.destination, data)
        return UnloadOutcome(True, await self._snapshot())

    # ---- splitting ----

    async def check_splits(self) -> None:
        """Split bundles that are too large, as leader."""
        config = self._parts.context.config.current
        if not self._may_act() or not (config.load_balancer_enabled and config.load_balancer_auto_bundle_split_enabled):
            return
        if len(self._parts.context.registration.brokers) < 2:
            return
        snapshot, splitter = await self._snapshot(), splitter_of(config, ManagerKind.MODULAR)
        plan = await self._parts.executor.counted_splits(
            lambda counts: splitter.decide(snapshot, counts, no_boundaries, None)[0]
        )
        for split in list(plan):
            if not self._may_act():
                return
            await self._carry_out_split(split)

    async def _carry_out_split(self, split: Split) -> None:
        epoch, may_leave = self._parts.context.leader_epoch(), partial(self._children_may_leave, split)
        if not await self._parts.executor.split(split, unload=may_leave, epoch=epoch):
            return
        self._parts.load_data.forget_bundle(split.bundle)
        with suppress(NotFoundError):
            await self._parts.context.leader_store.delete(f"{BUNDLE_DATA_ROOT}/{split.bundle}")

    async def _children_may_leave(self, split: Split) -> bool:
        if len(self._parts.context.registration.brokers) < 2:
            return False
        snapshot = await self._snapshot_for(namespace_of(split.bundle))
        veto = unload_veto(snapshot, self._request_for(split.bundle), split.broker)
        if veto is not None:
            reason = msgspec.structs.replace(veto, cause=split.reason)
            self._parts.executor.refuse("unload", split.bundle, split.broker, reason)
        return veto is None

    # ---- what is stored ----

    async def write_resource_quotas(self) -> None:
        """As leader, store the averages of the loads of bundles and brokers in the metadata store."""
        if not self._may_act():
            return
        await self._parts.watch.refresh()
        bundles = (await self._snapshot()).bundles
        data, averages = (
            self._parts.load_data.bundle_data(self._parts.load_data.pipeline.published()),
            self.snapshots.averages,
        )
        heaviest = await self._to_store(bundles, data)
        await all_of(
            chain(
                (self._write(f"{BUNDLE_DATA_ROOT}/{name}", data[name]) for name in heaviest),
                (self._write(f"{BROKER_AVERAGES_ROOT}/{broker}", average) for broker, average in averages.items()),
            )
        )

    async def _to_store(self, bundles: BundleTable, data: Mapping[str, BundleData]) -> list[str]:
        """Return the names of the bundles whose averages have to be stored. If
        `loadBalancerMaxNumberOfBundlesInBundleLoadReport` is set, these are the bundles of the cluster with the highest
        load, heaviest first; their number is that value multiplied by the number of brokers. Otherwise, these are all
        bundles except those of namespaces that balancing excludes.
        """
        config = self._parts.context.config.current
        excluded = config.load_balancer_shedding_excluded_namespaces
        per_broker = config.load_balancer_max_number_of_bundles_in_bundle_load_report
        limit = per_broker * max(1, len(self._parts.load_data.brokers)) if per_broker > 0 else 0
        kept: list[str] = []
        heaviest: list[tuple[tuple[tuple[int, int, int], tuple[int, int, int]], int, str]] = []
        before = ""
        for start in range(0, len(bundles), _RANKED_IN_ONE_STEP):
            await asyncio.sleep(0)
            rows = range(start, min(start + _RANKED_IN_ONE_STEP, len(bundles)))
            batch = []
            for row, is_sampled in zip(rows, bundles.sampled[start : rows.stop].tolist(), strict=True):
                name = bundles.names[row]
                if is_sampled and name != before and name in data:  # a bundle that two brokers report has two rows
                    batch.append((row, name))
                    before = name
            if not limit:
                kept += [name for _, name in batch if namespace_of(name) not in excluded]
                continue
            for row, name in batch:
                add = heapq.heappush if len(heaviest) < limit else heapq.heappushpop
                add(heaviest, (bundle_data_rank(data[name]), -row, name))
        return [name for _, _, name in sorted(heaviest, reverse=True)] if limit else kept

    async def _write(self, path: str, value: object) -> None:
        if self._may_act():
            await self._parts.context.leader_store.put(path, msgspec.json.encode(value))

    def _may_act(self) -> bool:
        return self._parts.context.is_leader()
