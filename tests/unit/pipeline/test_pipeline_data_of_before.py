"""A data folder that an earlier version wrote gives the same answers: tables, state, publication and status."""

import json
from collections import defaultdict
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, weighted_resource_usage
from pulsar_barycenter.load.reports.windows import LiveFold
from pulsar_barycenter.pipeline.held import LONGEST_HELD
from pulsar_barycenter.pipeline.history import UNKNOWN, History
from pulsar_barycenter.pipeline.running.status import read_status
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.state import BatchMemory, StateFolder
from pulsar_barycenter.pipeline.tables.files import live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.snapshots.pipeline_tables import read_tables
from support.data_of_before import copied, logged
from support.mean_oracles import Sample, mean_and_ticks
from support.publications import decoded

LATER = {"decisions": ("manager", "principal", "request")}
"""Columns that came after."""
TICK_MS = 20_000
"""Its reports are multiples of it apart."""
HELD_TICKS = round(LONGEST_HELD.total_seconds() * 1000) // TICK_MS
DECIDED_ABOUT = "public/default/0x00000000_0x55555555"


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return copied(tmp_path / "cluster")


def folded(layout: PipelineLayout) -> LiveFold:
    """The averages of the reports there, but for the one that waits."""
    fold = LiveFold()
    for report in logged(layout)[:-1]:
        fold.accept(str(report.broker_id), report)
    return fold


def test_its_files_have_the_columns_of_the_tables(layout: PipelineLayout) -> None:
    """A compacted file of the first two batches and one of the third; no ownership changed in the second.

    The texts of the comments may differ, as a later release may describe a column in other words.
    """
    for name, table in TABLES.items():
        files = live_files(layout.tables, name)
        first = "batch-000000000000.parquet" if name == "ownership" else "batch-000000000000-000000000001.parquet"
        assert [file.name for file in files] == [first, "batch-000000000002.parquet"]
        known = pa.schema([field for field in table.arrow_schema if field.name not in LATER.get(name, ())])
        for file in files:
            schema = pq.read_schema(file)
            assert schema.equals(known), name
            assert [list(field.metadata or ()) for field in schema] == [list(field.metadata or ()) for field in known]


def test_questions_about_load_are_answered_from_its_tables(layout: PipelineLayout) -> None:
    """Means, owners and shares are those of the reports next to the tables."""
    samples, times, usages = defaultdict(list), defaultdict(list), defaultdict(list)
    for report in logged(layout)[:-1]:
        tick = report.last_update // TICK_MS
        times[report.broker_id].append(tick)
        usages[report.broker_id].append(weighted_resource_usage(report, DEFAULT_WEIGHTS))
        for bundle, stats in report.last_stats.items():
            samples[bundle].append(Sample(bundle, str(report.broker_id), tick, stats.msg_rate_in + stats.msg_rate_out))
    history = History(layout)
    begin, end = min(map(min, times.values())), max(map(max, times.values())) + HELD_TICKS
    assert {row["bundle"]: (row["samples"], row["msg_rate"]) for row in history.top_bundles(9).to_pylist()} == {
        bundle: (len(mine), pytest.approx(mean_and_ticks(mine, times, begin, end, HELD_TICKS)[0]))
        for bundle, mine in samples.items()
    }
    assert {row["broker"]: (row["over"], row["usage_max"]) for row in history.brokers_over(0.85).to_pylist()} == {
        broker: (sum(usage > 0.85 for usage in series), max(series)) for broker, series in usages.items()
    }
    assert [(row["brokers"], row["unloads"], row["splits"]) for row in history.imbalance().to_pylist()] == [
        *((3, 1, 1), (3, 0, 0), (3, 0, 0), (3, 1, 1)),
    ]


def test_questions_about_a_bundle_are_answered_from_its_tables(layout: PipelineLayout) -> None:
    """Owners and decisions are those of the reports and the decision log."""
    history = History(layout)
    owners = [(row["broker"], row["ended"]) for row in history.bundle_owners(DECIDED_ABOUT).to_pylist()]
    assert owners == [("127.0.0.1:8080", None)]
    lines = [json.loads(line) for file in layout.decisions.iterdir() for line in file.read_text().splitlines()]
    decided = history.bundle_decisions(DECIDED_ABOUT, manager=UNKNOWN).to_pylist()
    assert [(round(row["at"].timestamp() * 1000), row["kind"], row["sentence"]) for row in decided] == [
        (line["at"], line["kind"], line["sentence"]) for line in lines
    ]


def test_a_snapshot_is_made_of_its_tables(layout: PipelineLayout) -> None:
    """The leader's knowledge at the newest report that was folded."""
    document, fold = read_tables(layout.tables), folded(layout)
    assert document.taken_at == max(report.last_update for report in fold.reports.values())
    assert {broker: (report.sequence, *sorted(report.last_stats)) for broker, report in document.brokers.items()} == {
        broker: (report.sequence, *sorted(report.last_stats)) for broker, report in fold.reports.items()
    }
    for bundle, data in document.bundle_data.items():
        found, expected = msgspec.to_builtins(data), msgspec.to_builtins(fold.bundles[bundle])
        for window in ("shortTermData", "longTermData"):
            assert found[window] == pytest.approx(expected[window])
    assert document.bundle_data.keys() == fold.bundles.keys()


def test_its_newest_state_is_where_the_next_batch_starts(layout: PipelineLayout) -> None:
    """Windows, ownership and the report that waits are there; what is remembered is written back to the byte."""
    assert StateFolder(layout).batch_ids() == [0, 1, 2]
    state, fold = StateFolder(layout).before(3), folded(layout)
    counts = dict(
        zip(*(state.bundles.column(name).to_pylist() for name in ("bundle", "short_num_samples")), strict=True)
    )
    assert counts == {name: data.short_term_data.num_samples for name, data in fold.bundles.items()}
    holdings = {broker: (held.sequence, *held.bundles) for broker, held in state.memory.ownership.holdings.items()}
    assert holdings == {broker: (report.sequence, *report.last_stats) for broker, report in fold.reports.items()}
    assert state.held is not None
    assert [key["sequence"] for key in state.held.column("key").to_pylist()] == [7]
    for folder in layout.state.iterdir():
        memory = (folder / "memory.json").read_bytes()
        assert msgspec.json.encode(msgspec.json.decode(memory, type=BatchMemory)) == memory


def test_its_publication_is_what_the_leader_reads(layout: PipelineLayout) -> None:
    """Averages and sequences are those of the newest state."""
    published, fold = decoded(layout.publication.read_bytes()), folded(layout)
    assert published.batch_id == 2
    assert published.last_sequence == {name: (each.incarnation, each.sequence) for name, each in fold.reports.items()}
    assert published.long_msg_rate_in == [
        pytest.approx(fold.bundles[bundle].long_term_data.msg_rate_in) for bundle in published.bundle
    ]


def test_its_status_is_told(layout: PipelineLayout) -> None:
    """The command ends with 0, as the pipeline was stopped in order."""
    asked = CliRunner().invoke(main, ["pipeline", "status", "--data", str(layout.data), "--json"])
    assert asked.exit_code == 0, asked.output
    told = json.loads(asked.output)
    assert (told["state"], told["batchId"], told["reports"], told["heldReports"]) == ("stopped", 2, 5, 1)
    status = read_status(layout)
    assert status is not None
    later = {"lookedAt": 0, "overdueReports": 0, "phases": {}, "overdueDecisions": 0, "refold": None}
    assert json.loads(msgspec.json.encode(status)) == json.loads(layout.status.read_bytes()) | later
