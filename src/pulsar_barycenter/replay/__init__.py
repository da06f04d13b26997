"""Simulates a cluster in virtual time: what a load manager would do with recorded or synthetic load, and how well.

For programs and notebooks:

    from pulsar_barycenter.replay import recorded_load

    load = recorded_load("/var/lib/barycenter")
    results = load.replay(["configured", "AvgShedder", "LeastDisturbance"], seeds=range(5))
    results                    # a notebook shows a table and a picture
    results.medians()          # an Arrow table; .to_pandas() makes a DataFrame of it
    load.advise()              # what `barycenter advise` recommends

A load comes from a recorded history, a snapshot, traces, a workload file, a scenario or a seed. The names that this
module exports are public; its modules are not. They need the extra `history`, and are imported when they are used.

Problem. A strategy can only be judged over days of load, under several seeds, next to other strategies. No production
cluster allows such experiments.

Rules. The simulated leader runs the real code: the rounds of `load.rounds` and the splits of `load.splitting`. It sees
only what a real leader sees: reports that are sent at intervals and may be late. Everything is pure: time, randomness
and inputs are arguments, and the same arguments give the same bytes.

- Input: `demand` is the load that clients put on each bundle over time. `capacity` is what a broker can carry, and how
  traffic becomes usage. `events` are changes of brokers and settings. `synthetic` generates load from a seed, `traces`
  are event counts from CSV files, and `inputs` converts traces, workload files and recorded tables to demand.
- Simulation: `bundles` has the owners and splits of bundles, `delivery` says what becomes of reports on their way,
  `reports` has the reports and the leader's snapshot;
  `simulator` runs them. `what_if` continues from a snapshot.
- Result: `outcome` is the record of a run, `measures` how well it went, `references` how well an observer with perfect
  knowledge would have done; `right_sizing` counts the brokers that a load needs, and replays rules for their number.
- Many runs: `grid` enumerates runs; `scenario` defines a case of `balance-bench`, `scenarios` has all of them, and
  `scenario_files` reads others from TOML files, `scenario_mistakes` says what is wrong in such a file;
  `experiments` replays published measurements; `advice` recommends a configuration from a history.
  `lab.programs` defines the public names, since they read files.
"""

from importlib import import_module
from typing import Any

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

_DEFINED_IN = "pulsar_barycenter.lab.programs"
"""The module that defines the public names.

It imports modules of this package, so it is imported only at the first use of a public name. `__init__.pyi` has the
types.
"""

_OF_EXTRA = {"pyarrow", "duckdb"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_DEFINED_IN), name)
    except ModuleNotFoundError as error:
        if error.name not in _OF_EXTRA:
            raise
        raise ModuleNotFoundError(
            f"{__name__}.{name} needs {error.name}: pip install 'pulsar-barycenter[history]'", name=error.name
        ) from error


def __dir__() -> list[str]:
    return [*globals(), *__all__]
