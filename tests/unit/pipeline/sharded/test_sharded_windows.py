"""Batches whose windows are folded by shard leave the files of batches folded in the driver, to the last bit."""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings
from pulsar_barycenter.pipeline.sharded.blocks import shard_of
from pulsar_barycenter.pipeline.sharded.windows import ShardedWindows, UnsharedFolderError
from pulsar_barycenter.pipeline.storage.layout import SHARDS, PipelineLayout
from pulsar_barycenter.pipeline.stream import micro_batches
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.stream.windows import DriverWindows, Windows
from support.load_history import make_history
from support.local_jobs import LocalJobs
from support.pipeline_runs import what_is_left
from support.pipeline_without_spark import Lines

GAP_MS = 60_000
_SETTINGS = StreamSettings(
    history_gap_ms=GAP_MS, balance=BalanceSettings(interval_ms=10_000, settle_ms=10_000, history_gap_ms=GAP_MS)
)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batches, "report_rows", lambda lines, *_: lines)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no machine loses power


def layout_in(folder: Path) -> PipelineLayout:
    layout = PipelineLayout.of(folder)
    layout.create()
    return layout


def fold_of(layout: PipelineLayout, windows: Windows) -> BatchFold:
    return BatchFold(layout, settings=_SETTINGS, clock_ms=lambda: 0, windows=windows)


def run(fold: BatchFold, batch: int, reports: Sequence[LocalBrokerData]) -> None:
    lines: Any = Lines(reports)
    fold.run(lines, batch)


def cut(rng: random.Random, reports: list[LocalBrokerData]) -> list[list[LocalBrokerData]]:
    """Batches out of order, with copies and late reports, and one without any."""
    reports = reports + rng.sample(reports, 4)
    for _ in range(12):
        number = rng.randrange(1, len(reports))
        reports[number - 1], reports[number] = reports[number], reports[number - 1]
    reports.insert(len(reports) - 3, reports.pop(rng.randrange(len(reports) // 2)))
    ends = sorted(rng.sample(range(1, len(reports)), 6))
    batches = [reports[first:last] for first, last in zip([0, *ends], [*ends, len(reports)], strict=True)]
    batches.insert(3, [])
    return batches


@pytest.fixture(params=range(4))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_all_files_are_those_of_the_driver(rng: random.Random, tmp_path: Path) -> None:
    """Copies, late reports, reports that wait, and bundles that fall silent or appear, among them."""
    batches = cut(rng, make_history(rng.randrange(10**6), reports=50, step_ms=rng.choice([900, 3_000, 6_500])))
    driver, sharded = layout_in(tmp_path / "driver"), layout_in(tmp_path / "sharded")
    folds = fold_of(driver, DriverWindows()), fold_of(sharded, ShardedWindows(LocalJobs(), sharded, shards=3))
    for number, batch in enumerate(batches):
        for fold in folds:
            run(fold, number, batch)
    expected, found = what_is_left(driver), what_is_left(sharded)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    assert len(list((sharded.data / SHARDS).iterdir())) <= 2


def test_after_a_kill_the_next_process_goes_on_from_the_state(rng: random.Random, tmp_path: Path) -> None:
    """Each batch is killed after one of its files of shards; another number of shards, or the driver, goes on."""

    class KilledError(Exception):
        pass

    class KilledJobs(LocalJobs):
        def fold(self, plan: Any, shards: int) -> Any:
            super().fold(plan, rng.randrange(shards + 1))
            raise KilledError

    batches = cut(rng, make_history(rng.randrange(10**6), reports=40, step_ms=3_000))
    driver, sharded = layout_in(tmp_path / "driver"), layout_in(tmp_path / "sharded")
    expected_fold = fold_of(driver, DriverWindows())
    ways: list[Callable[[], Windows]] = [
        lambda: ShardedWindows(LocalJobs(), sharded, shards=3),
        lambda: ShardedWindows(LocalJobs(1), sharded, shards=5),
        DriverWindows,
    ]
    for number, batch in enumerate(batches):
        run(expected_fold, number, batch)
        try:
            run(fold_of(sharded, ShardedWindows(KilledJobs(), sharded, shards=4)), number, batch)
        except KilledError:
            assert number not in StateFolder(sharded).batch_ids()
        run(fold_of(sharded, rng.choice(ways)()), number, batch)
    expected, found = what_is_left(driver), what_is_left(sharded)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name


def test_a_batch_that_failed_after_its_jobs_starts_from_the_state_before(tmp_path: Path) -> None:
    """The same process runs it again: the blocks that it wrote are of a batch that has no state."""
    reports = make_history(7, reports=30)
    driver, sharded = layout_in(tmp_path / "driver"), layout_in(tmp_path / "sharded")
    expected_fold, fold = (
        fold_of(driver, DriverWindows()),
        fold_of(sharded, windows := ShardedWindows(LocalJobs(), sharded, shards=2)),
    )
    for number, start in enumerate(range(0, 30, 10)):
        run(expected_fold, number, reports[start : start + 10])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "held", _fail)
            with pytest.raises(OSError, match="no room"):
                run(fold, number, reports[start : start + 10])
        run(fold, number, reports[start : start + 10])
    expected, found = what_is_left(driver), what_is_left(sharded)
    assert found == expected


def _fail(*_: Any) -> None:
    raise OSError("no room")


def test_a_bundle_has_one_shard_in_every_process() -> None:
    assert shard_of(["public/default/0x00000000_0x40000000", "t/n/0x1_0x2", "ü"], 7).tolist() == [5, 5, 4]
    shards = shard_of([f"t/n{number}/0x0_0xffffffff" for number in range(10_000)], 8).tolist()
    assert min(shards.count(shard) for shard in range(8)) > 1_100


def test_a_folder_that_tasks_cannot_reach_is_refused() -> None:
    remote: Any = SimpleNamespace(local_root=None, address=lambda: "s3a://bucket/cluster")
    with pytest.raises(UnsharedFolderError, match=r"cannot be used with s3a://bucket/cluster: .*Use --fold driver"):
        ShardedWindows(LocalJobs(), remote, shards=2)
