"""The warm-up runs beside a job that has nothing to do, once, and leaves nothing behind."""

import logging
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob
from pulsar_barycenter.pipeline.running.warm_up import WarmUp
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from support.load_history import make_history
from support.pipeline_runs import write_reports

pytestmark = pytest.mark.pipeline

_DEADLINE_S = 120.0


def looks_without_reports(spark: SparkSession, layout: PipelineLayout, *, looks: int) -> list[str]:
    """Run a job until it found no reports, or some, and has looked so many times since; return what it said."""
    said: list[str] = []
    job = PipelineJob(
        *(spark, layout, JobSettings(trigger_s=0.1, look_s=0.0)),
        clock_ms=lambda: len(said),
        on_ready=lambda: said.append("ready"),
        on_no_reports=lambda: said.append("no reports"),
    )
    stop = threading.Event()
    guard = threading.Timer(_DEADLINE_S, stop.set)
    guard.start()
    seen: list[int] = []

    def watch() -> bool:
        if ("no reports" in said or job.status.batches) and job.status.looked_at:
            seen.append(job.status.looked_at)
        return len(seen) > looks

    job.run(stop, must_stop=watch)
    guard.cancel()
    assert not stop.is_set()
    return said


def test_a_job_that_finds_no_reports_has_time_and_says_so_once(spark: SparkSession, layout: PipelineLayout) -> None:
    """After it is ready."""
    assert looks_without_reports(spark, layout, looks=10) == ["ready", "no reports"]


def test_a_job_that_finds_reports_is_warmed_up_by_them(spark: SparkSession, layout: PipelineLayout) -> None:
    write_reports(layout, make_history(21, reports=3))
    assert looks_without_reports(spark, layout, looks=10) == ["ready"]


def test_the_warm_up_leaves_nothing_and_what_goes_wrong_is_logged(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Closed at once it waits for the batch that is under way."""
    warm_up = WarmUp(spark, tmp_path)
    warm_up.close()  # it never began
    warm_up = WarmUp(spark, tmp_path)
    warm_up.start()
    warm_up.close()
    warm_up.close()
    assert list(tmp_path.iterdir()) == []
    assert spark.streams.active == []
    with caplog.at_level(logging.WARNING):
        warm_up = WarmUp(spark, tmp_path / "nowhere")
        warm_up.start()
        warm_up.wait()
    assert ["could not be warmed up" in record.message for record in caplog.records] == [True]
