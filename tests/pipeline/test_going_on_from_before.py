"""The job goes on with a data folder that an earlier version wrote, from its state."""

import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.windows import LONG_SAMPLES, fold
from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob
from pulsar_barycenter.pipeline.stream.state import StateFolder
from support.data_of_before import MISSING, copied, logged
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.publications import decoded

pytestmark = pytest.mark.pipeline


def test_windows_are_continued_from_the_state_of_before(spark: SparkSession, tmp_path: Path) -> None:
    """The missing report comes, and the one that waited for it is folded after it; what was folded is not again.

    The tables then say what their definitions make of all reports.
    """
    layout = copied(tmp_path / "cluster")
    before = StateFolder(layout).before(3).bundles.to_pylist()
    shutil.copy(MISSING, layout.report_log / "2023-11-15")
    reports = logged(layout)
    job = PipelineJob(spark, layout, JobSettings(once=True), clock_ms=lambda: 0)
    job.run(threading.Event())
    status = job.status
    assert (status.state, status.batch_id, status.batches) == ("stopped", 3, 1)
    assert (status.reports, status.held_reports, status.late_reports) == (2, 0, 0)

    came = [report for report in reports if report.broker_id == "127.0.0.1:8080" and report.sequence > 5]
    assert [report.sequence for report in came] == [6, 7]
    published = decoded(layout.publication.read_bytes())
    for bundle in before:
        average, count = bundle["long_msg_rate_in"], bundle["long_num_samples"]
        for report in came:
            if bundle["bundle"] in report.last_stats:
                average, count = fold(average, count, report.last_stats[bundle["bundle"]].msg_rate_in, LONG_SAMPLES)
        row = published.bundle.index(bundle["bundle"])
        assert (published.long_num_samples[row], published.long_msg_rate_in[row]) == (count, average)
    assert sum(published.long_num_samples) > sum(bundle["long_num_samples"] for bundle in before)
    assert_tables_follow(spark, layout, PipelineOracle(reports), _kinds(layout.decisions))


def _kinds(decisions: Path) -> dict[int, str]:
    lines = (line for file in decisions.iterdir() for line in file.read_bytes().splitlines())
    return {line["at"]: line["kind"] for line in map(msgspec.json.decode, lines)}
