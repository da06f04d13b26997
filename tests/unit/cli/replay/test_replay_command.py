"""`barycenter replay`: what it reads, what it writes, and that it continues where it was killed."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.lab.inputs import Input, InputSpec, read_input
from pulsar_barycenter.lab.results import RESULTS
from pulsar_barycenter.lab.results import Result as RunResult
from pulsar_barycenter.lab.running import RUNS, RunFile, run_scenario
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.observer.recorded_policies import POLICIES_FILE, PoliciesFile
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.events import BrokerAdded, BrokerRemoved
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.measures import measure
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import Shape, broker_names, generated
from support.replayed_world import BROKERS, SHAPE, World
from support.table_cases import write_tables

RECORDED = Path(__file__).parents[3] / "data" / "pipeline" / "cluster"
MADE_UP = ("--input", "generated", "--shape", "brokers=4", "--shape", "bundles=16", "--shape", "steps=20")


def run(out: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["replay", *words, "--processes", "1", "--out", str(out)])


def told(out: Path) -> list[RunResult]:
    return msgspec.json.decode((out / RESULTS).read_bytes(), type=list[RunResult])


def test_a_grid_is_told_as_a_board_as_json_and_as_parquet(tmp_path: Path) -> None:
    done = run(tmp_path, *MADE_UP, "--strategy", "AvgShedder", "--strategy", "no-op", "--seeds", "1-2", "--parts", "2")
    assert done.exit_code == 0, done.output
    assert {line.split()[0] for line in done.stdout.splitlines()} >= {"AvgShedder", "no-op"}
    results = told(tmp_path)
    assert len(results) == 8
    files = [msgspec.json.decode(path.read_bytes(), type=RunFile) for path in (tmp_path / RUNS).iterdir()]
    assert {each.scenario.name for each in files} == {each.name for each in results}
    moves = pq.read_table(tmp_path / "moves.parquet")
    assert len(moves) == sum(len(each.moves) for each in files)
    series = pq.read_table(tmp_path / "series.parquet").to_pydict()
    assert len(series["run"]) == 8 * 10
    assert all(floor <= most * (1 + 1e-9) for floor, most in zip(series["floor"], series["usage_max"], strict=True))
    brokers = pq.read_table(tmp_path / "brokers.parquet").to_pylist()
    assert len(brokers) == 8 * 10 * 4
    fullest: dict[tuple[str, int], float] = {}
    for row in brokers:
        assert row["live"]
        key = (row["run"], row["at_ms"])
        fullest[key] = max(fullest.get(key, 0.0), row["usage"])
    told_so = dict(zip(zip(series["run"], series["at_ms"], strict=True), series["usage_max"], strict=True))
    assert fullest == pytest.approx(told_so, abs=1e-4)


def test_the_report_is_told_of_and_names_the_command(tmp_path: Path) -> None:
    done = run(tmp_path, *MADE_UP, "--strategy", "AvgShedder", "--set", "loadBalancerAvgShedderLowThreshold=10,15")
    assert done.stderr.splitlines()[-1] == f"report: {tmp_path / 'report.html'}"
    page = (tmp_path / "report.html").read_text()
    typed = " ".join(
        ("barycenter replay", *MADE_UP, "--strategy AvgShedder", "--set loadBalancerAvgShedderLowThreshold=")
    )
    assert f"{typed}10,15 --processes 1 --out" in page
    assert "16 bundles on 4 brokers, 0.333333 h in 20 steps" in page


def test_the_same_grid_has_the_same_bytes_on_one_process_and_on_two(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    words = (*MADE_UP, "--strategy", "ThresholdShedder", "--strategy", "AvgShedder")
    assert run(one, *words).exit_code == 0
    assert CliRunner().invoke(main, ["replay", *words, "--processes", "2", "--out", str(two)]).exit_code == 0
    assert (one / RESULTS).read_bytes() == (two / RESULTS).read_bytes()


def test_a_killed_grid_goes_on(tmp_path: Path) -> None:
    words = (*MADE_UP, "--strategy", "AvgShedder", "--seeds", "1-3")
    assert run(tmp_path, *words).exit_code == 0
    whole = (tmp_path / RESULTS).read_bytes()
    first, second, third = sorted((tmp_path / RUNS).iterdir())
    kept = third.stat().st_mtime_ns
    first.unlink()
    second.write_bytes(second.read_bytes()[:100])
    (tmp_path / RESULTS).unlink()
    again = run(tmp_path, *words)
    assert "1 of 3 runs is done already" in again.stderr
    assert (tmp_path / RESULTS).read_bytes() == whole
    assert third.stat().st_mtime_ns == kept


def test_a_folder_of_another_input_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, *MADE_UP).exit_code == 0
    other = run(tmp_path, *MADE_UP, "--shape", "rate=5")
    assert other.exit_code == 1
    assert "has runs of another input" in other.stderr.replace("\n", " ")


def recorded_world(data: Path) -> World:
    """Record a cluster in the tables of the folder `data`."""
    world = World(3, ManagerKind.MODULAR)
    batches = []
    for step in range(SHAPE.steps):
        world.step(step)
        batches.append([(broker, world.report(row, step + 1)) for row, broker in enumerate(BROKERS)])
    data.mkdir()
    write_tables(data / "tables", batches)
    return world


def test_recorded_rules_of_administrators_are_named_as_not_followed(tmp_path: Path) -> None:
    recorded_world(tmp_path / "data")
    file, spec = tmp_path / "data" / POLICIES_FILE, InputSpec(paths=(str(tmp_path / "data"),))
    policies = PoliciesFile(tmp_path / "data")
    policies.note(1, ClusterPolicies())
    assert "the cluster had" not in " ".join(read_input(spec).warnings)
    policies.note(2, ClusterPolicies(groups={"t/n": "pair", "t/m": "pair"}))
    assert "the cluster had anti-affinity groups of 2 namespaces; the replay" in " ".join(read_input(spec).warnings)
    file.write_text("no record\n")
    assert "the recorded rules of administrators cannot be read" in " ".join(read_input(spec).warnings)


def test_a_data_folder_is_replayed_as_it_was_recorded(tmp_path: Path) -> None:
    world = recorded_world(tmp_path / "data")
    found = read_input(InputSpec(paths=(str(tmp_path / "data"),)))
    np.testing.assert_allclose(found.demand.rate_in, world.demand.rate_in)
    np.testing.assert_allclose(found.demand.throughput_out, world.demand.throughput_out)
    assert found.demand.owners == world.demand.owners
    assert found.demand.bundles == world.demand.bundles
    np.testing.assert_array_equal(found.demand.topics, world.demand.topics)
    model = found.cluster.model
    cpu = model.idle_cpu + (model.cpu_per_message + 1024 * model.cpu_per_byte) * 1e5
    assert cpu == pytest.approx(5 + 0.002 * 1e5)
    assert "R² 1.000" in " ".join(found.warnings)
    done = run(tmp_path / "out", "--input", str(tmp_path / "data"), "--strategy", "no-op")
    assert done.exit_code == 0, done.output
    noop = {"loadManagerClassName": ManagerKind.NOOP.class_name}
    recorded = measure(replay(world.demand, found.cluster, with_overrides(BrokerConfig(), noop)))
    assert told(tmp_path / "out")[0].measures.max_over_mean == pytest.approx(recorded.max_over_mean)


def test_the_tables_of_a_real_cluster_are_read(tmp_path: Path) -> None:
    done = run(tmp_path, "--input", str(RECORDED), "--strategy", "AvgShedder")
    assert done.exit_code == 0, done.output
    assert told(tmp_path)[0].measures.max_over_mean >= 1


def test_a_data_folder_may_be_named_by_its_address(tmp_path: Path) -> None:
    done = run(tmp_path, "--input", RECORDED.as_uri(), "--strategy", "no-op")
    assert done.exit_code == 0, done.output


def test_a_period_begins_with_the_brokers_that_were_there() -> None:
    """One joined and one left before; the bundles of the one that left are placed again."""
    demand = generated(Shape(brokers=3, bundles=12, steps=20), 1)
    one, two, three = broker_names(3)
    came, gone = demand.start_ms + 5 * demand.step_ms, demand.start_ms + 7 * demand.step_ms
    cluster = Cluster({one: Capacity(), two: Capacity()})
    owners = tuple(owner if owner != three else two for owner in demand.owners)
    events = (BrokerAdded(came, three, Capacity(cores=4)), BrokerRemoved(gone, two))
    found = Input(replace(demand, owners=owners), cluster, events)
    late = run_scenario(Scenario(strategy="no-op", period=(10, 20)), found, {})
    assert late.series.brokers == [2] * 10
    assert {move.destination for move in late.moves} <= {one, three}
    assert len(late.moves) == owners.count(two)
    whole = run_scenario(Scenario(strategy="no-op", period=(0, 20)), found, {})
    assert whole.series.brokers == [2] * 5 + [3] * 2 + [2] * 13


def test_traces_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "busy.csv"
    file.write_text("timestamp,value\n" + "".join(f"2026-01-01 00:{5 * row:02d}:00,{row * 100}\n" for row in range(12)))
    spec = InputSpec(paths=(str(file),), shape={"brokers": "3", "bundles": "8", "scale": "50", "topics": "5"})
    found = read_input(spec)
    assert found.demand.steps == 60
    assert found.demand.sources == 5
    later = read_input(msgspec.structs.replace(spec, since_ms=found.demand.start_ms + 600_000))
    assert later.demand.steps == 50


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((*MADE_UP, "--strategy", "AvgSheder"), 1, "did you mean AvgShedder"),
        ((*MADE_UP, "--set", "minUnloadMesage=1"), 1, "did you mean minUnloadMessage"),
        ((*MADE_UP, "--shape", "size=3"), 1, "--shape size=3: synthetic load has"),
        ((*MADE_UP, "--shape", "rate=-3"), 1, "give a number of at least 0"),
        ((*MADE_UP, "--shape", "rate"), 1, "give key=value"),
        ((*MADE_UP, "--seeds", "3-1"), 2, "give one to 10000 seeds"),
        ((*MADE_UP, "--seeds", "x"), 2, "give a number, or a range"),
        ((*MADE_UP, "--parts", "50"), 1, "20 steps cannot be divided into 50 periods"),
        (("--input", "{tmp}/none"), 1, "there is no folder"),
        (("--input", "{tmp}/none.csv"), 1, "No such file"),
        (("--input", "{tmp}"), 1, "there is no history yet"),
        (("--input", str(RECORDED), "--until", "2001-01-01T00:00"), 1, "no matching rows in this period"),
        (("--input", "s3a://bucket/load.csv"), 1, "CSV traces can be read only from this machine"),
        (("--input", "file://host/data"), 1, "names a host, which a file: address cannot have"),
        ((*MADE_UP, "--master", "mesos://x"), 2, "is not a Spark master"),
        ((*MADE_UP, "--master", "local[1]", "--conf", "executor.memory=1g"), 2, "begins with `spark.`"),
        (("--input", str(RECORDED), "--shape", "brokers=3"), 1, "--shape is for CSV traces and synthetic load"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_any_run(
    tmp_path: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    done = run(out, *(word.replace("{tmp}", str(tmp_path / "in")) for word in words))
    assert done.exit_code == code, done.output
    assert text in done.stderr.replace("\n", " ")
    assert not list(out.glob("runs/*"))


def test_tables_of_another_version_are_refused(tmp_path: Path) -> None:
    world = World(0, ManagerKind.MODULAR)
    world.step(0)
    tables = tmp_path / "tables"
    write_tables(tables, [[(broker, world.report(row, 1)) for row, broker in enumerate(BROKERS)]])
    for file in tables.glob("bundle_samples/*/*.parquet"):
        pq.write_table(pq.ParquetFile(file).read().drop_columns(["topics"]), file)
    with pytest.raises(DamagedTableError, match=r"has no column topics; another version.*pipeline refold"):
        read_input(InputSpec(paths=(str(tmp_path),)))
