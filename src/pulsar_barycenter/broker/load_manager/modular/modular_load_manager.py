"""The modular load manager: every broker reports, the leader assigns, sheds and splits.

The leader's part is in `leader`. It needs numpy, and is imported when this broker first has to decide. A broker without
numpy has `assigning` instead.

Differences from Pulsar, each described where it is made: one sample for each load report (`load.reports.windows`); a
bundle that was assigned or shed keeps its history, and counts for its destination until a load report contains it
(`load_data`).

Source: Pulsar's `ModularLoadManagerImpl` and `ModularLoadManagerWrapper` (4.x).
"""

from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.load_data_watch import LoadDataWatch
from pulsar_barycenter.broker.load_manager.metrics import LoadMetrics
from pulsar_barycenter.broker.load_manager.modular.leader_parts import LeaderParts
from pulsar_barycenter.broker.load_manager.modular.load_data import (
    BROKER_AVERAGES_ROOT,
    BUNDLE_DATA_ROOT,
    LoadData,
)
from pulsar_barycenter.broker.load_manager.pipeline_feed import PipelineState
from pulsar_barycenter.broker.load_manager.reporting.load_reporter import LoadReporter
from pulsar_barycenter.broker.load_manager.store_writes import all_of
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, TimeAverageBrokerData
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.strategies import check_modular
from pulsar_barycenter.metadata.errors import NotFoundError
from pulsar_barycenter.naming.bundle import Bundle

if TYPE_CHECKING:
    from pulsar_barycenter.broker.load_manager.modular.assigning import ModularAssigning
    from pulsar_barycenter.broker.load_manager.modular.leader import ModularLeader


class ModularLoadManager:
    """The modular load manager of one broker. `LoadManager` says what each method does for the broker."""

    is_centralized = True

    def __init__(self, context: LoadManagerContext, environment: LoadManagerEnvironment | None = None) -> None:
        """`environment` is by default the environment of this machine (`of_machine`).

        Raises:
            StrategyError: the configuration names an unknown strategy, or two that do not fit together.
        """
        check_modular(context.config.current)
        self._context = context
        self._environment = environment or LoadManagerEnvironment.of_machine(context)
        self.reporter = LoadReporter(context, self._environment.meter, self._environment.report_log)
        self.load_data = LoadData(context, self._environment.pipeline)
        self.metrics = LoadMetrics(context.config.current.cluster_name, context.urls.broker_id)
        self.executor = DecisionExecutor(context, self._environment.decisions, self.metrics, ManagerKind.MODULAR)
        self.watch = LoadDataWatch(
            context.registration, self._refresh, lambda: self.load_data.brokers, self.metrics.unreported.set
        )
        self._leading: ModularLeader | ModularAssigning | None = None

    async def leader(self) -> "ModularLeader | ModularAssigning":
        """Return the object that makes the leader's decisions. It is created at the first call, because importing it
        takes some time; concurrent calls get the same object.
        """
        if self._leading is None:
            made = await self._environment.offload(partial(_leaders_class, balances=self._context.balances))
            if self._leading is None:
                self._leading = made(
                    LeaderParts(self._context, self.load_data, self.watch, self.executor, self.metrics)
                )
        return self._leading

    # ---- life ----

    async def start(self) -> None:
        """Register this broker with its first load report, and begin to read the reports of the other brokers."""
        report = self.reporter.next_report()
        await self._context.registration.register(self._context.urls.broker_id, report)
        self.reporter.wrote(report)
        self.metrics.report(report)
        await self.watch.start(self._begin)

    async def _begin(self) -> None:
        path = f"{BROKER_AVERAGES_ROOT}/{self._context.urls.broker_id}"
        await self._context.env.store.put(path, msgspec.json.encode(TimeAverageBrokerData()))
        await self._refresh()

    async def disable(self) -> None:
        """Remove the registration of this broker. Idempotent."""
        await self._context.registration.unregister()

    async def stop(self) -> None:
        """End every task and remove this broker's registration. Idempotent."""
        await self.watch.close()
        self.reporter.close()
        await self.disable()

    async def _refresh(self) -> None:
        """Read the newest load reports into the load data. On the leader, also delete the stored averages of brokers
        that left and of bundles that no longer exist.
        """
        left, forgotten = await self.load_data.refresh()
        await self._judge_pipeline()
        if self._context.is_leader():
            await all_of(
                chain(
                    (self._delete(f"{BROKER_AVERAGES_ROOT}/{broker}") for broker in left),
                    (self._delete(f"{BUNDLE_DATA_ROOT}/{bundle}") for bundle in forgotten),
                )
            )

    async def _delete(self, path: str) -> None:
        with suppress(NotFoundError):
            await self._context.leader_store.delete(path)

    # ---- reports ----

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    def load_report(self) -> LocalBrokerData:
        return self.reporter.current()

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish this broker's load if it changed enough, or if `force`; return whether it was published."""
        written = await self.reporter.write(force=force)
        self.metrics.report(self.reporter.current())
        await self._judge_pipeline()
        return written

    @property
    def decisions(self) -> DecisionLog:
        """The decisions of this broker, for REST."""
        return self._environment.decisions

    def pipeline_state(self) -> PipelineState:
        return self.load_data.pipeline.state()

    async def _judge_pipeline(self) -> None:
        """Set the metrics about the pipeline (the separate program that publishes averages). On the leader, also log
        when the pipeline becomes late or is late no more, and when it stops or begins again to check for new reports.
        """
        state = await self.load_data.pipeline.judge(decides_with="averages computed by the leader itself")
        self.metrics.pipeline_lag_s.set(state.lag_ms / 1000)
        self.metrics.pipeline_silent_s.set((state.silent_ms or 0) / 1000)
        self.metrics.pipeline_in_use.set(1 if state.in_use else 0)
        self.metrics.pipeline_published.set(1 if state.is_published else 0)

    # ---- the leader's part ----

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose an owner for a bundle that has none, and add the load of the bundle to this owner's load until a load
        report contains the bundle. The result is None, or a placement with `broker` None, if no broker qualifies.
        """
        return await (await self.leader()).select_broker(bundle)

    async def shed(self) -> None:
        """As leader, unload bundles from overloaded brokers, one after the other. Choose the next owner of each bundle
        before its unload.
        """
        if self._context.is_leader():
            await (await self.leader()).shed()

    async def check_splits(self) -> None:
        """As leader, split bundles that are too large."""
        if self._context.is_leader():
            with self._context.env.instruments.round("split"):
                await (await self.leader()).check_splits()

    async def write_resource_quotas(self) -> None:
        """As leader, store the averages of the loads of bundles and brokers in the metadata store."""
        if self._context.is_leader():
            await (await self.leader()).write_resource_quotas()

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the snapshot on which this broker would decide now, as a document for a file or the REST API."""
        return await (await self.leader()).snapshot_document()


def _leaders_class(*, balances: bool) -> "type[ModularLeader | ModularAssigning]":
    """Import the class that makes the leader's decisions and return it. If `balances`, it is the class that needs numpy
    and the strategies, whose import takes a few hundred milliseconds. Otherwise it is the class that only assigns
    bundles.
    """
    if not balances:
        from pulsar_barycenter.broker.load_manager.modular.assigning import ModularAssigning

        return ModularAssigning
    from pulsar_barycenter.broker.load_manager.modular.leader import ModularLeader

    return ModularLeader
