"""The parts that the leader's part of one broker's load manager works with: `leader` with numpy, `assigning` without
it.
"""

from dataclasses import dataclass

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.load_data_watch import LoadDataWatch
from pulsar_barycenter.broker.load_manager.metrics import LoadMetrics
from pulsar_barycenter.broker.load_manager.modular.load_data import LoadData


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """The objects with which the leader decides. `load_data` has the known loads, `watch` keeps it current, and
    `executor` carries out and logs decisions.
    """

    context: LoadManagerContext
    load_data: LoadData
    watch: LoadDataWatch
    executor: DecisionExecutor
    metrics: LoadMetrics
