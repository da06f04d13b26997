"""Folds two synthetic reports in a separate folder, so that the first real batch is as fast as later ones.

The first batch of a Java process takes several seconds, because classes are loaded and plans compiled. A job that finds
no reports at its start uses the waiting time for this.
"""

import logging
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings, read_reports

log = logging.getLogger(__name__)

_BATCHES = 2
_DEADLINE_S = 30.0
_DATE = "2026-01-01"
_AT_MS = 1_767_225_600_000


class WarmUp:
    """Runs two small batches in a Spark session, in a background thread, so that the first real batch is fast. An error
    is logged; then the first real batch is slower.

    `within` is the folder for its temporary files, which Spark's executors must be able to read; None: the folder for
    temporary files of this machine.
    """

    def __init__(self, session: SparkSession, within: Path | None = None) -> None:
        self._session = session
        self._within = within
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warm-up", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Wait until the warm-up has ended. The caller must have called `start`."""
        self._thread.join()

    def close(self) -> None:
        """Start no further batch, and wait until the running one ends, at most `_DEADLINE_S` seconds. May be called
        several times, and without `start`.
        """
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(_DEADLINE_S)

    def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="barycenter-warm-up-", dir=self._within) as folder:
                layout = PipelineLayout.of(folder)
                layout.create()
                fold_samples(self._session, layout, must_stop=self._is_over.is_set)
        except (OSError, PySparkException, Py4JError) as error:
            if not self._is_over.is_set():
                log.warning("Spark could not be warmed up: %s", str(error).partition("\n")[0])


class NoWarmUp:
    """A warm-up that does nothing. It is used for a job that ends soon, or if Spark's executors cannot read a folder of
    this machine.
    """

    def start(self) -> None: ...

    def close(self) -> None: ...


def fold_samples(
    session: SparkSession, layout: PipelineLayout, *, must_stop: Callable[[], bool] = lambda: False
) -> None:
    """Run the pipeline's stream twice, each time with one synthetic report, in the folder of `layout`. Before each run,
    return if `must_stop` returns True.
    """
    fold = BatchFold(layout, clock_ms=lambda: _AT_MS)
    for sequence in range(1, _BATCHES + 1):
        if must_stop():
            return
        _write_report(layout.report_log / _DATE, sequence)
        writer = read_reports(session, layout, StreamSettings()).writeStream
        writer = writer.option("checkpointLocation", str(layout.checkpoints / "warm-up"))
        query = writer.trigger(availableNow=True).foreachBatch(fold.run).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()  # after a signal, too: nothing may write to the folder when it is removed


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
