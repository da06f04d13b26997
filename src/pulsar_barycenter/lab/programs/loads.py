"""The load of a cluster over time, from any source that `barycenter replay` and `plan` know, and its replay."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pulsar_barycenter.history.recorded_history import epoch_ms, storage_at
from pulsar_barycenter.lab.advising.advise import HIGHEST_PRICE, advisable, strategies_to_try
from pulsar_barycenter.lab.errors import GridError
from pulsar_barycenter.lab.inputs import GENERATED, Input, InputSpec, Source, read_source, size_of
from pulsar_barycenter.lab.programs.recommendation import Recommendation
from pulsar_barycenter.lab.programs.results import ReplayResults
from pulsar_barycenter.lab.report.overview import About
from pulsar_barycenter.lab.running import RUNS, RunFile, read_run, run_on_processes
from pulsar_barycenter.load.managers import MANAGER_KEY, in_its_place
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.pipeline.history import END_OF_TIME
from pulsar_barycenter.replay.advice.search import LEAST_SEEDS
from pulsar_barycenter.replay.advice.weighing import PRICES
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.grid import CONFIGURED, periods_of, scenarios_of
from pulsar_barycenter.replay.scenario import catalogue
from pulsar_barycenter.replay.what_if import Question, start_of
from pulsar_barycenter.snapshots.decided_by import manager_of
from pulsar_barycenter.snapshots.settings_in_force import read_with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_SNAPSHOT: Final = "a snapshot"
_OF_SCENARIO: Final = "a scenario"


@dataclass(frozen=True, repr=False)
class Load:
    """The load of a cluster over time, with its brokers and settings: the input of a replay.

    `recorded_load`, `synthetic_load`, `snapshot_load`, `scenario_load`, `trace_load` and `workload_load` make it. A
    load is not changed by a replay: it can be replayed many times.

    >>> from pulsar_barycenter.replay import synthetic_load
    >>> synthetic_load(brokers=3, bundles=12, steps=60)
    <Load: 12 bundles on 3 brokers, 1 h in 60 steps>
    """

    _source: Source

    def __repr__(self) -> str:
        return f"<Load: {size_of(self._input)}>"

    @property
    def brokers(self) -> tuple[str, ...]:
        """The ids of the brokers at the start."""
        return tuple(self._input.cluster.brokers)

    @property
    def bundles(self) -> tuple[str, ...]:
        """The names of the bundles at the start."""
        return tuple(self._input.demand.bundles)

    @property
    def start(self) -> datetime:
        """The begin of the first step, in UTC."""
        return datetime.fromtimestamp(self._input.demand.start_ms / 1000, UTC)

    @property
    def step(self) -> timedelta:
        """The length of a step."""
        return timedelta(milliseconds=self._input.demand.step_ms)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self._input.demand.steps

    @property
    def settings(self) -> Mapping[str, str]:
        """The keys of broker.conf, with their values as texts, that were recorded with the load; empty for generated
        load. A replay of the strategy "configured" uses the strategies that these keys name.
        """
        return dict(self._input.settings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of the data, one sentence each."""
        return tuple(self._input.warnings)

    def replay(
        self,
        strategies: str | Sequence[str] = CONFIGURED,
        *,
        settings: Mapping[str, object] | None = None,
        seeds: Iterable[int] = (0,),
        parts: int = 1,
        processes: int = 1,
    ) -> ReplayResults:
        """Replay the load with every strategy, combination of settings, seed and period, and return all runs.

        A run uses the live leader's own code for rounds. The same arguments give the same results.

        Args:
            strategies: The name of a shedder, SHEDDER+PLACEMENT, or the name of a load manager; or a list of these.
                "configured": the strategies that `Load.settings` names. docs/replay.md has the names; a strategy of an
                installed package has its own name.
            settings: Keys of broker.conf, each with a value or a list of values to try.
            seeds: The seeds of random choices, and of synthetic load.
            parts: The number of periods of about equal length into which the load is split; each period is replayed
                separately.
            processes: How many processes of this machine to use; 1: this one. With more, a script needs the usual
                `if __name__ == "__main__":`; a notebook does not.

        Raises:
            ReplayInputError: a key is unknown, the load cannot be replayed, or there are too many or too few runs.
            StrategyError: a strategy does not exist, or two cannot be combined.
            ConfigError: a value is not allowed.
            GridError: a run failed; the text says why.

        >>> from pulsar_barycenter.replay import synthetic_load
        >>> load = synthetic_load(brokers=4, bundles=16, steps=20)
        >>> results = load.replay("AvgShedder", settings={"loadBalancerAvgShedderLowThreshold": [10, 15]})
        >>> sorted(results.medians()["settings"].to_pylist())
        ['loadBalancerAvgShedderLowThreshold=10', 'loadBalancerAvgShedderLowThreshold=15']
        """
        base = dict(self._input.settings)
        varied = [[(key, _text(value)) for value in _values(values)] for key, values in (settings or {}).items()]
        names = (strategies,) if isinstance(strategies, str) else tuple(strategies)
        grid = scenarios_of(names, varied, list(seeds), periods_of(self.steps, parts), base)
        runs: list[RunFile] = []
        with TemporaryDirectory(prefix="barycenter-replay-") as folder:
            out = Path(folder)
            (out / RUNS).mkdir()
            for ended in run_on_processes(grid, self._source, base, out, processes):
                if ended.reason:
                    raise GridError(f"the run {ended.scenario.told} failed: {ended.reason}")
            runs += [run for scenario in grid if (run := read_run(out, scenario)) is not None]
        return ReplayResults(tuple(runs), About("", size_of(self._input), self.warnings, base))

    def advise(
        self,
        strategies: Sequence[str] = (),
        *,
        settings: Mapping[str, object] | None = None,
        prefer: str | float = "both",
        seeds: Iterable[int] = (1, 2, 3),
        processes: int = 1,
    ) -> Recommendation:
        """Recommend a load manager, a strategy and settings for this load, as `barycenter advise` does.

        A configuration is selected on the first part of the load and confirmed on the rest; a change is recommended
        only if it is better by more than noise. This runs hundreds of replays; progress is printed on standard error.

        Args:
            strategies: Try only these; empty: all that the cluster can run.
            settings: Vary only these keys of broker.conf, each with a value or a list of values; None: those that the
                search selects.
            prefer: What it costs to disturb every client once a day, in percentage points of a broker's usage:
                "balance" (1), "both" (5), "calm" (25), or a number from 0 to 10,000.
            seeds: The seeds of random choices, at least two.
            processes: How many processes of this machine to use; 1: this one.

        Raises:
            ReplayInputError: the load is too short, such as that of a snapshot or a scenario; it is in a bucket; or a
                setting is not valid.
            StrategyError: a strategy does not exist.
            ConfigError: a value is not allowed.
            ValueError: `prefer` is not valid, or there are too few seeds.

        >>> from pulsar_barycenter.replay import recorded_load
        >>> load = recorded_load("docs/examples/history")
        >>> load.advise(["AvgShedder"], settings={"loadBalancerAvgShedderLowThreshold": [15, 20]}).verdict
        'keep'
        """
        numbers = list(seeds)
        if len(numbers) < LEAST_SEEDS:
            raise ValueError(f"seeds={numbers}: give {LEAST_SEEDS} or more, to tell a gain from chance")
        price = PRICES[prefer] if isinstance(prefer, str) and prefer in PRICES else prefer
        if isinstance(price, str) or not 0 <= price <= HIGHEST_PRICE:
            raise ValueError(f"prefer={prefer}: give {', '.join(PRICES)}, or a number from 0 to {HIGHEST_PRICE:g}")
        spec = self._source.spec
        if spec.paths[0] in (_OF_SNAPSHOT, _OF_SCENARIO):
            raise ReplayInputError(
                f"{spec.paths[0]} is too short for advice: give a recorded or a synthetic load of some hours"
            )
        sets = [f"{key}={','.join(map(_text, _values(values)))}" for key, values in (settings or {}).items()]
        found = self._source.input(numbers[0])
        chosen = strategies_to_try(found, tuple(strategies))
        return Recommendation(advisable(spec, found, chosen, sets, price).advice(numbers, processes))

    @property
    def _input(self) -> Input:
        """The input of a replay with the seed 0."""
        return self._source.input(0)


def recorded_load(
    folder: str | PathLike[str],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    step: timedelta = timedelta(minutes=1),
    spark: "SparkSession | None" = None,
) -> Load:
    """Return the load that a history recorded, with its settings, its brokers, and the times when brokers joined or
    left.

    Args:
        folder: A data folder with the pipeline's tables, or an address, as for `open_history` of
            `pulsar_barycenter.history`.
        since: The begin of the period, inclusive. None: from the first report on.
        until: The end of the period, exclusive. None: after the last report, which is included.
        step: The length of a step.
        spark: A Spark session that reads the address, with its own credentials. None: Arrow reads it.

    Raises:
        WrongFolderError: the folder is not a data folder.
        NoHistoryError: the tables have no rows in the period.
        ReplayInputError: the history has gaps of more than 20 minutes, or cannot be replayed for another reason.
        ConfigError: a broker.conf in the folder is not valid.
        OSError: the folder or bucket cannot be read.

    >>> from pulsar_barycenter.replay import recorded_load
    >>> recorded_load("docs/examples/history")
    <Load: 24 bundles on 3 brokers, 2 h in 120 steps>
    """
    address = fspath(folder)
    spec = InputSpec(
        paths=(address,),
        since_ms=epoch_ms(since, 0),
        until_ms=epoch_ms(until, END_OF_TIME),
        step_ms=_step_ms(step),
    )
    return Load(read_source(spec, storage_at(address, spark)))


def synthetic_load(
    *,
    brokers: int = 10,
    bundles: int = 128,
    namespaces: int = 1,
    steps: int = 180,
    step: timedelta = timedelta(minutes=1),
    rate: float = 200_000.0,
    spread: float = 0.8,
    swing: float = 0.0,
    noise: float = 0.05,
    fan_out: float = 1.0,
    bytes_a_message: float = 1_024.0,
    topics: int = 10,
    cores: float = 8.0,
) -> Load:
    """Return generated load; it differs between the seeds of a replay.

    Args:
        brokers: The number of brokers.
        bundles: The number of bundles, over all namespaces.
        namespaces: The number of namespaces.
        steps: The number of steps.
        step: The length of a step.
        rate: The rate in of all bundles together, msg/s, as a mean over the day.
        spread: The standard deviation of the logarithm of the bundles' sizes, which are log-normal.
        swing: The amplitude of the daily swing, from 0 (none) to 1.
        noise: The standard deviation of the logarithm of each sample.
        fan_out: How many times each message is delivered: the rate out divided by the rate in.
        bytes_a_message: The size of a message, in bytes.
        topics: The number of topics of each bundle.
        cores: The number of cores of each broker.

    Raises:
        ReplayInputError: a value is out of its bounds.

    >>> from pulsar_barycenter.replay import synthetic_load
    >>> synthetic_load(brokers=2, bundles=8, steps=30).brokers
    ('broker-0001:8080', 'broker-0002:8080')
    """
    shape = {
        "brokers": brokers,
        "bundles": bundles,
        "namespaces": namespaces,
        "steps": steps,
        "rate": rate,
        "spread": spread,
        "swing": swing,
        "noise": noise,
        "fan_out": fan_out,
        "bytes_a_message": bytes_a_message,
        "topics": topics,
        "cores": cores,
    }
    return _checked(InputSpec(paths=(GENERATED,), shape=_texts(shape), step_ms=_step_ms(step)))


def trace_load(
    *files: str | PathLike[str],
    brokers: int = 5,
    bundles: int | None = None,
    topics: int | None = None,
    scale: float = 1.0,
    bytes_a_message: float | None = None,
    cores: float = 8.0,
    step: timedelta = timedelta(minutes=1),
) -> Load:
    """Return a load that follows recorded counts of events: the rate of `topics` topics follows the values of one file.

    Args:
        files: CSV files of `timestamp,value` at equal intervals; a value is a count of events.
        brokers: The number of brokers.
        bundles: The number of bundles. For this argument and the two others that can be None, None means the default of
            `barycenter replay`.
        topics: The number of topics for each file.
        scale: The factor by which all values are multiplied.
        bytes_a_message: The size of a message, in bytes.
        cores: The number of cores of each broker.
        step: The length of a step, at most the interval of the files.

    Raises:
        ReplayInputError: a file is not valid; the text names the file and the line.
        OSError: a file cannot be read.
    """
    if not files:
        raise ReplayInputError("give at least one CSV file of timestamp,value")
    shape = {
        "brokers": brokers,
        "bundles": bundles,
        "topics": topics,
        "scale": scale,
        "bytes_a_message": bytes_a_message,
        "cores": cores,
    }
    return _checked(InputSpec(paths=tuple(fspath(file) for file in files), shape=_texts(shape), step_ms=_step_ms(step)))


def workload_load(
    file: str | PathLike[str],
    *,
    brokers: int = 5,
    bundles: int | None = None,
    cores: float = 8.0,
    step: timedelta = timedelta(minutes=1),
) -> Load:
    """Return the load of a workload file (.yaml) of the OpenMessaging benchmark.

    Args:
        file: The workload file.
        brokers: The number of brokers.
        bundles: The number of bundles. None: the default of `barycenter replay`.
        cores: The cores of each broker.
        step: The length of a step.

    Raises:
        ReplayInputError: the file is not valid; the text says why.
        OSError: the file cannot be read.
    """
    shape = {"brokers": brokers, "bundles": bundles, "cores": cores}
    return _checked(InputSpec(paths=(fspath(file),), shape=_texts(shape), step_ms=_step_ms(step)))


def snapshot_load(
    snapshot: LoadSnapshot | str | PathLike[str],
    *,
    at: datetime | None = None,
    without: Sequence[str] = (),
    add_brokers: int = 0,
    scale_load: float = 1.0,
    minutes: int = 30,
) -> Load:
    """Return the constant load of a cluster at one moment. A replay of it shows what the leader would do next.

    `barycenter plan` does the same. The requested change happens after two minutes.

    Args:
        snapshot: A snapshot, or what `barycenter decide` reads: a file of `barycenter snapshot`, a load report, a
            folder of load reports, or a data folder.
        at: The time of the state, for a data folder. None: the newest.
        without: The ids (HOST:PORT) of brokers that leave at the change.
        add_brokers: The number of brokers that join at the change.
        scale_load: The factor by which the load is multiplied at the change.
        minutes: How long the replay continues after the change.

    Raises:
        ReplayInputError: no broker has bundles, a broker is unknown, or a number is out of its bounds.
        SnapshotFileError: the content of the file has no known form, or is not valid.
        ConfigError: a broker.conf in the folder is not valid.
        OSError: a file cannot be read.

    >>> from pulsar_barycenter.replay import snapshot_load
    >>> snapshot_load("docs/examples/snapshot.json", minutes=58).steps
    60
    """
    question = Question(without=tuple(without), added=add_brokers, scale=scale_load, minutes=minutes)
    settings: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    if isinstance(snapshot, LoadSnapshot):
        state = snapshot
    else:
        found = read_with_settings(Path(snapshot), epoch_ms(at, 0) or None)
        state, warnings = found.snapshot, tuple(found.warnings)
        settings = {**found.configuration, MANAGER_KEY: manager_of(found, None).class_name}
    start = start_of(state, question)
    of_snapshot = Input(start.demand, start.cluster, start.events, settings, warnings)
    return Load(Source(InputSpec(paths=(_OF_SNAPSHOT,)), recorded=of_snapshot))


def scenario_load(name: str) -> Load:
    """Return the load of a scenario of `barycenter balance-bench`; it differs between the seeds of a replay.

    Args:
        name: One of `scenario_names`.

    Raises:
        ReplayInputError: there is no such scenario.

    >>> from pulsar_barycenter.replay import scenario_load, scenario_names
    >>> load = scenario_load("broker-added")
    >>> "broker-added" in scenario_names()
    True
    """
    known = catalogue()
    if name not in known:
        raise ReplayInputError(f"there is no scenario {name!r}; {in_its_place(name, known)}")
    return Load(Source(InputSpec(paths=(_OF_SCENARIO,)), case=name))


def scenario_names() -> Mapping[str, str]:
    """Return the scenarios of `barycenter balance-bench`: the names, each with a sentence about what happens.

    >>> from pulsar_barycenter.replay import scenario_names
    >>> "two-of-five-stop" in scenario_names()
    True
    """
    return {name: case.about for name, case in catalogue().items()}


def _checked(spec: InputSpec) -> Load:
    source = read_source(spec)
    source.input(0)
    return Load(source)


def _texts(shape: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in shape.items() if value is not None}


def _values(values: object) -> Sequence[object]:
    return list(values) if isinstance(values, list | tuple | range) else [values]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _step_ms(step: timedelta) -> int:
    found = round(step / timedelta(milliseconds=1))
    if found < 1:
        raise ReplayInputError(f"step={step}: give a positive length, such as timedelta(minutes=1)")
    return found
