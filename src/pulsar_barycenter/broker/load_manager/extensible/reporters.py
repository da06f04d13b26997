"""Publishes this broker's load and its heaviest bundles in the two tables of loads, when they changed enough.

When the broker gets or loses a bundle, the published values are outdated: the broker withdraws them, at most once every
ten seconds, and restarts its averages.

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
    """Publishes and withdraws this broker's value in a table of loads."""

    def __init__(self, context: LoadManagerContext, store: LoadStore) -> None:
        self._context = context
        self._store = store
        self._withdrawn_ms: int | None = None

    async def publish(self, data: msgspec.Struct) -> bool:
        return await self._store.publish(self._context.urls.broker_id, encode_without_none(data))

    async def withdraw(self) -> None:
        """Withdraw the published value. Do nothing if this object withdrew it less than TOMBSTONE_INTERVAL_MS ago; an
        attempt that failed does not count as a withdrawal.
        """
        now_ms, before_ms = self._context.env.clock.now_ms(), self._withdrawn_ms
        if before_ms is not None and now_ms - before_ms < TOMBSTONE_INTERVAL_MS:
            return
        self._withdrawn_ms = now_ms
        if not await self._store.publish(self._context.urls.broker_id, None):
            self._withdrawn_ms = before_ms


class BrokerLoadReporter:
    def __init__(self, context: LoadManagerContext, load: LocalLoad, store: LoadStore) -> None:
        self._context = context
        self._load = load
        self._value = _OwnValue(context, store)
        self._published = BrokerLoadData()
        self.current = BrokerLoadData()
        """The last measured load."""

    def measure(self) -> BrokerLoadData:
        """Measure the load of this broker and return it. Each call adds one measurement to the moving averages of the
        usages.
        """
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
        """Measure the load of this broker. Publish it if it changed enough, if the published value is too old, or if
        `force`. Return whether it was published.

        `logged` is the newest report in the report log, which the pipeline (the separate program that publishes
        averages) reads; None if the pipeline is not used. The published load names this report, so it is also published
        when `logged` is another report than the one in the last published load.
        """
        current, now_ms = self.measure(), self._context.env.clock.now_ms()
        rule = BrokerLoadReportRule.of(self._context.config.current)
        name = (None, None) if logged is None else (logged.incarnation, logged.sequence)
        is_named = (self._published.incarnation, self._published.sequence) == name
        is_due = is_broker_load_due(self._published, current, now_ms, rule)
        if not force and (logged is None or is_named) and not is_due:
            return False
        value = msgspec.structs.replace(current, reported_at=now_ms, incarnation=name[0], sequence=name[1])
        if not await self._value.publish(value):
            return False
        self._published = value
        self.current = msgspec.structs.replace(self.current, reported_at=now_ms)
        return True

    async def withdraw(self) -> None:
        """Withdraw the published load, and begin the averages again from nothing. Called after this broker got or lost
        a bundle.
        """
        self.current = self.current.cleared()
        await self._value.withdraw()


class TopBundlesReporter:
    def __init__(self, context: LoadManagerContext, load: LocalLoad, store: LoadStore) -> None:
        self._context = context
        self._load = load
        self._value = _OwnValue(context, store)
        self._published_stats: dict[str, NamespaceBundleStats] | None = None

    async def report(self, *, force: bool = False) -> bool:
        """Publish the heaviest bundles of this broker if the stats of its bundles changed since the last publication,
        or if `force`. Return whether they were published.
        """
        stats, config = self._load.stats(), self._context.config.current
        if not force and stats == self._published_stats:
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
        if not await self._value.publish(top):
            return False
        self._published_stats = stats
        return True

    async def _with_policies(self, namespaces: set[str]) -> set[str]:
        """Return those of `namespaces` that have an isolation policy or an anti-affinity group."""
        policies = self._context.policies
        for namespace in sorted(namespaces):
            await policies.learn_groups(namespace, tuple)
        current = policies.current
        return {
            namespace
            for namespace in namespaces
            if namespace in current.groups or current.isolation.of_namespace(namespace) is not None
        }

    async def withdraw(self) -> None:
        """Withdraw the published list of heaviest bundles, because this broker got or lost a bundle."""
        self._published_stats = None
        await self._value.withdraw()
