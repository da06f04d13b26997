"""The simple load manager: bundles are placed by quotas, and an overloaded broker sheds one bundle at a time.

| what | who |
|---|---|
| report, then check whether its own bundles have to be split | every broker |
| placement | the leader; with `weightedRandomSelection` the broker that gets the look-up |
| shedding, writing quotas | the leader |

The nodes below /loadbalance/settings override the configuration. If shedding is switched off, it runs all the same, and
logs what it would have unloaded.

Source: Pulsar's `SimpleLoadManagerImpl` (4.2). Differences are described where they are made: in `load.simple`, the
load data and the reporter; and `loadBalancerSheddingExcludedNamespaces` also applies here.
"""

import asyncio
from typing import Final

import structlog

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.load_data_watch import LoadDataWatch
from pulsar_barycenter.broker.load_manager.round_driver import carry_out_round
from pulsar_barycenter.broker.load_manager.simple.load_data import SimpleLoadData
from pulsar_barycenter.broker.load_manager.simple.metrics import SimpleLoadMetrics
from pulsar_barycenter.broker.load_manager.simple.reporter import SimpleLoadReporter
from pulsar_barycenter.broker.load_manager.simple.settings_watch import SimpleSettingsWatch
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.decisions import Placement, Split, Unload, stays
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, as_local_broker_data
from pulsar_barycenter.load.rounds.round import UnloadOutcome, moves
from pulsar_barycenter.load.rounds.simple_destinations import NextLookup
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.simple.shedding import SimpleShedder
from pulsar_barycenter.load.simple.splitting import SimpleSplitter
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName

log = structlog.get_logger(__name__)

_PAUSE_SHARE: Final = 4.0
"""After learning from reports, wait for this multiple of the time that it took."""


class SimpleLoadManager:
    """The simple load manager of one broker. `LoadManager` says what each method does for the broker."""

    def __init__(self, context: LoadManagerContext, environment: LoadManagerEnvironment | None = None) -> None:
        """`environment` is by default the environment of this machine (`of_machine`)."""
        self._context = context
        self._environment = environment or LoadManagerEnvironment.of_machine(context)
        self.settings = SimpleSettingsWatch(context.leader_store, context.config)
        self.load_data = SimpleLoadData(context, self.settings)
        self.reporter = SimpleLoadReporter(context, self._environment, self.load_data)
        self.metrics = SimpleLoadMetrics(context.config.current.cluster_name, context.urls.broker_id)
        self.executor = DecisionExecutor(context, self._environment.decisions, self.metrics, ManagerKind.SIMPLE)
        self.watch = LoadDataWatch(
            context.registration,
            self._refresh,
            lambda: self.load_data.brokers,
            self.metrics.unreported.set,
            pause_share=_PAUSE_SHARE,
        )
        self._splitting = False

    @property
    def is_centralized(self) -> bool:
        """Whether only the leader assigns bundles. This depends on the placement strategy that is configured now."""
        return self.settings.current.is_centralized

    # ---- life ----

    async def start(self) -> None:
        """Register this broker with its first load report, and begin to read the reports of the other brokers."""
        await self.settings.start()
        report = self.reporter.next_report(self.settings.current)
        await self._context.registration.register(self._context.urls.broker_id, report)
        self.reporter.wrote(report)
        self.metrics.report(as_local_broker_data(report))
        await self.watch.start(self._begin)

    async def disable(self) -> None:
        """Remove the registration of this broker. Idempotent."""
        await self._context.registration.unregister()

    async def stop(self) -> None:
        """End every task and remove the registration. Idempotent."""
        await self.watch.close()
        await self.settings.close()
        self.reporter.close()
        self.load_data.close()
        await self.disable()

    async def _begin(self) -> None:
        await self.load_data.begin()
        self.metrics.ranked(self.load_data.ranking)

    async def _refresh(self) -> None:
        await self.load_data.refresh()
        self.metrics.ranked(self.load_data.ranking)

    async def _current_load_data(self) -> SimpleLoadData:
        """Return the load data of the last reports. Read the reports first if none is known, or if a broker in them has
        left the cluster.

        Brokers that left must not be in the data when an owner is chosen: they would be counted as brokers that
        policies allow and to which bundles are distributed.

        Raises:
            MetadataError: no report is known, and the store does not answer.
        """
        await self.watch.catch_up(with_every_change=False)
        return self.load_data

    # ---- reports ----

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    def load_report(self) -> LoadReport:
        return self.reporter.current(self.settings.current)

    @property
    def decisions(self) -> DecisionLog:
        """The decisions of this broker, for REST."""
        return self._environment.decisions

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish this broker's load if it changed enough, or if `force`; return whether it was published. After it was
        published, make this broker split those of its bundles that are too large.
        """
        written = await self.reporter.write(self.settings.current, force=force)
        report = self.reporter.written
        if not written or report is None:
            return False
        self.metrics.report(as_local_broker_data(report))
        if not self._splitting:  # a split writes a report, too
            self._splitting = True
            try:
                with self._context.env.instruments.round("split"):
                    await self._split_own(report)
            finally:
                self._splitting = False
        return True

    # ---- placement ----

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose an owner for a bundle that has none. The result is None, or a placement with `broker` None, if no
        broker qualifies.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        await self._context.policies.refresh(str(bundle.namespace))
        load_data = await self._current_load_data()
        await load_data.learn([str(bundle)])
        placement = load_data.select(self._request_for(bundle))  # it awaits nothing, so it needs no lock
        self.metrics.assigned(loop.time() - started)
        if placement.reason.code is not Code.PREALLOCATED:
            self.executor.log_placement(placement)
        return placement if placement.broker is not None else None

    async def resource_availability(self, namespace: NamespaceName) -> dict[int, list[str]]:
        """Return the ids of the brokers that may serve a namespace, by rank, lowest rank first."""
        await self._context.policies.refresh(str(namespace))
        return (await self._current_load_data()).availability(str(namespace))

    def _request_for(self, bundle: Bundle) -> PlacementRequest:
        return PlacementRequest(str(bundle), self._context.bundles.has_non_persistent_topic(bundle))

    # ---- shedding ----

    async def shed(self) -> None:
        """As leader, unload at most one bundle from each overloaded broker. After that the bundle has no owner, and its
        next look-up assigns one.
        """
        config, now_ms = self._context.config.current, self._context.env.clock.now_ms()
        if not self._may_act() or not config.load_balancer_enabled:
            return
        load_data = await self._current_load_data()
        oldest_ms = now_ms - config.load_balancer_shedding_grace_period_minutes * 60_000
        load_data.recently_unloaded = {name: at for name, at in load_data.recently_unloaded.items() if at >= oldest_ms}
        snapshot, excluded = load_data.snapshot(), config.load_balancer_shedding_excluded_namespaces
        shedder = SimpleShedder(self.settings.current)
        plan, _ = shed(shedder, snapshot, None)
        self.executor.log_round(plan.reason)
        for refusal in plan.refusals():
            if refusal.reason.code in (Code.NONE_COMFORTABLE, Code.RECENTLY_UNLOADED, Code.TOO_FEW_BUNDLES):
                self.executor.refuse("unload", refusal.reason.subject, refusal.subject, refusal.reason)
        steps = moves(plan, NextLookup(snapshot, excluded), shedder)
        unloaded = await carry_out_round(
            steps,
            self.executor,
            self._unload,
            may_continue=self._may_act,
            stays=lambda refusal: self._leave_alone(refusal.subject),
        )
        self.metrics.unloaded(brokers=len(unloaded), bundles=len(unloaded))

    async def _unload(self, unload: Unload) -> UnloadOutcome:
        """Make the owner unload a bundle. If `loadBalancerSheddingEnabled` is false, only log that it would be
        unloaded. In both cases, the bundle is not selected again for `loadBalancerSheddingGracePeriodMinutes`; after a
        failure it may be selected again at once.
        """
        out = False
        if not self._context.config.current.load_balancer_shedding_enabled:
            refusal = stays(unload, Code.DISABLED, settings=("loadBalancerSheddingEnabled",))
            self.executor.refuse("unload", unload.bundle, unload.source, refusal.reason)
        else:
            out = await self.executor.unload(unload, None)
            if not out:
                return UnloadOutcome(False)
        self._leave_alone(unload.bundle)
        return UnloadOutcome(out)

    def _leave_alone(self, bundle: str) -> None:
        self.load_data.recently_unloaded[bundle] = self._context.env.clock.now_ms()

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the snapshot on which this broker would decide now, as a document for a file or the REST API."""
        return (await self._current_load_data()).document()

    # ---- splitting ----

    async def check_splits(self) -> None:
        """Do nothing: every broker splits its own bundles after each report."""

    async def _split_own(self, report: LoadReport) -> None:
        """Split the bundles in this broker's own report that are too large."""
        splitter = SimpleSplitter.of(self._context.config.current)
        snapshot = build_simple_snapshot({self._context.urls.broker_id: report})
        plan = await self.executor.counted_splits(
            lambda counts: splitter.decide(snapshot, counts, no_boundaries, None)[0]
        )
        for split in plan:
            if not self.settings.current.auto_split:
                self._refuse_split(split)
            else:
                await self.executor.split(split, unload=self._children_may_leave)

    def _refuse_split(self, split: Split) -> None:
        key = ("loadBalancerAutoBundleSplitEnabled",)
        reason = Reason(code=Code.DISABLED, subject=split.bundle, settings=key, cause=split.reason)
        self.executor.refuse("split", split.bundle, split.broker, reason)

    async def _children_may_leave(self) -> bool:
        """Return whether the new bundles of a split may move to another broker: whether more than one broker is
        registered.
        """
        return len(self.available_brokers()) > 1

    # ---- what is stored ----

    async def write_resource_quotas(self) -> None:
        """As leader, store the estimated factors for CPU and memory, and the quotas that changed enough."""
        if not self._may_act():
            return
        load_data = await self._current_load_data()
        try:
            await load_data.write_quotas()
        except MetadataError as error:
            log.warning("resource_quotas_not_stored", reason=str(error))

    def _may_act(self) -> bool:
        return self._context.is_leader()
