"""Fold two made-up reports in a folder of their own, so that the first real batch is as quick as the next.

A cold Java takes several seconds for its first batch: classes are loaded, plans compiled. Doing that before the
pipeline says that it is ready keeps those seconds out of the age of the first reports.
"""

import tempfile
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings, read_reports

_BATCHES = 2
_DATE = "2026-01-01"
_AT_MS = 1_767_225_600_000


def warm_up(session: SparkSession, within: Path | None = None) -> None:
    """Run the stream twice over a report each; leaves nothing behind.

    `within` is a folder that the executors see, too; None: this machine's folder for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="barycenter-warm-up-", dir=within) as folder:
        layout = PipelineLayout.of(folder)
        layout.create()
        fold = BatchFold(layout, clock_ms=lambda: _AT_MS)
        for sequence in range(1, _BATCHES + 1):
            _write_report(layout.report_log / _DATE, sequence)
            writer = read_reports(session, layout, StreamSettings()).writeStream
            writer = writer.option("checkpointLocation", str(layout.checkpoints / "warm-up"))
            query = writer.trigger(availableNow=True).foreachBatch(fold.run).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()  # a signal came: nothing writes to the folder any more when it is removed


def _write_report(folder: Path, sequence: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    report = LocalBrokerData(
        broker_id="warm-up:0",
        incarnation="warm-up",
        sequence=sequence,
        last_update=_AT_MS + sequence,
        last_stats={"warm/up/0x00000000_0xffffffff": NamespaceBundleStats(msg_rate_in=1.0, topics=1)},
    )
    (folder / f"warm-up-{sequence}.json").write_bytes(msgspec.json.encode(report) + b"\n")
