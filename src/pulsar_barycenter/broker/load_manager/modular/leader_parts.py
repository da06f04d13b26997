"""The parts of one broker's load manager that its leader's part works with, with numpy (`leader`) and without it
(`assigning`).
"""

from dataclasses import dataclass

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.load_data_watch import LoadDataWatch
from pulsar_barycenter.broker.load_manager.metrics import LoadMetrics
from pulsar_barycenter.broker.load_manager.modular.load_data import LoadData


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """`watch` keeps `load_data` current; `executor` has decisions carried out and logged."""

    context: LoadManagerContext
    load_data: LoadData
    watch: LoadDataWatch
    executor: DecisionExecutor
    metrics: LoadMetrics
