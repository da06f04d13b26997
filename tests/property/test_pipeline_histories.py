"""For any order of reports and any division into runs: the tables are right, or a run reports that they are not.

Without Spark, whose part `tests/pipeline/test_never_silently_wrong.py` covers; the oracle folds report by report.
"""

import asyncio
import errno
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pulsar_barycenter.broker.load_manager.pipeline_feed import FilePipeline, Published
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, Kind
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings
from pulsar_barycenter.pipeline.reports import acceptance, decision_files
from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream import micro_batches
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings
from pulsar_barycenter.pipeline.stream.publication import Publisher
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import Tables
from support.load_history import START_MS, make_history
from support.pipeline_oracles import PipelineOracle
from support.pipeline_without_spark import Lines, differences, run_once

GAP_MS = 60_000


def settings(rng: random.Random) -> StreamSettings:
    balance = BalanceSettings(interval_ms=10_000, settle_ms=10_000, history_gap_ms=GAP_MS)
    whole_below = rng.choice([0, 10_000])
    return StreamSettings(
        max_files=rng.choice([3, 8, 500]), history_gap_ms=GAP_MS, balance=balance, whole_below=whole_below
    )


def history(rng: random.Random) -> list[LocalBrokerData]:
    return make_history(rng.randrange(10**6), reports=rng.randrange(20, 60), step_ms=rng.choice([900, 3_000, 6_500]))


def decide(layout: PipelineLayout, reports: Sequence[LocalBrokerData]) -> list[tuple[int, str]]:
    log, decided = DecisionLog("127.0.0.1:8080", layout.decisions), []
    kinds: list[Kind] = ["unload", "split", "shed"]
    for number, at in enumerate(range(START_MS, reports[-1].last_update, 2_700)):
        log.record(at, kinds[number % 3], Reason(code=Code.ADMIN))
        decided.append((at, kinds[number % 3]))
    return decided


def pieces(rng: random.Random, reports: Sequence[LocalBrokerData]) -> list[list[LocalBrokerData]]:
    cuts = sorted(rng.sample(range(1, len(reports)), rng.randrange(1, 5)))
    return [list(reports[first:last]) for first, last in zip([0, *cuts], [*cuts, len(reports)], strict=True)]


def falls_short(results: Sequence[BatchResult]) -> bool:
    return any(r.late or r.overdue or r.overdue_decisions for r in results) or bool(results[-1].held)


@pytest.fixture(params=range(6))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def layout_in(tmp_path: Path) -> PipelineLayout:
    layout = PipelineLayout.of(tmp_path)
    layout.create()
    return layout


def test_runs_that_go_on_in_time_give_the_tables_of_one(
    rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a run in any order, with copies of earlier reports; some batches are interrupted after they wrote a
    table."""
    layout, reports, chosen = layout_in(tmp_path), history(rng), settings(rng)
    decided = decide(layout, reports)
    monkeypatch.setattr(decision_files, "READ_BYTES", 1_500)
    read: list[LocalBrokerData] = []
    for piece in pieces(rng, reports):
        read += piece
        files = {id(report): report for report in (*piece, *rng.sample(read, len(read) // 4))}
        shuffled = rng.sample(list(files.values()), len(files))
        run_with_kill(rng, layout, shuffled, chosen, monkeypatch)
    assert differences(layout, PipelineOracle(reports, chosen), decided) == []


def run_with_kill(
    rng: random.Random,
    layout: PipelineLayout,
    reports: Sequence[LocalBrokerData],
    chosen: StreamSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the runs end in a batch, after the write of a table or before its state, and are started again."""
    if rng.random() < 0.5:
        place, left = rng.choice(["ownership", "balance", "state"]), rng.randrange(3)
        with monkeypatch.context() as patch:
            owner, name = (StateFolder, "_keep") if place == "state" else (Tables, "write")
            write = getattr(owner, name)
            counts = {"left": left}

            def killed(self: Any, *args: Any, **kwargs: Any) -> None:
                if place in ("state", args[0]):
                    counts["left"] -= 1
                    if counts["left"] < 0:
                        raise KeyboardInterrupt
                write(self, *args, **kwargs)

            patch.setattr(owner, name, killed)
            try:
                results = run_once(layout, reports, chosen, monkeypatch)
            except KeyboardInterrupt:
                pass
            else:
                assert not falls_short(results)
                return
        kept = StateFolder(layout).batch_ids()
        Tables(layout).clear_unfinished(kept[-1] if kept else -1)
    assert not falls_short(run_once(layout, reports, chosen, monkeypatch))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(12))
def test_a_kill_at_any_step_leaves_state_and_publication_whole(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after any file is written or deleted, with states and publications that are changes.

    The state is then that of a run that nobody killed and that writes whole states, and a reader that looks now and
    then has what a new one reads.
    """
    rng = random.Random(seed)
    reports = make_history(rng.randrange(10**6), reports=40, step_ms=rng.choice([900, 6_500]))
    balance = BalanceSettings(interval_ms=10_000, settle_ms=10_000, history_gap_ms=GAP_MS)
    chosen = StreamSettings(max_files=3, history_gap_ms=GAP_MS, balance=balance, whole_below=0)
    layout, calm = layout_in(tmp_path / "killed"), layout_in(tmp_path / "calm")
    reader = FilePipeline(layout.publication.parent)
    for piece in pieces(rng, reports):
        run_once(calm, piece, replace(chosen, whole_below=10_000), monkeypatch)
        for kill in (True, True, False):
            with monkeypatch.context() as patch:
                if kill:
                    kill_after(patch, rng.randrange(1, 40 * len(piece)), after=rng.random() < 0.5)
                with suppress(KeyboardInterrupt):
                    run_once(layout, piece, chosen, monkeypatch)
            kept = StateFolder(layout).batch_ids()
            Tables(layout).clear_unfinished(kept[-1] if kept else -1)
            if rng.random() < 0.5:
                asyncio.run(reader.read())
        found, expected = StateFolder(layout).before(10**6), StateFolder(calm).before(10**6)
        assert found.memory == expected.memory
        assert found.bundles.equals(expected.bundles)
        assert (found.held is None or not len(found.held)) == (expected.held is None or not len(expected.held))
        BatchFold(layout, settings=chosen, clock_ms=lambda: 0).publish_kept()
        new = FilePipeline(layout.publication.parent)
        for feed in (reader, new):
            asyncio.run(feed.read())
        published = new.latest()
        assert published == reader.latest()
        assert published is not None
        assert sorted(published.bundles) == found.bundles.column("bundle").to_pylist()
        holdings = found.memory.ownership.holdings
        assert published.last_sequence == {name: (h.incarnation, h.sequence) for name, h in holdings.items()}
        check_windows(published, found.bundles)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("place", ["load_reports", "bundle_data", "ownership", "balance", "state", "publication"])
def test_a_batch_that_fails_is_folded_again_by_the_same_process(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state in memory is half changed then: the batch begins from the disk."""
    monkeypatch.setattr(micro_batches, "report_rows", lambda lines, *_: lines)
    chosen = StreamSettings(history_gap_ms=GAP_MS, balance=BalanceSettings(10_000, 10_000), whole_below=0)
    reports = make_history(7, reports=30, step_ms=6_500)
    calm, failing = (
        BatchFold(layout_in(tmp_path / name), settings=chosen, clock_ms=lambda: 0) for name in ("calm", "failing")
    )
    reader = FilePipeline(tmp_path / "failing/pipeline/publication")
    for batch, first in enumerate(range(0, 30, 3)):
        lines: Any = Lines(reports[first : first + 3])
        calm.run(lines, batch)
        with monkeypatch.context() as patch:
            fail(patch, place)
            with suppress(OSError):
                failing.run(lines, batch)
        failing.run(lines, batch)
        found, expected = (StateFolder(PipelineLayout.of(tmp_path / name)).before(99) for name in ("failing", "calm"))
        assert found.memory == expected.memory
        assert found.bundles.equals(expected.bundles)
        asyncio.run(reader.read())
        published = reader.latest()
        assert published is not None
        check_windows(published, found.bundles)
        assert len(published.bundles) == len(found.bundles)


def fail(patch: pytest.MonkeyPatch, place: str) -> None:
    def full(*args: Any, **_: Any) -> None:
        if place in ("state", "publication", args[1]):
            raise OSError(errno.ENOSPC, "No space left on device")

    owner: Any = {"state": StateFolder, "publication": Publisher}.get(place, Tables)
    patch.setattr(owner, {"state": "_keep", "publication": "publish"}.get(place, "write"), full)


def kill_after(patch: pytest.MonkeyPatch, steps: int, *, after: bool) -> None:
    """Let the process be killed before or after so many changes of files."""
    left = {"steps": steps}

    def step(call: Any) -> Any:
        left["steps"] -= 1
        if left["steps"] == 0 and not after:
            raise KeyboardInterrupt
        result = call()
        if left["steps"] == 0:
            raise KeyboardInterrupt
        return result

    write, delete, new_file = LocalStorage.write, LocalStorage.delete, LocalStorage.new_file

    @contextmanager
    def appearing(self: LocalStorage, path: str) -> Iterator[Path]:
        unfinished = new_file(self, path)
        yield unfinished.__enter__()
        step(lambda: unfinished.__exit__(None, None, None))

    patch.setattr(LocalStorage, "write", lambda *args: step(lambda: write(*args)))
    patch.setattr(LocalStorage, "delete", lambda *args: step(lambda: delete(*args)))
    patch.setattr(LocalStorage, "new_file", appearing)


def check_windows(published: Published, bundles: pa.Table) -> None:
    for row in bundles.to_pylist():
        data = published.bundles[row["bundle"]]
        assert data.topics == row["topics"]
        for name, window in (("short", data.short_term_data), ("long", data.long_term_data)):
            assert window.num_samples == row[f"{name}_num_samples"]
            assert window.msg_rate_in == row[f"{name}_msg_rate_in"]
            assert window.msg_throughput_out == row[f"{name}_msg_throughput_out"]


@pytest.mark.drawn(2)
def test_runs_in_any_order_give_the_tables_of_one_or_say_that_they_do_not(
    rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces swapped, or reports distributed to runs at random, or by broker: never an unreported difference.

    Each report is in the tables of reports once nevertheless, except those that wait. In half of the cases hardly
    any sequences are remembered.
    """
    if rng.random() < 0.5:
        monkeypatch.setattr(acceptance, "SEQUENCE_MEMORY_MS", 30_000)
        monkeypatch.setattr(acceptance, "MOST_GAPS", 2)
    reports = history(rng)
    for number, deal in enumerate((swapped, dealt, by_broker)):
        layout, chosen = layout_in(tmp_path / str(number)), settings(rng)
        decided = decide(layout, reports)
        results: list[BatchResult] = []
        for piece in deal(rng, reports):
            results += run_once(layout, piece, chosen, monkeypatch)
        copies = run_once(layout, rng.sample(reports, 5), chosen, monkeypatch)
        assert falls_short(results) or sum(result.duplicates for result in copies) == 5
        results += copies
        found = differences(layout, PipelineOracle(reports, chosen), decided)
        assert falls_short(results) or found == [], (deal, found)
        if not results[-1].held:
            assert not {"load_reports", "broker_usage", "bundle_samples"} & set(found)


def swapped(rng: random.Random, reports: Sequence[LocalBrokerData]) -> list[list[LocalBrokerData]]:
    parts = pieces(rng, reports)
    return rng.sample(parts, len(parts))


def dealt(rng: random.Random, reports: Sequence[LocalBrokerData]) -> list[list[LocalBrokerData]]:
    parts: list[list[LocalBrokerData]] = [[], [], []]
    for report in reports:
        rng.choice(parts).append(report)
    return [part for part in parts if part]


def by_broker(rng: random.Random, reports: Sequence[LocalBrokerData]) -> list[list[LocalBrokerData]]:
    names = sorted({str(report.broker_id) for report in reports})
    return [[r for r in reports if r.broker_id == name] for name in rng.sample(names, len(names))]


def test_files_that_may_not_be_read_are_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark skips them; they stay where they are, and the others are folded."""
    layout, (first, second, *_) = layout_in(tmp_path), make_history(1, reports=3)
    folder = layout.report_log / "2026-01-01"
    folder.mkdir()
    forbidden = folder / "b-i-1.json"
    forbidden.write_text("another's")
    read, may = LocalStorage.read, os.access

    def refuse(storage: PipelineLayout, path: str, **part: int | None) -> bytes:
        if path.endswith(forbidden.name):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(storage, path, **part)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalStorage, "read", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(forbidden) and may(path, mode))
    monkeypatch.setattr(micro_batches, "report_rows", lambda lines, *_: lines)
    results: list[BatchResult] = []
    fold = BatchFold(layout, clock_ms=lambda: 0, on_batch=results.append)
    for batch, report in enumerate((first, second)):
        lines: Any = Lines([report])
        fold.run(lines, batch)
    assert [(result.reports, len(result.corrupt_files)) for result in results] == [(1, 1), (1, 0)]
    assert (
        b"the file cannot be read: Permission denied" in (layout.quarantine / "batch-000000000000.jsonl").read_bytes()
    )
    assert forbidden.exists()
