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
from pulsar_barycenter.replay.measures import MEASURES, Measure
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFileError

__all__ = [
    "MEASURES",
    "GridError",
    "Load",
    "Measure",
    "Recommendation",
    "ReplayInputError",
    "ReplayResults",
    "SnapshotFileError",
    "recorded_load",
    "scenario_load",
    "scenario_names",
    "snapshot_load",
    "synthetic_load",
    "trace_load",
    "workload_load",
]
