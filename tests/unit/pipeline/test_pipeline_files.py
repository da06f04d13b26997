"""Files of the pipeline that need no Spark: publication, status, states, lock, archive."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from pulsar_barycenter.load.reports.publication import PipelinePublication, encode_publication
from pulsar_barycenter.pipeline.reports.acceptance import AcceptedReports
from pulsar_barycenter.pipeline.reports.archive import remove_old_archive
from pulsar_barycenter.pipeline.reports.quarantine import keep_refused, refused_report, remove_old
from pulsar_barycenter.pipeline.running.status import StatusFile, percentile, read_status
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.storage.lock import AlreadyRunningError, exclusive
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult
from pulsar_barycenter.pipeline.stream.generations import current_generation
from pulsar_barycenter.pipeline.stream.state import BatchMemory, PriorState, StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.publications import decoded


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    made = PipelineLayout.of(tmp_path)
    made.create()
    return made


def test_a_publication_reads_as_it_was_written() -> None:
    """Fields of a later version are ignored, columns of unequal length refused."""
    publication = PipelinePublication(
        batch_id=3,
        published_at=20,
        as_of=10,
        last_sequence={"b": ("i", 7)},
        broker=["b"],
        **{key: [1.5] for key in BROKERS},
    )
    document = encode_publication(publication)
    assert decoded(document.replace(b"{", b'{"later":1,', 1)) == publication
    assert msgspec.json.decode(document)["shortTermMsgRateIn"] == [1.5]
    with pytest.raises(msgspec.DecodeError, match="column topics has 0 items, but column bundle has 1"):
        decoded(b'{"batchId":1,"publishedAt":1,"asOf":1,"bundle":["x"]}')


BROKERS = [name for name in PipelinePublication.__struct_fields__ if "_term_" in name]


def state(batch: int, as_of: int) -> PriorState:
    return PriorState(batch, BatchMemory(reports=AcceptedReports(as_of)))


def test_states_are_kept_by_batch_and_the_oldest_go(layout: PipelineLayout) -> None:
    """A batch starts from the newest state before it, also when its own was written already."""
    states = StateFolder(layout)
    assert states.before(5) == PriorState()
    for batch in (0, 1, 2, 5):
        states.write(batch, state(batch, batch))
    assert states.batch_ids() == [1, 2, 5]
    assert states.before(5).memory.reports.as_of == 2
    states.write(5, state(5, 50))
    assert states.before(99) == state(5, 50)
    assert [file.name for file in layout.state.iterdir() if file.name.startswith(".")] == []


def test_a_new_checkpoint_follows_the_states_kept(layout: PipelineLayout) -> None:
    """A lost checkpoint does not restart batch ids, which would overwrite older table files."""
    StateFolder(layout).write(41, state(41, 0))
    folder, first = current_generation(layout)
    assert (folder, first) == (str(layout.checkpoints / "from-000000000042"), 42)
    assert current_generation(layout) == (folder, first)


def test_a_second_process_on_the_same_data_is_refused(layout: PipelineLayout) -> None:
    """The lock is free again when its holder is done."""
    with (
        exclusive(layout, clock_ms=lambda: 0),
        pytest.raises(AlreadyRunningError, match=str(layout.data)),
        exclusive(layout, clock_ms=lambda: 0),
    ):
        pass
    with exclusive(layout, clock_ms=lambda: 0):
        pass


def test_a_foreign_file_in_the_locks_place_is_left_as_it_is(layout: PipelineLayout) -> None:
    """A link is not followed, and no content is cut."""
    foreign = layout.data / "foreign"
    foreign.write_text("mine")
    layout.lock.symlink_to(foreign)
    with pytest.raises(OSError, match=str(layout.lock)), exclusive(layout, clock_ms=lambda: 0):
        pass
    layout.lock.unlink()
    layout.lock.hardlink_to(foreign)
    with exclusive(layout, clock_ms=lambda: 0):
        pass
    assert foreign.read_text() == "mine"


def test_the_archive_is_cleaned_by_date(layout: PipelineLayout) -> None:
    """Reports of dates more than two days back go, unless they were read since; the path under the archive is the log's
    full former path."""
    log = layout.archive / layout.report_log.relative_to("/")
    noon_ms = 1_795_176_000_000  # 2026-11-20T12:00Z
    for date in ("2026-11-16", "2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20"):
        (log / date).mkdir(parents=True)
        days_ago = 1 if date == "2026-11-16" else 3
        os.utime(log / date, (noon_ms / 1000 - days_ago * 86_400,) * 2)
    remove_old_archive(layout, now_ms=noon_ms, days=2)
    left = ["2026-11-16", "2026-11-18", "2026-11-19", "2026-11-20"]
    assert sorted(folder.name for folder in log.iterdir()) == left


def test_status_counts_batches_and_tells_percentiles(layout: PipelineLayout) -> None:
    """A batch without reports leaves lag and bundles as they were, and a success ends a time of retrying."""
    assert read_status(layout) is None
    status = StatusFile(layout, pid=1)
    status.enter("retrying", now_ms=1, error="disk full")
    for number in range(1, 101):
        status.add(result(number, lag_ms=number), now_ms=number)
    status.add(result(101, lag_ms=None), now_ms=101)
    found = read_status(layout)
    assert found == status.status
    assert found is not None
    assert (found.state, found.error, found.batches, found.reports, found.bundles) == ("running", None, 101, 200, 7)
    assert (found.lag_ms, found.lag_ms_p50, found.lag_ms_p99) == (100, 50, 99)
    assert (found.late_reports, found.held_reports, found.corrupt_reports) == (101, 3, 202)
    assert (found.decisions, found.corrupt_decisions, found.duplicate_reports, found.as_of) == (505, 404, 606, 101)


def result(batch_id: int, *, lag_ms: int | None) -> BatchResult:
    reports = 0 if lag_ms is None else 2
    return BatchResult(
        *(batch_id, reports, 14, 7 if reports else 0, 6, ("x.json", "y.json"), lag_ms, lag_ms),
        seconds=0.5,
        as_of=batch_id,
        late=1,
        held=3,
        decisions=5,
        corrupt_decisions=4,
    )


def test_percentile_is_a_value_of_the_list() -> None:
    """The nearest rank: the smallest value that so many percent do not exceed."""
    assert percentile([], 50) is None
    assert percentile([3], 99) == 3
    assert [percentile([4, 1, 3, 2], percent) for percent in (25, 26, 50, 75, 100)] == [1, 2, 2, 3, 4]


def test_lost_states_cost_no_rows(layout: PipelineLayout) -> None:
    """Without states and checkpoints batch ids go on after those in the tables, which would else be written over."""
    tables = Tables(layout)
    schema = TABLES["balance"].arrow_schema
    row = dict.fromkeys(schema.names, 0)
    tables.write("balance", 7, pa.Table.from_pylist([row], schema=schema))
    tables.clear_unfinished(None)
    assert current_generation(layout)[1] == 8
    assert len(live_files(layout.tables, "balance")) == 1


def test_the_quarantine_is_emptied_of_what_is_old(layout: PipelineLayout) -> None:
    """Copy and list go when they are older than the tables are kept; a file of today stays."""
    report = layout.report_log / "torn.json"
    report.write_bytes(b"{")
    keep_refused(layout, 3, [refused_report(layout, str(report))], [f"file://{report}"])
    names = ["batch-000000000003.jsonl", "torn.json"]
    assert sorted(file.name for file in layout.quarantine.iterdir()) == names
    now_s = report.stat().st_mtime + 86_400
    remove_old(layout, now_s=now_s, days=2)
    assert sorted(file.name for file in layout.quarantine.iterdir()) == names
    remove_old(layout, now_s=now_s + 2 * 86_400, days=2)
    assert list(layout.quarantine.iterdir()) == []
