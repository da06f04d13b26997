"""What a broker tells of itself in the two tables: its load when that changed enough, its heaviest bundles when they
were counted anew.

When a bundle comes or goes, what was told is no longer true: the broker takes it back, at most once in 10 s, and starts
its averages afresh.

Source: Pulsar's `BrokerLoadDataReporter` and `TopBundleLoadDataReporter`.
"""

import msgspec

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.extensible.load_stores import LoadStore
from pulsar_barycenter.broker.load_manager.pipeline_feed import NamedReport
from pulsar_barycenter.broker.load_manager.reporting.local_load import LocalLoad
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLoadReportRule,
    TopBundlesLoadData,
    is_broker_load_due,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, encode_without_none, sum_stats
from pulsar_barycenter.load.reports.weights import extensible_resource_weights
from pulsar_barycenter.load.service_units.report_tombstones import TOMBSTONE_INTERVAL_MS


class _OwnValue:
    """This broker's value in a table."""

    def __init__(self, context: LoadManagerContext, store: LoadStore) -> None:
        self._context = context
        self._store = store
        self._taken_back_ms: int | None = None

    async def tell(self, data: msgspec.Struct) -> bool:
        return await self._store.tell(self._context.urls.broker_id, encode_without_none(data))

    async def take_back(self) -> None:
        """Take back what was told, unless that was done just before; a failure is none."""
        now_ms, before_ms = self._context.env.clock.now_ms(), self._taken_back_ms
        if before_ms is not None and now_ms - before_ms < TOMBSTONE_INTERVAL_MS:
            return
        self._taken_back_ms = now_ms
        if not await self._store.tell(self._context.urls.broker_id, None):
            self._taken_back_ms = before_ms


class BrokerLoadReporter:
    def __init__(self, context: LoadManagerContext, load: LocalLoad, store: LoadStore) -> None:
        self._context = context
        self._load = load
        self._value = _OwnValue(context, store)
        self._told = BrokerLoadData()
        self.current = BrokerLoadData()
        """The load as measured last."""

    def measure(self) -> BrokerLoadData:
        """Measure once more, which is one step of the averages."""
        stats, config = self._load.stats(), self._context.config.current
        self.current = self.current.updated(
            self._load.usage(stats),
            sum_stats(stats.values()),
            bundle_count=len(stats),
            weights=extensible_resource_weights(config),
            history_weight=config.load_balancer_history_resource_percentage,
            now_ms=self._context.env.clock.now_ms(),
        )
        return self.current

    async def report(self, *, force: bool = False, logged: NamedReport | None = None) -> bool:
        """Measure, and tell the load if it is due or `force`; return whether it was told.

        `logged` is the newest load report that the pipeline gets, if others shall know of it; the load is due, too,
        when they do not.
        """
        current, now_ms = self.measure(), self._context.env.clock.now_ms()
        rule = BrokerLoadReportRule.of(self._context.config.current)
        name = (None, None) if logged is None else (logged.incarnation, logged.sequence)
        is_known = (self._told.incarnation, self._told.sequence) == name
        if not force and (logged is None or is_known) and not is_broker_load_due(self._told, current, now_ms, rule):
            return False
        told = msgspec.structs.replace(current, reported_at=now_ms, incarnation=name[0], sequence=name[1])
        if not await self._value.tell(told):
            return False
        self._told = told
        self.current = msgspec.structs.replace(self.current, reported_at=now_ms)
        return True

    async def take_back(self) -> None:
        """A bundle came or went."""
        self.current = self.current.cleared()
        await self._value.take_back()


class TopBundlesReporter:
    def __init__(self, context: LoadManagerContext, load: LocalLoad, store: LoadStore) -> None:
        self._context = context
        self._load = load
        self._value = _OwnValue(context, store)
        self._told_of: dict[str, NamespaceBundleStats] | None = None

    async def report(self, *, force: bool = False) -> bool:
        """Tell the heaviest bundles if they were counted anew or `force`; return whether they were told."""
        stats, config = self._load.stats(), self._context.config.current
        if not force and stats == self._told_of:
            return False
        bound = set()
        if not config.load_balancer_shedding_bundles_with_policies_enabled:
            bound = await self._with_policies({name.rpartition("/")[0] for name in stats})
        top = TopBundlesLoadData.of(
            stats,
            config.load_balancer_max_number_of_bundles_in_bundle_load_report,
            excluded_namespaces=frozenset(config.load_balancer_shedding_excluded_namespaces),
            has_policies=bound.__contains__,
        )
        if not await self._value.tell(top):
            return False
        self._told_of = stats
        return True

    async def _with_policies(self, namespaces: set[str]) -> set[str]:
        """Return those of some namespaces that have an isolation policy or an anti-affinity group."""
        policies = self._context.policies
        for namespace in sorted(namespaces):
            await policies.learn_groups(namespace, tuple)
        current = policies.current
        return {
            namespace
            for namespace in namespaces
            if namespace in current.groups or current.isolation.of_namespace(namespace) is not None
        }

    async def take_back(self) -> None:
        """A bundle came or went."""
        self._told_of = None
        await self._value.take_back()
