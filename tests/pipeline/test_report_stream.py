"""The stream's tables: equal to the batch and the live fold, whatever is lost, doubled or broken on the way."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_report
from pulsar_barycenter.load.reports.publication import BROKER_COLUMNS, BUNDLE_COLUMNS
from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS, LiveFold
from pulsar_barycenter.pipeline.parsing.report_lines import MAX_AHEAD_MS
from pulsar_barycenter.pipeline.reports.acceptance import HOLD_MS
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.generations import begin_generation
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from pulsar_barycenter.pipeline.stream.publication import Publisher
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables
from support.load_history import START_MS, at, make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.pipeline_runs import (
    assert_same,
    assert_tables_equal_history,
    first_columns,
    history,
    newest_broker_data,
    newest_bundle_data,
    rows_of,
    run_available,
    write_reports,
)
from support.publications import decoded

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(5)]

FIGURES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")


def live_fold(reports: list[LocalBrokerData]) -> LiveFold:
    fold = LiveFold()
    for report in reports:
        assert report.broker_id is not None
        fold.accept(report.broker_id, report)
    return fold


def test_live_fold_batch_and_stream_agree(spark: SparkSession, layout: PipelineLayout) -> None:
    """A history of moves, splits and restarts over two dates, streamed in four runs, each from the checkpoint."""
    reports = make_history(1, reports=60)
    for chunk in (reports[:1], reports[1:20], reports[20:25], reports[25:]):
        write_reports(layout, chunk)
        run_available(spark, layout, now_ms=reports[-1].last_update + 250)
    expected = assert_tables_equal_history(spark, layout)
    live = live_fold(reports)
    bundles = rows_of(expected.bundle_data)
    assert [row["bundle"] for row in bundles] == sorted(live.bundles)
    for row in bundles:
        data = live.bundles[row["bundle"]]
        for window, average in (("short", data.short_term_data), ("long", data.long_term_data)):
            assert row[f"{window}_num_samples"] == average.num_samples
            for figure in FIGURES:
                assert row[f"{window}_{figure}"] == pytest.approx(getattr(average, figure), rel=1e-9)
    averages = live.averages()
    for row in rows_of(expected.broker_data):
        for column in BROKER_COLUMNS:
            assert row[column] == pytest.approx(getattr(averages[row["broker"]], column), rel=1e-9)
    check_publication(spark, layout, reports, live)


def check_publication(
    spark: SparkSession, layout: PipelineLayout, reports: list[LocalBrokerData], live: LiveFold
) -> None:
    publication = decoded(layout.publication.read_bytes())
    assert publication.as_of == reports[-1].last_update
    assert publication.newest_lag_ms == 250
    assert publication.lag_ms == 250 + publication.as_of - reports[25].last_update
    newest = {report.broker_id: (report.incarnation, report.sequence) for report in reports}
    assert publication.last_sequence == newest
    columns = ("bundle", *BUNDLE_COLUMNS[1:])
    published = [
        dict(zip(columns, row, strict=True)) for row in zip(*(getattr(publication, c) for c in columns), strict=True)
    ]
    assert_same(
        published, [{k: v for k, v in row.items() if k != "as_of"} for row in newest_bundle_data(spark, layout)]
    )
    topics = dict(zip(publication.bundle, publication.topics, strict=True))
    assert topics == {name: data.topics for name, data in live.bundles.items()}
    columns = ("broker", *BROKER_COLUMNS)
    published = [
        dict(zip(columns, row, strict=True)) for row in zip(*(getattr(publication, c) for c in columns), strict=True)
    ]
    assert_same(published, [{k: row[k] for k in columns} for row in newest_broker_data(spark, layout)])


def test_duplicates_and_broken_reports_change_nothing(spark: SparkSession, layout: PipelineLayout) -> None:
    """Copies, torn, foreign, nameless and temporary files, a clock far ahead, and unknown fields."""
    reports = make_history(2, reports=12)
    write_reports(layout, reports[:8])
    folder = next(layout.report_log.iterdir())
    whole = encode_report(reports[3])
    (folder / "copy.json").write_bytes(whole)
    (folder / "torn.json").write_bytes(whole[: len(whole) // 2])
    (folder / "foreign.json").write_bytes(b"\x00\xff\xfe not json")
    (folder / "nameless.json").write_bytes(b'{"lastUpdate": 1, "lastStats": {}}')
    (folder / "wrong-type.json").write_bytes(whole.replace(b'"sequence":', b'"sequence":"x","old":', 1))
    ahead = msgspec.structs.replace(reports[3], last_update=time.time_ns() // 1_000_000 + 2 * MAX_AHEAD_MS, sequence=99)
    (folder / "ahead.json").write_bytes(encode_report(ahead))
    (folder / ".hidden.json.tmp").write_bytes(whole)
    (folder / "_unfinished.json").write_bytes(encode_report(reports[9]))
    (first,) = run_available(spark, layout)
    assert (first.reports, first.duplicates) == (8, 1)
    assert sorted(Path(file).name for file in first.corrupt_files) == [
        "ahead.json",
        "foreign.json",
        "nameless.json",
        "torn.json",
        "wrong-type.json",
    ]
    write_reports(layout, reports[8:])
    (folder / "late-copy.json").write_bytes(whole.replace(b"{", b'{"ofTheFuture":{"a":[1,null]},', 1))
    (second,) = run_available(spark, layout)
    assert (second.reports, second.duplicates, second.corrupt_files) == (4, 1, ())
    (folder / "only-a-copy.json").write_bytes(whole)
    (third,) = run_available(spark, layout)
    assert (third.reports, third.duplicates, third.lag_ms) == (0, 1, None)
    kept = {file.name: file.read_bytes() for file in layout.quarantine.iterdir()}
    reasons = msgspec.json.Decoder(dict[str, str]).decode_lines(kept.pop("batch-000000000000.jsonl"))
    assert {line["file"]: line["reason"][:17] for line in reasons} == {
        "ahead.json": "not a load report",
        "foreign.json": "JSON is malformed",
        "nameless.json": "not a load report",
        "torn.json": "Input data was tr",
        "wrong-type.json": "Expected `int`, g",
    }
    assert kept.keys() == {line["file"] for line in reasons}
    assert kept["torn.json"] == whole[: len(whole) // 2]
    (folder / "_unfinished.json").unlink()
    assert_tables_follow(spark, layout, PipelineOracle(reports))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("step", ["bundle_samples", "broker_data", "ownership", "state", "publication"])
def test_a_batch_that_failed_half_way_takes_effect_once(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The second batch fails just after one of its writes and is run again by a new query from the checkpoint."""
    reports = make_history(3, reports=12)
    write_reports(layout, reports[:6])
    run_available(spark, layout)
    write_reports(layout, reports[6:])
    with monkeypatch.context() as patch:
        crash_after(patch, step)
        with pytest.raises(StreamingQueryException, match=f"crash after {step}"):
            run_available(spark, layout)
    (again,) = run_available(spark, layout)
    assert (again.batch_id, again.reports) == (1, 6)
    assert_tables_follow(spark, layout, PipelineOracle(reports))


def crash_after(patch: pytest.MonkeyPatch, step: str) -> None:
    """Let the write of a table, of the state or of the publication succeed and then raise."""
    if step == "publication":
        patch.setattr(Publisher, "publish", crashing(lambda *_: None, step, lambda *_: True))
    elif step == "state":
        patch.setattr(StateFolder, "write", crashing(StateFolder.write, step, lambda *_: True))
    else:
        patch.setattr(Tables, "write", crashing(Tables.write, step, lambda _, name, *__: name == step))


def crashing(function: Any, step: str, is_last: Any) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if is_last(*args):
            raise RuntimeError(f"crash after {step}")
        return result

    return wrapped


def test_a_new_generation_reads_the_log_again_without_effect(spark: SparkSession, layout: PipelineLayout) -> None:
    """Spark's record of files is thrown away between two batches; sequences alone keep each report to one effect."""
    settings = StreamSettings(archive=False)
    reports = make_history(4, reports=9)
    write_reports(layout, reports[:6])
    (first,) = run_available(spark, layout, settings=settings)
    begin_generation(layout, first.batch_id + 1)
    write_reports(layout, reports[6:])
    (second,) = run_available(spark, layout, settings=settings)
    assert (second.batch_id, second.reports, second.duplicates) == (1, 3, 6)
    assert len(list(layout.checkpoints.iterdir())) == 1
    assert_tables_follow(spark, layout, PipelineOracle(reports))


def test_a_large_log_is_caught_up_in_several_batches(spark: SparkSession, layout: PipelineLayout) -> None:
    """With at most four files a batch, ten reports of one broker take three batches and end as one batch would."""
    reports = make_history(5, reports=10, brokers=1)
    write_reports(layout, reports)
    results = run_available(spark, layout, settings=StreamSettings(max_files=4))
    assert sum(result.reports for result in results) == 10
    assert len(results) == 3
    assert_tables_follow(spark, layout, PipelineOracle(reports))


def test_silent_bundles_and_brokers_are_forgotten(spark: SparkSession, layout: PipelineLayout) -> None:
    """What was last heard of longer ago than the gap leaves the publication; its table rows stay."""
    first, second, *_ = make_history(6, reports=2, brokers=2, bundles=3)
    write_reports(layout, [first])
    run_available(spark, layout)
    write_reports(layout, [at(second, START_MS + HISTORY_GAP_MS + 1)])
    run_available(spark, layout)
    publication = decoded(layout.publication.read_bytes())
    assert publication.broker == [second.broker_id]
    assert publication.bundle == sorted(second.last_stats)
    expected = history(spark, layout)
    assert_same(newest_broker_data(spark, layout), rows_of(expected.broker_data))
    assert {row["bundle"] for row in rows_of(read_table(spark, layout, "bundle_data"))} >= set(first.last_stats)


def test_a_report_found_after_its_successor_is_counted_in_its_place(
    spark: SparkSession, layout: PipelineLayout
) -> None:
    """Listing a folder may find the second of two files first; it waits for the other, and nothing else changes."""
    one, two, three = make_history(7, reports=3, brokers=1, bundles=2)
    results = []
    for report in (one, three, two):
        write_reports(layout, [report])
        results += run_available(spark, layout)
    assert [(r.reports, r.held, r.late, r.duplicates) for r in results] == [(1, 0, 0, 0), (0, 1, 0, 0), (2, 0, 0, 0)]
    assert_tables_follow(spark, layout, PipelineOracle([one, two, three]))


def test_a_report_much_too_late_is_kept_and_changes_no_average(spark: SparkSession, layout: PipelineLayout) -> None:
    """Its successor waited for ten seconds; the late one is in the tables of reports alone, and counted as late."""
    one, two, three = make_history(7, reports=3, brokers=1, bundles=2)
    other = LocalBrokerData(
        broker_id="b:1", incarnation="i", sequence=1, last_update=three.last_update + HOLD_MS, start_timestamp=1
    )
    write_reports(layout, [one, three, other])
    run_available(spark, layout)
    after = newest_bundle_data(spark, layout), layout.publication.read_bytes()
    write_reports(layout, [two])
    (result,) = run_available(spark, layout)
    assert (result.reports, result.late, result.lag_ms) == (1, 1, None)
    assert (newest_bundle_data(spark, layout), layout.publication.read_bytes()) == after
    expected = PipelineOracle([one, two, three, other])
    for name in ("load_reports", "broker_usage", "bundle_samples"):
        rows = sorted(getattr(expected, name)(), key=first_columns)
        assert_same(rows_of(read_table(spark, layout, name)), rows)


def test_an_empty_log_gives_no_batch_and_empty_tables(spark: SparkSession, layout: PipelineLayout) -> None:
    """Nothing is written before the first report."""
    assert run_available(spark, layout) == []
    assert not layout.publication.exists()
    tables = history(spark, layout)
    assert [frame.count() for frame in (tables.bundle_samples, tables.bundle_data, tables.broker_data)] == [0, 0, 0]


def test_a_broker_without_bundles_is_published_with_zeros(spark: SparkSession, layout: PipelineLayout) -> None:
    """A report without bundles gives no sample, yet its broker is known."""
    write_reports(layout, [LocalBrokerData(broker_id="b:1", incarnation="i", sequence=1, last_update=START_MS)])
    (result,) = run_available(spark, layout)
    assert (result.reports, result.samples) == (1, 0)
    publication = decoded(layout.publication.read_bytes())
    assert (publication.broker, publication.bundle) == (["b:1"], [])
    assert publication.long_term_msg_rate_in == [0.0]


def test_only_a_few_states_are_kept(spark: SparkSession, layout: PipelineLayout) -> None:
    """A batch's cost must not grow with history: old states go, read reports leave the log for the archive."""
    reports = make_history(9, reports=6, brokers=1)
    for report in reports:
        write_reports(layout, [report])
        run_available(spark, layout)
    assert StateFolder(layout).batch_ids() == [3, 4, 5]
    archived = len(list(layout.archive.rglob("*.json")))
    assert archived + len(list(layout.report_log.rglob("*.json"))) == len(reports)
    assert archived >= len(reports) - 2
