"""Windows folded by shard in Spark's tasks: the same files, to the last bit, as those folded in the driver."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.sharded.jobs import SparkJobs
from pulsar_barycenter.pipeline.sharded.windows import ShardedWindows
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from support.load_history import make_history
from support.pipeline_runs import run_available, what_is_left, write_reports

pytestmark = pytest.mark.pipeline


def layout_in(folder: Path) -> PipelineLayout:
    layout = PipelineLayout.of(folder)
    layout.create()
    return layout


class KilledJobs(SparkJobs):
    """Fails once, after all shards of a batch were folded."""

    is_killed = False

    def fold(self, plan: Any, shards: int) -> Any:
        overtaken = super().fold(plan, shards)
        if not self.is_killed and int(plan.folder.name.partition("-")[0]) == 1:
            self.is_killed = True
            raise OSError("killed")
        return overtaken


def test_a_stream_by_shard_leaves_the_files_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Its second batch fails after the tasks have folded it; a corrupt report and copies are among the files."""
    settings = StreamSettings(max_files=16, history_gap_ms=60_000)
    reports = make_history(31, reports=40)
    layouts = [layout_in(tmp_path / name) for name in ("driver", "sharded")]
    for layout in layouts:
        write_reports(layout, [*reports, *reports[3:5]])
        (next(layout.report_log.iterdir()) / "corrupt.json").write_text("{")
    driver, sharded = layouts
    run_available(spark, driver, settings=settings)
    jobs = KilledJobs(spark)
    with pytest.raises(Exception, match="killed"):
        run_available(spark, sharded, settings=settings, windows=ShardedWindows(jobs, sharded, shards=3))
    assert jobs.is_killed
    run_available(spark, sharded, settings=settings, windows=ShardedWindows(jobs, sharded, shards=2))
    expected, found = what_is_left(driver), what_is_left(sharded)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
