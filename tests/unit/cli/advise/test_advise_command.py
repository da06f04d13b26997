"""`barycenter advise`: what it reads, prints and writes, and what it refuses before any run."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_conf import parse_broker_conf
from pulsar_barycenter.lab.advising import advise, trying
from pulsar_barycenter.lab.advising.reality import reality_of
from pulsar_barycenter.lab.inputs import InputSpec
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.observer.report_numbers import OF_APACHE_PULSAR
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.replay.advice.changes import commands, fragment
from pulsar_barycenter.replay.advice.document import Advice, AdviceVerdict
from pulsar_barycenter.replay.synthetic.demand import START_MS
from support.replayed_world import BROKERS, SHAPE, World
from support.table_cases import at, write_tables

RECORDED = Path(__file__).parents[3] / "data" / "pipeline" / "cluster"
LOW = "loadBalancerAvgShedderLowThreshold"
SHAPED = ("brokers=4", "bundles=16", "steps=60", "rate=400000")
MADE_UP = ("--input", "generated", *(word for pair in SHAPED for word in ("--shape", pair)))
STD = "loadBalancerBrokerLoadTargetStd"
FEW = ("--strategy", "AvgShedder", "--set", f"{LOW}=5,15", "--seeds", "1-2")
OTHERS = ("--strategy", "extensible", "--set", f"{STD}=0.05,0.1", "--seeds", "1-2")
"""On the made-up load above these are better."""


def run(*words: str, processes: int = 1) -> Result:
    return CliRunner().invoke(main, ["advise", *words, "--processes", str(processes)])


def in_one_line(result: Result) -> str:
    return " ".join(result.stderr.split())


def test_an_advice_is_printed_and_written(tmp_path: Path) -> None:
    done = run(*MADE_UP, *OTHERS, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    told = msgspec.json.decode((tmp_path / "advice.json").read_bytes(), type=Advice)
    assert " ".join(done.stdout.split()).startswith(told.sentence)
    assert told.verdict is AdviceVerdict.CHANGE
    assert {each.key: each.advised for each in told.changes}[STD] in ("0.05", "0.1")
    read = parse_broker_conf((tmp_path / "broker.conf.fragment").read_text(), "fragment")
    assert manager_in_force(read.config) is ManagerKind.EXTENSIBLE
    assert not read.unknown_keys
    script = (tmp_path / "commands.sh").read_text()
    assert f"pulsar-admin brokers update-dynamic-config --config {STD} --value 0." in script
    assert "--config loadManagerClassName" not in script
    assert script.index("First write broker.conf.fragment") < script.index("pulsar-admin")
    titles = ("What changes", "Held-out part", "What gets worse", "One setting changed by a notch", "Mind")
    places = [done.stdout.index(title) for title in titles]
    assert places == sorted(places)
    assert "1 h of history say nothing about other times of the day" in " ".join(done.stdout.split())


def test_json_is_what_is_written_and_the_same_every_time_on_any_processes(tmp_path: Path) -> None:
    one = run(*MADE_UP, *FEW, "--out", str(tmp_path), "--json")
    two = run(*MADE_UP, *FEW, "--format", "json", processes=2)
    assert one.exit_code == two.exit_code == 0, one.output + two.output
    assert one.stdout_bytes == two.stdout_bytes == (tmp_path / "advice.json").read_bytes()


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_no_line_is_wider_than_the_terminal_but_for_names(columns: int) -> None:
    done = CliRunner().invoke(main, ["advise", *MADE_UP, *OTHERS, "--processes", "1"], env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines() if "loadbalance" not in line.lower()) <= columns


def test_how_long_it_takes_is_told_if_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr(trying.time, "monotonic", lambda: next(seconds) * 20.0)
    done = run(*MADE_UP, *FEW)
    assert "this takes about" in done.stderr
    assert "trying 1 configuration on" in done.stderr or "trying 2 configurations" in done.stderr


def recorded(folder: Path, steps: int = 66) -> Path:
    """Write the tables of a cluster of four brokers, of which one takes 1.6 times the CPU of the others."""
    world = World(3, ManagerKind.MODULAR)
    batches = []
    for step in range(steps):
        world.step(step % SHAPE.steps)
        world.now_ms = START_MS + step * SHAPE.step_ms
        batches.append([(broker, _report(world, row, step + 1)) for row, broker in enumerate(BROKERS)])
    folder.mkdir()
    write_tables(folder / "tables", batches)
    return folder


def _report(world: World, row: int, sequence: int) -> LocalBrokerData:
    report = world.report(row, sequence)
    if row == 1:
        more = msgspec.structs.replace(report.cpu, usage=report.cpu.usage * 1.6)
        return msgspec.structs.replace(report, cpu=more)
    return report


def test_a_cluster_of_apache_pulsar_is_advised_what_it_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its reports, which name no incarnation, so that `collect` makes one. None of ours is tried."""
    data = recorded(tmp_path / "data")
    for file in (data / "tables").rglob("*.parquet"):
        rows = pq.ParquetFile(file).read()
        if "incarnation" in rows.column_names:
            place = rows.column_names.index("incarnation")
            life = pa.array([f"{OF_APACHE_PULSAR}1763-18c"] * len(rows))
            pq.write_table(rows.set_column(place, rows.schema.field(place), life), file)
    words = ("--input", str(data), "--seeds", "1-2", "--set", f"{LOW}=5,15")
    refused = run(*words, "--strategy", "LeastDisturbance")
    assert refused.exit_code == 1
    assert "LeastDisturbance is a strategy of Barycenter, and the recorded cluster runs Apache Pulsar" in in_one_line(
        refused
    )
    monkeypatch.setattr(advise, "BENCHED", ("AvgShedder", "LeastDisturbance"))
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    assert "LeastDisturbance" not in done.stdout
    ours = run("--input", str(recorded(tmp_path / "ours")), "--seeds", "1-2", "--set", f"{LOW}=5,15", "--json")
    assert "LeastDisturbance" in ours.stdout, "brokers of ours can run it"


def test_what_is_for_barycenter_alone_is_said_in_the_files_of_an_advice(tmp_path: Path) -> None:
    done = run(*MADE_UP, *OTHERS, "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    advice = msgspec.json.decode(done.stdout, type=Advice)
    change = msgspec.structs.replace(
        advice.changes[0], key="loadBalancerLoadSheddingStrategy", advised="barycenter.LeastDisturbance"
    )
    ours = msgspec.structs.replace(advice, changes=[change])
    for text in (fragment(ours), commands(ours)):
        assert "Only for brokers of Barycenter" in text
    assert "Only for brokers of Barycenter" not in (tmp_path / "commands.sh").read_text()


def write_moves(data: Path, moves: int, step_s: int) -> None:
    """Write the owners of a bundle that moved back and forth between two brokers, each time after this number of
    seconds."""
    write_owners(data, [(BROKERS[number % 2], number * step_s) for number in range(moves + 1)])


def write_owners(data: Path, owners: Sequence[tuple[str, int]]) -> None:
    """Write the owners of a bundle, each from a given second on."""
    names = TABLES["ownership"].arrow_schema
    ends = [since_s for _, since_s in owners[1:]]
    rows = [
        {
            "bundle": "public/ns-0000/0x00000000_0x20000000",
            "broker": broker,
            "incarnation": "",
            "owned_from": at(START_MS + since_s * 1000),
            "owned_to": None if until_s is None else at(START_MS + until_s * 1000),
            "ended": None if until_s is None else "moved",
        }
        for (broker, since_s), until_s in zip(owners, [*ends, None], strict=True)
    ]
    folder = data / "tables" / "ownership" / f"date={at(START_MS):%Y-%m-%d}"
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist([{name: row.get(name) for name in names.names} for row in rows], schema=names)
    pq.write_table(table, folder / "batch-000000000000.parquet")


def test_of_a_recorded_history_its_own_moves_and_its_brokers_are_told(tmp_path: Path) -> None:
    data = recorded(tmp_path / "data")
    write_moves(data, 3, 600)
    done = run("--input", str(data), *FEW, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    told = msgspec.json.decode((tmp_path / "out" / "advice.json").read_bytes(), type=Advice)
    observed = {each.title: each.recorded for each in told.observed}
    assert observed["bundles moved by the leader"] == 3
    assert observed["flaps"] == 2  # the second and the third, each ten minutes after the one before
    assert "The recorded history, and its replay with the present configuration" in done.stdout
    assert any("the real balance is not known" in each for each in told.warnings)
    weak = [each for each in told.findings if each.subject == BROKERS[1]]
    assert [round(each.figures["factor"], 1) for each in weak] == [1.6]


def test_a_bundle_that_comes_back_by_way_of_another_broker_within_an_hour_has_flapped(tmp_path: Path) -> None:
    data = recorded(tmp_path / "data")
    write_owners(data, [(BROKERS[0], 0), (BROKERS[1], 600), ("third:8080", 1_700), (BROKERS[0], 3_700)])
    observed = reality_of(InputSpec(paths=(str(data),))).observed
    assert observed is not None
    assert observed.flaps == 2, "1,100 s after the move before; 3,100 s after it had left"


def test_a_history_without_owners_and_balance_is_told_by_its_replay_alone(tmp_path: Path) -> None:
    done = run("--input", str(recorded(tmp_path / "data")), *FEW, "--json")
    assert done.exit_code == 0, done.output
    told = msgspec.json.decode(done.stdout_bytes, type=Advice)
    assert told.observed == []
    assert any("real moves are not known" in each for each in told.warnings)


def test_a_topic_of_a_trace_is_named(tmp_path: Path) -> None:
    rows = [f"2026-01-01 {5 * row // 60:02d}:{5 * row % 60:02d}:00,{5000 + row}\n" for row in range(48)]
    for name, scale in (("hot", 40), ("mild", 1)):
        scaled = [f"{line.split(',')[0]},{int(line.split(',')[1]) * scale}\n" for line in rows]
        (tmp_path / f"{name}.csv").write_text("timestamp,value\n" + "".join(scaled))
    words = [word for name in ("hot", "mild") for word in ("--input", str(tmp_path / f"{name}.csv"))]
    shape = ("--shape", "brokers=3", "--shape", "topics=1", "--shape", "scale=200", "--step", "5m")
    done = run(*words, *shape, *FEW, "--json")
    assert done.exit_code == 0, done.output
    told = msgspec.json.decode(done.stdout_bytes, type=Advice)
    assert "persistent://public/ns-0000/hot-0" in {each.subject for each in told.findings}
    assert "hot-0 alone needs" in " ".join(each.sentence for each in told.findings)


def test_next_to_no_load_is_told() -> None:
    done = run("--input", "generated", *(w for p in SHAPED[:3] for w in ("--shape", p)), "--shape", "rate=100", *FEW)
    assert done.exit_code == 0, done.output
    assert "there is almost nothing to balance" in " ".join(done.stdout.split())
    assert done.stdout.startswith("This cluster is well set up (AvgShedder)")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((*MADE_UP, "--strategy", "AvgSheder"), 1, "did you mean AvgShedder"),
        ((*MADE_UP, "--set", "minUnloadMesage=1"), 1, "did you mean minUnloadMessage"),
        ((*MADE_UP, "--set", f"{LOW}=10,200"), 1, f"{LOW} must be a whole number from 0 to 100"),
        ((*MADE_UP, "--set", "loadManagerClassName=simple"), 1, "is a key that --strategy sets"),
        ((*MADE_UP, "--strategy", "AvgShedder", "--set", f"{LOW}=15"), 1, "there is nothing to choose from"),
        ((*MADE_UP, "--seeds", "1"), 2, "give 2 or more"),
        ((*MADE_UP, "--prefer", "peace"), 2, "--prefer peace: give balance, both, calm, or a number"),
        ((*MADE_UP, "--prefer", "-1"), 2, "--prefer -1: give balance, both, calm, or a number"),
        (("--input", "generated", "--shape", "steps=59"), 1, "a history of 59 min in 59 steps is too short"),
        (("--input", str(RECORDED)), 1, "is too short to choose settings by one part of it"),
        (("--input", str(RECORDED), "--until", "2001-01-01T00:00"), 1, "no matching rows in this period"),
        (("--input", "{tmp}"), 1, "there is no history yet"),
        (("--input", "{tmp}/none"), 1, "there is no folder"),
        (("--input", "{tmp}/none.csv"), 1, "No such file"),
    ],
)
def test_what_cannot_be_advised_is_refused_before_any_run(
    tmp_path: Path, words: tuple[str, ...], code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trying, "attempt", lambda *_: pytest.fail("a run has begun"))
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    done = run(*(word.replace("{tmp}", str(tmp_path / "in")) for word in words), "--out", str(out))
    assert done.exit_code == code, done.output
    assert text in in_one_line(done)
    assert not out.exists()
