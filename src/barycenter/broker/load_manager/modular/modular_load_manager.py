"""The modular load manager: every broker reports, the leader assigns, sheds and splits.

It gathers a snapshot, asks the pure functions of `barycenter.load`, and has the answer carried out by the bundle's
owner, asking at each step whether this broker still leads. Decisions and refusals go to the decision log.

Differences from Pulsar, each told where it is made: one sample per load report (`load.windows`); a bundle on its way
keeps its history and counts for its destination until that reports it (`load_picture`), also one that was shed.

Source: Pulsar's `ModularLoadManagerImpl` and `ModularLoadManagerWrapper` (4.x).
"""

import asyncio
import heapq
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from barycenter.broker.load_manager.decision_executor import Orders
from barycenter.broker.load_manager.environment import LoadInstruments
from barycenter.broker.load_manager.load_data_watch import PictureWatch
from barycenter.broker.load_manager.metrics import LoadMetrics
from barycenter.broker.load_manager.modular.load_data import (
    BROKER_AVERAGES_ROOT,
    BUNDLE_DATA_ROOT,
    LoadPicture,
    PipelineState,
)
from barycenter.broker.load_manager.reporting.load_reporter import LoadReporter
from barycenter.load.decisions import Placement, Split, Unload
from barycenter.load.reasons import Code, Reason
from barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    TimeAverageBrokerData,
    bundle_data_rank,
    default_bundle_data,
)
from barycenter.load.strategy_names import ManagerKind, StrategyError, placer_name, shedder_name
from barycenter.logs.decision_log import DecisionLog
from barycenter.metadata.errors import MetadataError, NotFoundError
from barycenter.naming.bundle import Bundle

if TYPE_CHECKING:
    from barycenter.broker.load_manager.contract import LoadManagerContext
    from barycenter.load.filters.outcome import PlacementRequest
    from barycenter.load.selection.modular_selection import SelectionMemory
    from barycenter.load.snapshot.document import SnapshotDocument
    from barycenter.load.snapshot.load_snapshot import LoadSnapshot

log = structlog.get_logger(__name__)

_WRITES_AT_ONCE: Final = 64
_RANKED_AT_ONCE: Final = 2_000


class ModularLoadManager:
    """One broker's load manager; see `LoadManager` for the calls that the broker makes."""

    is_centralized = True

    def __init__(self, context: "LoadManagerContext", instruments: LoadInstruments | None = None) -> None:
        """`instruments` are those of the machine unless given.

        Raises:
            StrategyError: the configuration names a strategy that there is not, or two that do not go together.
        """
        placer_name(context.config.current, ManagerKind.MODULAR)
        shedder_name(context.config.current, ManagerKind.MODULAR)
        self._context = context
        self._instruments = instruments or LoadInstruments.of_machine(context)
        self._reporter = LoadReporter(context, self._instruments.meter, self._instruments.report_log)
        self._picture = LoadPicture(context, self._instruments.pipeline)
        self.metrics = LoadMetrics(context.config.current.cluster_name, context.urls.broker_id)
        self._orders = Orders(context, self._instruments.decisions, self.metrics)
        self._watch = PictureWatch(context.registration, self._refresh, lambda: self._picture.brokers)
        self._selecting = asyncio.Lock()
        self._selection_memory: SelectionMemory | None = None
        self._shedding_memory: object = None
        self._shedding_strategy = ""
        self._pipeline_late = False

    # ---- life ----

    async def start(self) -> None:
        """Register this broker with its first report, and begin to watch the others."""
        report = self._reporter.next_report()
        await self._context.registration.register(self._context.urls.broker_id, report)
        self._reporter.wrote(report)
        self.metrics.report(report)
        await self._watch.start(self._begin)

    async def _begin(self) -> None:
        await self._write(f"{BROKER_AVERAGES_ROOT}/{self._context.urls.broker_id}", TimeAverageBrokerData())
        await self._refresh()

    async def disable(self) -> None:
        """Remove the registration. Idempotent."""
        await self._context.registration.unregister()

    async def stop(self) -> None:
        """End every task; disables first. Idempotent."""
        await self._watch.close()
        self._reporter.close()
        await self.disable()

    async def _refresh(self) -> None:
        """Bring the picture up to date; on the leader, delete what dead brokers left."""
        gone, forgotten = await self._picture.refresh()
        self._judge_pipeline()
        if self._may_act():
            await _all(
                [
                    *(self._delete(f"{BROKER_AVERAGES_ROOT}/{broker}") for broker in gone),
                    *(self._delete(f"{BUNDLE_DATA_ROOT}/{bundle}") for bundle in forgotten),
                ]
            )

    async def _current_picture(self) -> LoadPicture:
        """Return the picture, brought up to date if something changed and the store answers.

        Raises:
            MetadataError: no broker is known, and the store does not answer.
        """
        await self._watch.catch_up(with_every_change=True)
        return self._picture

    # ---- reports ----

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    def load_report(self) -> LocalBrokerData:
        return self._reporter.current()

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish this broker's load if it changed enough or `force`; return whether it was written."""
        written = await self._reporter.write(force=force)
        self.metrics.report(self._reporter.current())
        self._judge_pipeline()
        return written

    @property
    def decisions(self) -> DecisionLog:
        """What this broker decided, for REST."""
        return self._instruments.decisions

    def pipeline_state(self) -> PipelineState:
        return self._picture.pipeline_state()

    def _judge_pipeline(self) -> None:
        """Show whether the pipeline is in use; tell the log once when it becomes late, once when it is back."""
        state = self._picture.pipeline_state()
        self.metrics.pipeline_lag_s.set(state.lag_ms / 1000)
        self.metrics.pipeline_in_use.set(1 if state.in_use else 0)
        if not self._context.is_leader():
            return
        if state.is_late and not self._pipeline_late:
            self._pipeline_late = True
            log.warning("pipeline_late", lag_s=state.lag_ms / 1000, decides_with="the leader's own fold")
        elif state.in_use and self._pipeline_late:
            self._pipeline_late = False
            log.info("pipeline_back", lag_s=state.lag_ms / 1000)

    # ---- placement ----

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose the owner-to-be of an unowned bundle and preallocate it there; None if no broker qualifies."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        name, policies = str(bundle), self._context.policies
        # read outside the lock, or the store's time would add up over all bundles that are being assigned
        await policies.refresh(str(bundle.namespace))
        data = None if self._picture.preallocated_broker(name) else await self._picture.obtain(name)
        async with self._selecting:
            broker = self._picture.preallocated_broker(name)
            if broker is not None and await self._is_allowed(bundle, broker):
                return Placement(name, broker, Reason(code=Code.PREALLOCATED, subject=broker))
            placement = self._select(name, await self._snapshot_for(str(bundle.namespace)))
            if placement.broker is not None:
                self._picture.preallocate(name, placement.broker, data or default_bundle_data())
        self.metrics.assigned(loop.time() - started)
        self._orders.tell_placement(placement)
        return placement if placement.broker is not None else None

    async def _is_allowed(self, bundle: Bundle, broker: str) -> bool:
        """Tell whether policies, which may be newer than the choice of `broker`, still let it serve the bundle."""
        from barycenter.load.filters.namespace_policies import policy_candidates

        if not self._context.policies.current.isolation:
            return True
        snapshot = await self._snapshot_for(str(bundle.namespace))
        row = snapshot.brokers.index.get(broker)
        return row is not None and bool(policy_candidates(snapshot, self._request_for(str(bundle))).kept[row])

    async def _snapshot_for(self, namespace: str) -> "LoadSnapshot":
        """Return the load as known now, with the anti-affinity groups that placing a bundle of `namespace` needs."""
        picture = await self._current_picture()
        await picture.prepare()
        snapshot = picture.snapshot()
        await self._context.policies.learn_groups(
            namespace, lambda: (*snapshot.namespaces, *snapshot.on_their_way.held)
        )
        return picture.snapshot()

    def _select(self, bundle: str, snapshot: "LoadSnapshot") -> Placement:
        from barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
        from barycenter.load.strategies import placer_of

        config = self._context.config.current
        placement, self._selection_memory = select_broker(
            snapshot,
            self._request_for(bundle),
            SelectionSettings.of(config),
            placer_of(config, ManagerKind.MODULAR),
            self._context.env.random,
            self._selection_memory or SelectionMemory(),
        )
        return placement

    def _request_for(self, bundle: str) -> "PlacementRequest":
        from barycenter.load.filters.outcome import PlacementRequest

        return PlacementRequest(bundle, self._context.bundles.has_non_persistent_topic(Bundle.parse(bundle)))

    # ---- shedding ----

    async def shed(self) -> None:
        """Leader: unload bundles from overloaded brokers, each for a destination chosen beforehand."""
        from barycenter.load.selection.modular_selection import SelectionMemory
        from barycenter.load.strategies import after_plan, with_plan

        config, clock = self._context.config.current, self._context.env.clock
        if not self._may_act() or not (config.load_balancer_enabled and config.load_balancer_shedding_enabled):
            return
        picture = await self._current_picture()
        grace_ms = config.load_balancer_shedding_grace_period_minutes * 60_000
        oldest_ms = clock.now_ms() - grace_ms
        picture.recently_unloaded = {name: at for name, at in picture.recently_unloaded.items() if at >= oldest_ms}
        picture.changed()
        if len(self.available_brokers()) < 2:
            self._orders.tell_round(Reason(code=Code.TOO_FEW_BROKERS))
            return
        await picture.prepare()
        try:
            plan = self._plan_shedding(picture.snapshot())
        except StrategyError as error:  # set while the broker ran
            log.error("shedding_strategy_refused", reason=str(error))
            return
        self._orders.tell_round(plan.reason)
        self._selection_memory = with_plan(self._selection_memory or SelectionMemory(), plan)
        shed_from: set[str] = set()
        bundles = 0
        for unload in plan:
            if not self._may_act():
                break
            if await self._carry_out_unload(unload):
                shed_from.add(unload.source)
                bundles += 1
        self._selection_memory = after_plan(self._selection_memory, plan)
        self.metrics.unloaded(brokers=len(shed_from), bundles=bundles)

    def _plan_shedding(self, snapshot: "LoadSnapshot") -> Any:
        """Return the shedder's plan; a shedder that was just configured starts without memory."""
        from barycenter.load.strategies import shedder_of

        config = self._context.config.current
        if config.load_balancer_load_shedding_strategy != self._shedding_strategy:
            self._shedding_strategy, self._shedding_memory = config.load_balancer_load_shedding_strategy, None
        plan, self._shedding_memory = shedder_of(config, ManagerKind.MODULAR)(snapshot, self._shedding_memory)
        return plan

    async def _carry_out_unload(self, unload: Unload) -> bool:
        """Unload one bundle unless something speaks against it; return whether it was unloaded."""
        refusal, destination = await self._destination_of(unload)
        if destination is None:
            self._orders.refuse("unload", unload.bundle, unload.source, refusal)
            return False
        if not await self._orders.unload(unload, destination.broker):
            return False
        self._after_unload(unload, destination)
        return True

    async def _destination_of(self, unload: Unload) -> tuple[Reason, Placement | None]:
        """Return where the bundle shall go, or why it stays."""
        from barycenter.load.cycle.round import Selection, choose_destination
        from barycenter.load.selection.modular_selection import SelectionMemory

        found, self._selection_memory = choose_destination(
            unload,
            await self._snapshot_for(unload.bundle.rpartition("/")[0]),
            self._request_for(unload.bundle),
            Selection.of(self._context.config.current),
            self._context.env.random,
            self._selection_memory or SelectionMemory(),
        )
        return found.reason, found if isinstance(found, Placement) else None

    def _after_unload(self, unload: Unload, destination: Placement) -> None:
        assert destination.broker is not None
        picture = self._picture
        picture.recently_unloaded[unload.bundle] = self._context.env.clock.now_ms()
        data = picture.bundle_data().get(unload.bundle)
        if data is not None:
            picture.preallocate(unload.bundle, destination.broker, data)

    async def snapshot_document(self) -> "SnapshotDocument":
        """Return what this broker would decide upon now, for files and REST."""
        from barycenter.load.cycle.shedding_memory import memory_document

        picture = await self._current_picture()
        await picture.prepare()
        return picture.document(memory_document(self._shedding_memory))

    # ---- splitting ----

    async def check_splits(self) -> None:
        """Leader: split bundles that grew too large."""
        config = self._context.config.current
        if not self._may_act() or not (config.load_balancer_enabled and config.load_balancer_auto_bundle_split_enabled):
            return
        if len(self.available_brokers()) < 2:
            return
        picture = await self._current_picture()
        await picture.prepare()
        for split in await self._plan_splits(picture.snapshot()):
            if not self._may_act():
                return
            await self._carry_out_split(split)

    async def _plan_splits(self, snapshot: "LoadSnapshot") -> list[Split]:
        from barycenter.load.splitting.bundle_splitter import BundleSplitterSettings, bundle_splitter

        settings = BundleSplitterSettings.of(self._context.config.current)
        plan = await self._orders.counted_splits(lambda counts: bundle_splitter(snapshot, settings, counts))
        return list(plan)

    async def _carry_out_split(self, split: Split) -> None:
        if not await self._orders.split(split, unload=partial(self._children_may_leave, split)):
            return
        self._picture.forget_bundle(split.bundle)
        with suppress(NotFoundError):
            await self._context.env.store.delete(f"{BUNDLE_DATA_ROOT}/{split.bundle}")

    async def _children_may_leave(self, split: Split) -> bool:
        from barycenter.load.selection.unload_veto import unload_veto

        if len(self.available_brokers()) < 2:
            return False
        snapshot = await self._snapshot_for(split.bundle.rpartition("/")[0])
        veto = unload_veto(snapshot, self._request_for(split.bundle), split.broker)
        if veto is not None:
            self._orders.refuse("unload", split.bundle, split.broker, msgspec.structs.replace(veto, cause=split.reason))
        return veto is None

    # ---- what is stored ----

    async def write_resource_quotas(self) -> None:
        """Leader: store bundle data and broker time averages."""
        if not self._may_act():
            return
        await self._watch.refresh()
        await self._picture.prepare()
        data = dict(self._picture.bundle_data())
        heaviest = await self._to_store(data)
        writes = [self._write(f"{BUNDLE_DATA_ROOT}/{name}", data[name]) for name in heaviest]
        averages = self._picture.averages(data)
        writes += [self._write(f"{BROKER_AVERAGES_ROOT}/{broker}", each) for broker, each in averages.items()]
        await _all(writes)

    async def _to_store(self, data: dict[str, BundleData]) -> list[str]:
        """Return the bundles worth storing: the heaviest, so many a broker (of equals the first by name), or all."""
        config, bundles = self._context.config.current, self._picture.snapshot().bundles
        excluded = config.load_balancer_shedding_excluded_namespaces
        each = config.load_balancer_max_number_of_bundles_in_bundle_load_report
        names = [name for name in dict.fromkeys(compress(bundles.names, bundles.sampled)) if name in data]
        if each <= 0:
            return [name for name in names if name.rpartition("/")[0] not in excluded]
        limit = each * max(1, len(self._picture.brokers))
        heaviest: list[tuple[object, int]] = []
        for start in range(0, len(names), _RANKED_AT_ONCE):
            rows = range(start, min(start + _RANKED_AT_ONCE, len(names)))
            ranked = ((bundle_data_rank(data[names[row]]), -row) for row in rows)
            heaviest = heapq.nlargest(limit, chain(heaviest, ranked))
            await asyncio.sleep(0)
        return [names[-row] for _, row in heaviest]

    async def _write(self, path: str, value: object) -> None:
        await self._context.env.store.put(path, msgspec.json.encode(value))

    async def _delete(self, path: str) -> None:
        with suppress(NotFoundError):
            await self._context.env.store.delete(path)

    # ---- both ----

    def _may_act(self) -> bool:
        return self._context.is_leader()


async def _all(operations: list[Coroutine[Any, Any, None]]) -> None:
    """Carry the operations out, some at once; one that fails is logged and does not keep the others."""
    for start in range(0, len(operations), _WRITES_AT_ONCE):
        for result in await asyncio.gather(*operations[start : start + _WRITES_AT_ONCE], return_exceptions=True):
            if isinstance(result, MetadataError):
                log.warning("load_data_not_stored", reason=str(result))
            elif isinstance(result, BaseException):
                raise result
