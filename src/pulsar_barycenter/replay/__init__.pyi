from pulsar_barycenter.lab.programs import (
    GridError,
    Load,
    Recommendation,
    ReplayInputError,
    ReplayResults,
    recorded_load,
    scenario_load,
    scenario_names,
    snapshot_load,
    synthetic_load,
    trace_load,
    workload_load,
)

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
