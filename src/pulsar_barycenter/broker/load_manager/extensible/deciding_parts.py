"""The parts of one broker's load manager that its decisions are made with, with numpy (`deciding`) and without it
(`assigning`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.extensible.load_data import ExtensibleLoadData
from pulsar_barycenter.broker.load_manager.extensible.metrics import ExtensibleMetrics
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats


@dataclass(frozen=True, slots=True)
class DecidingParts:
    """`stats` returns the stats of this broker's bundles; `executor` has decisions carried out and logged."""

    context: LoadManagerContext
    load_data: ExtensibleLoadData
    executor: DecisionExecutor
    metrics: ExtensibleMetrics
    stats: Callable[[], Mapping[str, NamespaceBundleStats]]
