"""The parts that the decisions of one broker's load manager are made with: by `deciding` with numpy, by `assigning`
without it.
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
    """The objects with which a load manager decides. `load_data` has the known loads, `stats` returns the stats of this
    broker's bundles, and `executor` carries out and logs decisions.
    """

    context: LoadManagerContext
    load_data: ExtensibleLoadData
    executor: DecisionExecutor
    metrics: ExtensibleMetrics
    stats: Callable[[], Mapping[str, NamespaceBundleStats]]
