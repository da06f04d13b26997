from pulsar_barycenter.lab.programs import (
    MEASURES as MEASURES,
)
from pulsar_barycenter.lab.programs import (
    GridError as GridError,
)
from pulsar_barycenter.lab.programs import (
    Load as Load,
)
from pulsar_barycenter.lab.programs import (
    Measure as Measure,
)
from pulsar_barycenter.lab.programs import (
    Recommendation as Recommendation,
)
from pulsar_barycenter.lab.programs import (
    ReplayInputError as ReplayInputError,
)
from pulsar_barycenter.lab.programs import (
    ReplayResults as ReplayResults,
)
from pulsar_barycenter.lab.programs import (
    SnapshotFileError as SnapshotFileError,
)
from pulsar_barycenter.lab.programs import (
    recorded_load as recorded_load,
)
from pulsar_barycenter.lab.programs import (
    scenario_load as scenario_load,
)
from pulsar_barycenter.lab.programs import (
    scenario_names as scenario_names,
)
from pulsar_barycenter.lab.programs import (
    snapshot_load as snapshot_load,
)
from pulsar_barycenter.lab.programs import (
    synthetic_load as synthetic_load,
)
from pulsar_barycenter.lab.programs import (
    trace_load as trace_load,
)
from pulsar_barycenter.lab.programs import (
    workload_load as workload_load,
)

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
