"""A grid of runs on processes and on Spark: the same files, runs that fail, and a command that is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.lab.inputs import InputSpec, Source, read_source
from pulsar_barycenter.lab.running import (
    RUNS,
    SHARED,
    Ended,
    GridError,
    one_command,
    open_folder,
    run_on_processes,
    waiting_of,
)
from pulsar_barycenter.lab.running import GridFile as Grid
from pulsar_barycenter.lab.spark_grid import SparkGrid
from pulsar_barycenter.pipeline.spark.hadoop_storage import HadoopStorage
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.grid import Scenario, scenarios
from support.pipeline_runs import wait_until
from support.replayed_world import recorded

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(3)]

_DEADLINE_S = 240.0
_LOW = "loadBalancerAvgShedderLowThreshold"
_NAMES = ("AvgShedder", "ThresholdShedder", "extensible")
Way = Callable[[Sequence[Scenario], Source, Path], list[Ended]]


@pytest.fixture
def ways(spark: SparkSession) -> Mapping[str, Way]:
    """All that a grid runs on."""
    return {
        "here": lambda grid, source, out: list(run_on_processes(grid, source, {}, out, 1)),
        "processes": lambda grid, source, out: list(run_on_processes(grid, source, {}, out, 2)),
        "Spark": lambda grid, source, out: list(SparkGrid(spark).run(grid, source, {}, out)),
    }


def folder(path: Path, source: Source) -> Path:
    open_folder(path, Grid(spec=source.spec, base={}, digest=""))
    return path


def runs_of(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (out / RUNS).iterdir()}


def traces(path: Path) -> Path:
    rows = (f"2026-01-01 00:{5 * row:02d}:00,{row * 100 + 50}\n" for row in range(12))
    path.write_text("timestamp,value\n" + "".join(rows))
    return path


@pytest.mark.drawn(1)
@pytest.mark.parametrize("kind", ["generated", "traces", pytest.param("recorded", marks=pytest.mark.full_form)])
def test_a_run_has_the_same_bytes_whatever_it_ran_on(ways: Mapping[str, Way], tmp_path: Path, kind: str) -> None:
    specs = {
        "generated": lambda: InputSpec(paths=("generated",), shape={"brokers": "4", "bundles": "24", "steps": "30"}),
        "traces": lambda: InputSpec(
            paths=(str(traces(tmp_path / "busy.csv")),), shape={"brokers": "3", "bundles": "8", "scale": "5000"}
        ),
        "recorded": lambda: InputSpec(paths=(str(recorded(tmp_path / "data")),)),
    }
    source = read_source(specs[kind]())
    steps = source.input(1).demand.steps
    grid = scenarios(_NAMES, [f"{_LOW}=5,15"], [1, 2], [(0, steps // 2), (steps // 2, steps)], {})
    found = {}
    for name, run in ways.items():
        out = folder(tmp_path / name, source)
        with one_command(out):
            ended = run(waiting_of(grid, out), source, out)
        assert {each.scenario.name for each in ended} == {each.name for each in grid}
        assert not any(each.reason for each in ended)
        found[name] = runs_of(out)
        assert not (out / SHARED).exists()
    assert len(found["here"]) == len(grid) == 24
    assert found["processes"] == found["here"]
    assert found["Spark"] == found["here"]


def test_a_run_that_fails_says_why_and_the_others_go_on(ways: Mapping[str, Way], tmp_path: Path) -> None:
    """Scenarios that `scenarios` would have refused: no such strategy, steps that there are not, a value out of range.

    And one that nobody foresaw: an input whose figures are of the wrong shape.
    """
    source = read_source(InputSpec(paths=("generated",), shape={"brokers": "2", "bundles": "4", "steps": "5"}))
    good = [Scenario(strategy=name, period=(0, 5)) for name in _NAMES]
    bad = [
        Scenario(strategy="Nonsense", period=(0, 5)),
        Scenario(strategy="no-op", period=(5, 9)),
        Scenario(strategy="AvgShedder", settings={_LOW: "x"}, period=(0, 5)),
    ]
    reasons = (
        "there is no shedder or load manager 'Nonsense'",
        "the chosen period, step 5 to step 9, is not within the steps of the input (0 to 5)",
        _LOW,
    )
    for name, run in ways.items():
        out = folder(tmp_path / name, source)
        why = {each.scenario.name: each.reason for each in run([bad[0], *good, *bad[1:]], source, out)}
        assert set(runs_of(out)) == {f"{each.name}.json" for each in good}
        for scenario, reason in zip(bad, reasons, strict=True):
            assert reason in why[scenario.name]
    whole = source.input(0)
    wrong = msgspec.structs.replace(source.spec, shape={})
    broken = Source(wrong, recorded=type(whole)(whole.demand.period(0, 5), whole.cluster))
    object.__setattr__(broken.recorded.demand, "sessions", np.ones((2, 2)))  # type: ignore[union-attr]
    for name, run in ways.items():
        (only,) = run(good[:1], broken, folder(tmp_path / f"{name} broken", broken))
        assert only.reason.startswith(("ValueError: ", "IndexError: ")), only.reason


class Deadly:
    """An input that ends the process that looks at it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (3,)


def test_a_scenario_that_kills_its_process_is_told(ways: Mapping[str, Way], tmp_path: Path) -> None:
    spec = InputSpec(paths=("generated",), shape={"brokers": "2", "bundles": "4", "steps": "5"})
    source = Source(spec, recorded=Deadly())  # type: ignore[arg-type]
    grid = [Scenario(strategy=name, period=(0, 5)) for name in _NAMES]
    with pytest.raises(GridError, match="a process that ran scenarios ended unexpectedly"):
        ways["processes"](grid, source, folder(tmp_path / "processes", source))
    with pytest.raises(
        GridError,
        match=r"the Spark job failed on \w+, seed 0, steps 0 to 5: Python worker "
        "exited unexpect",
    ):
        ways["Spark"](grid, source, folder(tmp_path / "Spark", source))


def test_a_folder_is_worked_in_by_one_command_at_a_time(tmp_path: Path) -> None:
    with one_command(tmp_path):
        (tmp_path / SHARED).touch()
        with pytest.raises(ReplayInputError, match="another replay writes into"), one_command(tmp_path):
            pass
        assert (tmp_path / SHARED).exists()
    assert not (tmp_path / SHARED).exists()
    with one_command(tmp_path):
        pass


def test_a_data_folder_elsewhere_is_read_as_one_of_this_machine(spark: SparkSession, tmp_path: Path) -> None:
    spec = InputSpec(paths=(str(recorded(tmp_path / "data")),))
    here = read_source(spec).input(0)
    there = read_source(spec, HadoopStorage(spark, f"file://{tmp_path}/data")).input(0)
    assert (there.demand.bundles, there.demand.owners) == (here.demand.bundles, here.demand.owners)
    for name in ("rate_in", "rate_out", "throughput_in", "throughput_out", "sessions", "topics"):
        np.testing.assert_array_equal(getattr(there.demand, name), getattr(here.demand, name))
    assert there.cluster == here.cluster
    assert there.events == here.events
    assert "settings are only read from a folder on this machine" in there.warnings[0]


@pytest.mark.parametrize(
    "on",
    [
        pytest.param(("--processes", "2"), id="processes"),
        pytest.param(("--master", "local[2]"), id="Spark", marks=pytest.mark.full_form),
    ],
)
def test_a_command_that_is_killed_leaves_nobody_behind_and_the_next_does_only_the_rest(
    tmp_path: Path, on: tuple[str, str]
) -> None:
    """SIGKILL once a run is done and others are not; the results are those of a command that nobody killed."""
    shape = ("brokers=20", "bundles=1000", "steps=200", "rate=2000000")
    words = ["replay", "--input", "generated", *(word for each in shape for word in ("--shape", each))]
    words += ["--strategy", "AvgShedder", "--strategy", "ThresholdShedder", "--seeds", "1-6"]
    program = [sys.executable, "-m", "pulsar_barycenter", *words]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    runs = killed / RUNS
    with subprocess.Popen([*program, *on, "--out", str(killed)], env=environment, stderr=subprocess.DEVNULL) as first:
        wait_until(lambda: runs.exists() and any(runs.glob("[!.]*")), first, within_s=_DEADLINE_S)
        below = psutil.Process(first.pid).children(recursive=True)
        first.send_signal(signal.SIGKILL)
    _, left = psutil.wait_procs(below, timeout=_DEADLINE_S)
    assert not left
    kept = {file.name: file.stat().st_mtime_ns for file in runs.glob("[!.]*")}
    assert 1 <= len(kept) < 12
    assert not (killed / "results.json").exists()

    again = subprocess.run(
        [*program, *on, "--out", str(killed)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert f"{len(kept)} of 12 runs {'is' if len(kept) == 1 else 'are'} done already" in again.stderr
    assert again.stderr.count(", seed ") == 12 - len(kept)
    assert {name: (runs / name).stat().st_mtime_ns for name in kept} == kept
    assert not (killed / SHARED).exists()
    alone = [*program, "--processes", "1", "--out", str(whole)]
    subprocess.run(alone, env=environment, capture_output=True, timeout=_DEADLINE_S, check=True)
    assert (killed / "results.json").read_bytes() == (whole / "results.json").read_bytes()
