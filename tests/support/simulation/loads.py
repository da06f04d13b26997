"""The load reports of brokers in a simulated cluster: their real load, or for a while a synthetic one.

Synthetic load is out of balance: one broker is nearly full, the others idle, and the bundles are worth moving and
too light to be split. A bundle takes its traffic along.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.reporting.host_usage import FixedUsage
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, SystemResourceUsage
from pulsar_barycenter.naming.bundle import Bundle

SHEDS_AT_ONCE: Final[dict[str, Any]] = {
    "load_balancer_host_usage_check_interval_minutes": 1e-9,
    "load_balancer_shedding_grace_period_minutes": 0.0,
    "load_balancer_avg_shedder_hit_count_high_threshold": 1,
    "load_balancer_shedding_condition_hit_count_threshold": 0,
    "load_balance_shedding_delay_in_seconds": 0.0,
    "load_balancer_history_resource_percentage": 0.0,
    "max_unload_percentage": 1.0,
}
"""So that a round of shedding acts upon what it sees now, as later rounds would if it lasted."""

_LIGHT, _HEAVY = 12e6, 90e6
_RATE: Final = 2_000.0
_NO_USAGE: Final = SystemResourceUsage()


class MadeUpLoads:
    """The loads of a cluster; a broker is identified by its id, over all its incarnations."""

    def __init__(self) -> None:
        self._meters: dict[str, FixedUsage] = {}
        self._traffic: dict[str, NamespaceBundleStats] | None = None

    def measuring(self, context: LoadManagerContext) -> tuple[LoadManagerContext, LoadManagerEnvironment]:
        """Return the context and environment of a broker's load manager with which it reports these loads."""
        meter = self._meters.setdefault(context.urls.broker_id, FixedUsage())
        made = replace(context, bundle_stats=lambda: self._stats(context))
        return made, LoadManagerEnvironment.in_memory(made, meter=meter)

    def _stats(self, context: LoadManagerContext) -> Mapping[str, NamespaceBundleStats]:
        if self._traffic is None:
            return context.bundle_stats()
        return {name: self._traffic[name] for name in map(str, context.owned_bundles()) if name in self._traffic}

    def make_up(self, source: random.Random, busiest: str, bundles: Iterable[Bundle]) -> None:
        """Draw loads that overload the broker with the id `busiest`; each of `bundles` has traffic."""
        for broker_id, meter in sorted(self._meters.items()):
            cpu = source.uniform(86, 99) if broker_id == busiest else source.uniform(2, 20)
            meter.usage = SystemResourceUsage(cpu=ResourceUsage(cpu, 100.0))
        self._traffic = {
            str(bundle): NamespaceBundleStats(
                msg_throughput_in=source.uniform(_LIGHT, _HEAVY), msg_rate_in=_RATE, topics=2
            )
            for bundle in bundles
        }

    def forget(self) -> None:
        """Let every broker report its real load again."""
        self._traffic = None
        for meter in self._meters.values():
            meter.usage = _NO_USAGE
