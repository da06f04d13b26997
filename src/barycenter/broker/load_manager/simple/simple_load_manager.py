"""The simple load manager: brokers report what they carry now, bundles are placed by quotas, overload sheds one bundle.

| what | who |
|---|---|
| report, then split check of the own bundles | every broker |
| placement | the leader; with `weightedRandomSelection` whichever broker is asked |
| shedding, writing quotas | the leader |

The nodes below /loadbalance/settings override the configuration. Shedding runs even where it is switched off, and tells
what it would have done.

Source: Pulsar's `SimpleLoadManagerImpl` (4.2). Differences are told where they are made: in `load.simple`, the picture
and the reporter; and `loadBalancerSheddingExcludedNamespaces` holds here, too.
"""

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from barycenter.broker.load_manager.decision_executor import Orders
from barycenter.broker.load_manager.environment import LoadInstruments
from barycenter.broker.load_manager.load_data_watch import PictureWatch
from barycenter.broker.load_manager.simple.load_data import SimpleLoadPicture
from barycenter.broker.load_manager.simple.metrics import SimpleLoadMetrics
from barycenter.broker.load_manager.simple.reporter import SimpleLoadReporter
from barycenter.broker.load_manager.simple.settings_watch import SimpleSettingsWatch
from barycenter.load.decisions import Placement, Split, Unload, stays
from barycenter.load.filters.outcome import PlacementRequest
from barycenter.load.reasons import Code, Reason
from barycenter.load.reports.simple_load_report import LoadReport, as_local_broker_data
from barycenter.load.simple.shedding import shed
from barycenter.load.simple.splitting import simple_splits
from barycenter.load.snapshot.document import SnapshotDocument
from barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from barycenter.load.splitting.bundle_splitter import BundleSplitterSettings
from barycenter.logs.decision_log import DecisionLog
from barycenter.metadata.errors import MetadataError
from barycenter.naming.bundle import Bundle
from barycenter.naming.namespace import NamespaceName

if TYPE_CHECKING:
    from barycenter.broker.load_manager.contract import LoadManagerContext

log = structlog.get_logger(__name__)

_PAUSE_SHARE: Final = 4.0
"""How many times as long as it took to learn from reports the next time is waited for."""


class SimpleLoadManager:
    """One broker's load manager; see `LoadManager` for the calls that the broker makes."""

    def __init__(self, context: "LoadManagerContext", instruments: LoadInstruments | None = None) -> None:
        """`instruments` are those of the machine unless given."""
        self._context = context
        self._instruments = instruments or LoadInstruments.of_machine(context)
        self._settings = SimpleSettingsWatch(context.env.store, context.config)
        self._picture = SimpleLoadPicture(context, self._settings)
        self._reporter = SimpleLoadReporter(context, self._instruments, self._picture)
        self.metrics = SimpleLoadMetrics(context.config.current.cluster_name, context.urls.broker_id)
        self._orders = Orders(context, self._instruments.decisions, self.metrics)
        self._watch = PictureWatch(
            context.registration, self._refresh, lambda: self._picture.brokers, pause_share=_PAUSE_SHARE
        )
        self._splitting = False

    @property
    def is_centralized(self) -> bool:
        """Whether the leader alone places bundles: by the strategy of now."""
        return self._settings.current.is_centralized

    # ---- life ----

    async def start(self) -> None:
        """Register this broker with its first report, and begin to watch the others."""
        await self._settings.start()
        report = self._reporter.next_report(self._settings.current)
        await self._context.registration.register(self._context.urls.broker_id, report)
        self._reporter.wrote(report)
        self.metrics.report(as_local_broker_data(report))
        await self._watch.start(self._begin)

    async def disable(self) -> None:
        """Remove the registration. Idempotent."""
        await self._context.registration.unregister()

    async def stop(self) -> None:
        """End every task; disables first. Idempotent."""
        await self._watch.close()
        await self._settings.close()
        self._reporter.close()
        self._picture.close()
        await self.disable()

    async def _begin(self) -> None:
        await self._picture.begin()
        self.metrics.ranked(self._picture.ranking)

    async def _refresh(self) -> None:
        await self._picture.refresh()
        self.metrics.ranked(self._picture.ranking)

    async def _current_picture(self) -> SimpleLoadPicture:
        """Return the picture as of the last reports seen; it is read now if none were, or a broker of it left.

        Only a picture without brokers that left tells whom policies and evenness allow: they may point at those alone.

        Raises:
            MetadataError: no report was seen, and the store does not answer.
        """
        await self._watch.catch_up(with_every_change=False)
        return self._picture

    # ---- reports ----

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    def load_report(self) -> LoadReport:
        return self._reporter.current(self._settings.current)

    @property
    def decisions(self) -> DecisionLog:
        """What this broker decided, for REST."""
        return self._instruments.decisions

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish this broker's load if it is due or `force`, then split its bundles that are too large."""
        written = await self._reporter.write(self._settings.current, force=force)
        report = self._reporter.written
        if not written or report is None:
            return False
        self.metrics.report(as_local_broker_data(report))
        if not self._splitting:  # a split has a report written, too
            self._splitting = True
            try:
                await self._split_own(report)
            finally:
                self._splitting = False
        return True

    # ---- placement ----

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose the owner-to-be of an unowned bundle; None if no broker qualifies."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        await self._context.policies.refresh(str(bundle.namespace))
        picture = await self._current_picture()
        await picture.learn([str(bundle)])
        placement = picture.select(self._request_for(bundle))  # nothing is awaited in it, so no lock is needed
        self.metrics.assigned(loop.time() - started)
        if placement.reason.code is not Code.PREALLOCATED:
            self._orders.tell_placement(placement)
        return placement if placement.broker is not None else None

    async def resource_availability(self, namespace: NamespaceName) -> dict[int, list[str]]:
        """Return the ids of the brokers that may serve a namespace, by their rank, least first."""
        await self._context.policies.refresh(str(namespace))
        return (await self._current_picture()).availability(str(namespace))

    def _request_for(self, bundle: Bundle) -> PlacementRequest:
        return PlacementRequest(str(bundle), self._context.bundles.has_non_persistent_topic(bundle))

    # ---- shedding ----

    async def shed(self) -> None:
        """Leader: unload at most one bundle from each overloaded broker; its next lookup decides where it goes."""
        config, now_ms = self._context.config.current, self._context.env.clock.now_ms()
        if not self._may_act() or not config.load_balancer_enabled:
            return
        picture = await self._current_picture()
        oldest_ms = now_ms - config.load_balancer_shedding_grace_period_minutes * 60_000
        picture.recently_unloaded = {name: at for name, at in picture.recently_unloaded.items() if at >= oldest_ms}
        plan = shed(picture.snapshot(), self._settings.current)
        self._orders.tell_round(plan.reason)
        for refusal in plan.refusals():
            if refusal.reason.code in (Code.NONE_COMFORTABLE, Code.RECENTLY_UNLOADED, Code.TOO_FEW_BUNDLES):
                self._orders.refuse("unload", refusal.reason.subject, refusal.subject, refusal.reason)
        unloaded = 0
        for unload in plan:
            if not self._may_act():
                break
            unloaded += await self._carry_out_unload(unload)
        self.metrics.unloaded(brokers=unloaded, bundles=unloaded)

    async def _carry_out_unload(self, unload: Unload) -> bool:
        """Unload one bundle, or tell that it would have been; either way it is left alone for the grace period."""
        config = self._context.config.current
        unloaded = False
        if not config.load_balancer_shedding_enabled:
            self._stays(unload, Code.DISABLED, "loadBalancerSheddingEnabled")
        elif unload.bundle.rpartition("/")[0] in config.load_balancer_shedding_excluded_namespaces:
            self._stays(unload, Code.EXCLUDED_NAMESPACE, "loadBalancerSheddingExcludedNamespaces")
        else:
            unloaded = await self._orders.unload(unload, None)
            if not unloaded:
                return False
        self._picture.recently_unloaded[unload.bundle] = self._context.env.clock.now_ms()
        return unloaded

    def _stays(self, unload: Unload, code: Code, key: str) -> None:
        self._orders.refuse("unload", unload.bundle, unload.source, stays(unload, code, settings=(key,)).reason)

    async def snapshot_document(self) -> SnapshotDocument:
        """Return what this broker would decide upon now, for files and REST."""
        return (await self._current_picture()).document()

    # ---- splitting ----

    async def check_splits(self) -> None:
        """Do nothing: every broker splits its own bundles after each report."""

    async def _split_own(self, report: LoadReport) -> None:
        """Split the bundles of this broker's own report that are too large."""
        settings = BundleSplitterSettings.of(self._context.config.current)
        snapshot = build_simple_snapshot({self._context.urls.broker_id: report})
        plan = await self._orders.counted_splits(lambda counts: simple_splits(snapshot, settings, counts))
        for split in plan:
            if not self._settings.current.auto_split:
                self._refuse_split(split)
            else:
                await self._orders.split(split, unload=self._children_may_leave)

    def _refuse_split(self, split: Split) -> None:
        key = ("loadBalancerAutoBundleSplitEnabled",)
        reason = Reason(code=Code.DISABLED, subject=split.bundle, settings=key, cause=split.reason)
        self._orders.refuse("split", split.bundle, split.broker, reason)

    async def _children_may_leave(self) -> bool:
        """Tell whether there is a broker that they could go to."""
        return len(self.available_brokers()) > 1

    # ---- what is stored ----

    async def write_resource_quotas(self) -> None:
        """Leader: store the learned factors, and the quotas that changed enough."""
        if not self._may_act():
            return
        picture = await self._current_picture()
        try:
            await picture.write_quotas()
        except MetadataError as error:
            log.warning("resource_quotas_not_stored", reason=str(error))

    def _may_act(self) -> bool:
        return self._context.is_leader()
