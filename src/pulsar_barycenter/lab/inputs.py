"""Reads the input of a replay: a data folder, CSV traces, a workload file, or synthetic load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.cluster_logs.data_folder import check_load_folder
from pulsar_barycenter.lab.trace_files import trace_in
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.prometheus.progress import read_progress
from pulsar_barycenter.observer.prometheus.series import ImportRefusedError
from pulsar_barycenter.observer.recorded_policies import POLICIES_FILE, read_policies
from pulsar_barycenter.observer.report_numbers import OF_APACHE_PULSAR
from pulsar_barycenter.pipeline.history import END_OF_TIME, History
from pulsar_barycenter.pipeline.storage.files import Storage, local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import BrokerAdded, BrokerCrashed, BrokerRemoved, Event
from pulsar_barycenter.replay.inputs.recorded import Samples, Usages, recording
from pulsar_barycenter.replay.inputs.trace_demand import demand_of
from pulsar_barycenter.replay.inputs.workload_files import Workload, demand_of_workload, workload_of
from pulsar_barycenter.replay.scenario import COMMON, catalogue
from pulsar_barycenter.replay.simulator import Cluster
from pulsar_barycenter.replay.synthetic.demand import Shape, broker_names, generated
from pulsar_barycenter.replay.traces import Trace
from pulsar_barycenter.snapshots.settings_in_force import in_force

GENERATED: Final = "generated"
_CSV_KEYS: Final = {"brokers": int, "bundles": int, "topics": int, "scale": float, "bytes_a_message": float}
_WORKLOAD_KEYS: Final = {"brokers": int, "bundles": int, "cores": float}
_MAX_WORKLOAD_BYTES: Final = 1 << 20
_FIGURES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")


class InputKind(Enum):
    """What the input of a replay is."""

    SYNTHETIC = "synthetic load"
    TRACES = "CSV traces"
    WORKLOAD = "workload file"
    FOLDER = "data folder"


class InputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The options that describe the input of a replay, as the user gave them on the command line: files or a folder
    (`paths`), `--shape` as texts, the period (epoch ms) and the length of a step.
    """

    paths: tuple[str, ...]
    shape: dict[str, str] = {}
    since_ms: int = 0
    until_ms: int = END_OF_TIME
    step_ms: int = 60_000

    @property
    def kind(self) -> InputKind:
        """The kind of the input, by the text of its first path: "generated", a CSV file, a YAML file, or a data folder.
        No file is read.
        """
        first = self.paths[0]
        if first == GENERATED:
            return InputKind.SYNTHETIC
        if _is_trace(first):
            return InputKind.TRACES
        return InputKind.WORKLOAD if first.endswith((".yaml", ".yml")) else InputKind.FOLDER


@dataclass(frozen=True)
class Input:
    """The input of a replay: what was recorded of a cluster, or generated.

    `settings` are the keys of broker.conf, with their values, that were recorded with the data; `warnings` are the
    problems of the data. `is_apache_pulsar` is True if the brokers were those of Apache Pulsar: their load reports do
    not name the incarnation of the broker.
    """

    demand: Demand
    cluster: Cluster
    events: tuple[Event, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    is_apache_pulsar: bool = False


@dataclass(frozen=True)
class Source:
    """The data that was read from the files of an input. Its method `input` returns the input of a replay (`Input`) for
    a seed.
    """

    spec: InputSpec
    traces: tuple[Trace, ...] = ()
    workload: Workload | None = None
    recorded: Input | None = None
    case: str = ""
    """The name of a scenario of `balance-bench`; "" for another input."""

    def input(self, seed: int) -> Input:
        """Return the input of a replay for a seed. The seed determines synthetic load, a scenario's load, and which
        bundles the topics of traces are in; recorded load is the same for all seeds.

        Raises:
            ReplayInputError: the data cannot be replayed; the text says why.
        """
        if self.recorded is not None:
            return self.recorded
        if self.case:
            return _of_case(self.case, seed)
        if self.workload is not None:
            return _of_workload(self.spec, self.workload, seed)
        return _of_traces(self.spec, self.traces, seed) if self.traces else _generated(self.spec, seed)


def read_source(spec: InputSpec, elsewhere: Storage | None = None) -> Source:
    """Read the data of the input that `spec` describes. If the data folder is at an address that only Spark reaches
    (`is_elsewhere`), `elsewhere` must be its storage, opened by the caller.

    Raises:
        ReplayInputError: the input cannot be replayed; the text says why.
        NoHistoryError: a data folder has no rows in the period of `spec`.
        WrongFolderError: a folder has no load data.
        ConfigError: a broker.conf in it is not valid.
        OSError: a file cannot be read.
    """
    first = spec.paths[0]
    if spec.kind is InputKind.SYNTHETIC:
        return Source(spec)
    if spec.kind is InputKind.TRACES:
        return Source(spec, traces=tuple(trace_in(Path(path)) for path in spec.paths))
    if len(spec.paths) > 1:
        raise ReplayInputError(
            f"give one data folder, one workload file, or only CSV files, not {', '.join(spec.paths)}"
        )
    if spec.kind is InputKind.WORKLOAD:
        return Source(spec, workload=_workload(Path(first)))
    if spec.shape:
        raise ReplayInputError(
            f"--shape is for CSV traces and synthetic load; {first} is a recorded load, so leave --shape out"
        )
    return Source(spec, recorded=_of_folder(spec, elsewhere or _local(first)))


def read_input(spec: InputSpec, seed: int = 0) -> Input:
    """Read the input that `spec` describes and return it for a seed. Raises the errors of `read_source`."""
    return read_source(spec).input(seed)


def is_elsewhere(spec: InputSpec) -> bool:
    """Return whether the input is at an address that only Spark reaches, and not in a folder of this machine.

    Raises:
        ReplayInputError: an address is not valid, or traces are at such an address.
    """
    try:
        found = [path for path in spec.paths if local_folder(path) is None]
    except ValueError as error:
        raise ReplayInputError(str(error)) from None
    traces = [path for path in found if _is_trace(path)]
    if traces:
        raise ReplayInputError(
            f"{traces[0]}: CSV traces can be read only from this machine; copy the file to this machine"
        )
    return bool(found)


def _is_trace(path: str) -> bool:
    return path.endswith(".csv")


def _numbers(shape: Mapping[str, str], kinds: Mapping[str, Any], what: str) -> dict[str, Any]:
    found = {}
    for key, text in shape.items():
        if key not in kinds:
            raise ReplayInputError(
                f"--shape {key}={text}: {what} has no such key; give one of {', '.join(sorted(kinds))}"
            )
        try:
            found[key] = kinds[key](text)
        except ValueError:
            raise ReplayInputError(f"--shape {key}={text}: give a number") from None
        if not 0 <= found[key] < 1e15:
            raise ReplayInputError(f"--shape {key}={text}: give a number of at least 0")
    return found


def _generated(spec: InputSpec, seed: int) -> Input:
    kinds = {each.name: int if each.type in (int, "int") else float for each in fields(Shape)} | {"cores": float}
    numbers = _numbers(spec.shape, kinds, "synthetic load")
    capacity = Capacity(cores=numbers.pop("cores", Capacity().cores))
    shape = Shape(**{"step_ms": spec.step_ms, **numbers})
    return Input(generated(shape, seed), Cluster(dict.fromkeys(broker_names(shape.brokers), capacity)))


def _of_case(name: str, seed: int) -> Input:
    setup = catalogue()[name].make(seed)
    return Input(setup.demand, setup.cluster, setup.events, {**COMMON, **setup.settings})


def _workload(path: Path) -> Workload:
    if path.stat().st_size > _MAX_WORKLOAD_BYTES:
        raise ReplayInputError(f"{path} is larger than {_MAX_WORKLOAD_BYTES:,} bytes, the maximum for a workload file")
    return workload_of(str(path), path.read_bytes())


def _of_workload(spec: InputSpec, workload: Workload, seed: int) -> Input:
    numbers = _numbers(spec.shape, _WORKLOAD_KEYS, "a workload file")
    capacity = Capacity(cores=numbers.pop("cores", Capacity().cores))
    demand = demand_of_workload(workload, step_ms=spec.step_ms, seed=seed, **numbers)
    return Input(demand, Cluster(dict.fromkeys(broker_names(numbers.get("brokers", 5)), capacity)))


def _of_traces(spec: InputSpec, traces: Sequence[Trace], seed: int) -> Input:
    numbers = _numbers(spec.shape, {**_CSV_KEYS, "cores": float}, "a CSV input")
    capacity = Capacity(cores=numbers.pop("cores", Capacity().cores))
    step_ms = min(spec.step_ms, traces[0].step_ms)
    demand = demand_of(traces, step_ms=step_ms, seed=seed, **numbers)
    within = _within(demand, spec)
    return Input(within, Cluster(dict.fromkeys(broker_names(numbers.get("brokers", 5)), capacity)))


def _within(demand: Demand, spec: InputSpec) -> Demand:
    first = max(0, -(-(spec.since_ms - demand.start_ms) // demand.step_ms))
    end = min(demand.steps, -(-(spec.until_ms - demand.start_ms) // demand.step_ms))
    return demand.period(first, end)


def _local(address: str) -> Storage:
    folder = local_folder(address)
    if folder is None:
        raise ReplayInputError(
            f"only Spark can read {address}, and no Spark session was given; give --master, or from Python a session"
        )
    check_load_folder(folder)
    return PipelineLayout.of(folder)


def _of_folder(spec: InputSpec, storage: Storage) -> Input:
    history = History(storage, since_ms=spec.since_ms, until_ms=spec.until_ms)
    samples = history.rows("bundle_samples", _SAMPLES)
    usages = history.rows("broker_usage", USAGE_COLUMNS)
    reports = history.rows("load_reports", REPORT_COLUMNS)
    found = recording(_samples(samples), usages_of(usages, reports), step_ms=spec.step_ms)
    settings, warnings = _settings(storage.local_root, found.demand.start_ms + found.demand.steps * spec.step_ms)
    fitted = (str(found.fit),) if found.fit else ()
    is_foreign = pc.any(pc.starts_with(reports.column("incarnation"), OF_APACHE_PULSAR)).as_py() or False
    warnings = (*warnings, *_missing(storage.local_root), *_not_followed(storage.local_root), *fitted, *found.warnings)
    return Input(found.demand, found.cluster, found.events, settings, warnings, is_foreign)


def _missing(folder: Path | None) -> tuple[str, ...]:
    """Return the warnings about an imported history in `folder`: one text for each kind of data that its metrics did
    not have. Empty if the history was recorded and not imported, or if `folder` is None.
    """
    try:
        progress = read_progress(folder) if folder is not None else None
    except ImportRefusedError as error:
        return (str(error),)
    return () if progress is None else tuple(f"the imported metrics do not have {what}" for what in progress.missing())


def _not_followed(folder: Path | None) -> tuple[str, ...]:
    """Return a warning that counts the recorded isolation policies and anti-affinity groups, because a replay does not
    follow them; empty if none were recorded. A file that cannot be read gives a warning that says so.
    """
    try:
        records = [] if folder is None else read_policies(folder / POLICIES_FILE)
    except (msgspec.DecodeError, OSError) as error:
        return (f"the recorded rules of administrators cannot be read: {error}",)
    isolation = {name for record in records for name in record.policies.isolation}
    groups = {namespace for record in records for namespace in record.policies.anti_affinity_groups}
    if not isolation and not groups:
        return ()
    found = [count_of(len(isolation), "isolation policy")] if isolation else []
    found += [f"anti-affinity groups of {count_of(len(groups), 'namespace')}"] if groups else []
    return (f"the cluster had {' and '.join(found)}; the replay places and moves bundles without them",)


def _settings(folder: Path | None, at_ms: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    if folder is not None:
        return in_force(folder, at_ms)
    return {}, ("settings are only read from a folder on this machine; those not given by --set have their defaults",)


_IDENTITY: Final = ("broker", "incarnation", "sequence")
_SAMPLES: Final = ("bundle", "broker", "reported_at", *_FIGURES, "topics", "consumers", "producers")
USAGE_COLUMNS: Final = (
    *(*_IDENTITY, "reported_at", "cpu_usage", "cpu_limit", "memory_limit", "bandwidth_in_limit"),
    "bandwidth_out_limit",
)
REPORT_COLUMNS: Final = (*_IDENTITY, *_FIGURES)


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy(zero_copy_only=False)


def _texts(table: pa.Table, name: str) -> list[str]:
    """Return the column `name` of a table as a list of texts. Equal texts are the same object in memory, because a name
    occurs in millions of rows.
    """
    coded = table.column(name).combine_chunks().dictionary_encode()
    texts: list[str] = np.array(coded.dictionary.to_pylist(), object)[coded.indices.to_numpy()].tolist()
    return texts


def _ms(table: pa.Table) -> Any:
    return table.column("reported_at").cast(pa.int64()).to_numpy() // 1000


def _samples(rows: pa.Table) -> Samples:
    return Samples(
        _texts(rows, "bundle"),
        _texts(rows, "broker"),
        _ms(rows),
        np.array([_column(rows, name) for name in _FIGURES], float).reshape(4, -1),
        _column(rows, "consumers") + _column(rows, "producers"),
        _column(rows, "topics"),
    )


def usages_of(rows: pa.Table, reports: pa.Table) -> Usages:
    """Return the usage of brokers over time. `rows` has the columns USAGE_COLUMNS of the table `broker_usage`,
    `reports` the columns REPORT_COLUMNS of `load_reports`.
    """
    keys = zip(*(reports.column(name).to_pylist() for name in _IDENTITY), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    mine = zip(*(rows.column(name).to_pylist() for name in _IDENTITY), strict=True)
    places = np.array([row_of.get(key, -1) for key in mine], np.int64)
    known = places >= 0
    rate_in, rate_out, bytes_in, bytes_out = (_column(reports, name)[places] for name in _FIGURES)
    return Usages(
        rows.column("broker").to_pylist(),
        _ms(rows),
        np.where(known, _column(rows, "cpu_usage"), -1.0),
        _column(rows, "cpu_limit"),
        _column(rows, "memory_limit"),
        np.minimum(_column(rows, "bandwidth_in_limit"), _column(rows, "bandwidth_out_limit")),
        rate_in + rate_out,
        bytes_in + bytes_out,
        _column(rows, "sequence"),
    )


def shape_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return the keys and values that the user gave with `--shape key=value`.

    Raises:
        ReplayInputError: a pair has no `=`, an unknown key or a value that is not allowed.
    """
    found = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise ReplayInputError(f"--shape {pair}: give key=value")
        found[key.strip()] = value.strip()
    return found


def brokers_at(found: Input, at_ms: int | None = None) -> dict[str, Capacity]:
    """Return the brokers, with their capacities, that were in the cluster just before `at_ms` (epoch ms): events at
    `at_ms` itself are not included. None: at the end of the input.
    """
    brokers = dict(found.cluster.brokers)
    for event in sorted(found.events, key=lambda event: event.at_ms):
        if at_ms is not None and event.at_ms >= at_ms:
            break
        if isinstance(event, BrokerAdded):
            brokers[event.broker] = event.capacity
        elif isinstance(event, BrokerRemoved | BrokerCrashed):
            brokers.pop(event.broker, None)
    return brokers


def size_of(found: Input) -> str:
    """Return a text that says how large an input is: its bundles, brokers, hours and steps."""
    demand = found.demand
    hours = demand.steps * demand.step_ms / 3_600_000
    bundles, brokers = count_of(len(demand.bundles), "bundle"), count_of(len(found.cluster.brokers), "broker")
    return f"{bundles} on {brokers}, {hours:g} h in {count_of(demand.steps, 'step')}"
