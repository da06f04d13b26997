"""Replays and recommendations for programs and notebooks: what `pulsar_barycenter.replay` exports.

`loads` makes the input of a replay and runs it, `results` has the runs as tables and pictures, `recommendation` the
advice. `line_picture` draws lines over time as a static picture, for pages without scripts.
"""

from pulsar_barycenter.lab.errors import GridError
from pulsar_barycenter.lab.programs.loads import (
    Load,
    recorded_load,
    scenario_load,
    scenario_names,
    snapshot_load,
    synthetic_load,
    trace_load,
    workload_load,
)
from pulsar_barycenter.lab.programs.recommendation import Recommendation
from pulsar_barycenter.lab.programs.results import ReplayResults
from pulsar_barycenter.replay.errors import ReplayInputError

__all__ = [
    "GridError",
    "Load",
    "Recommendation",
    "ReplayInputError",
    "ReplayResults",
    "recorded_load",
    "scenario_load",
    "scenario_names",
    "snapshot_load",
    "synthetic_load",
    "trace_load",
    "workload_load",
]
