"""The batch jobs as a driver program of its own, for `spark-submit`: whole history and refold, as Parquet files.

python cluster_driver.py DATA OUT
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.batch.refold import refold
from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.decision_lines import read_decision_logs
from pulsar_barycenter.pipeline.parsing.report_lines import read_report_log
from pulsar_barycenter.pipeline.spark.session import create_session
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import live_files


def main(data: str, out: Path) -> None:
    session = create_session("cluster test")
    layout = PipelineLayout.of(data)
    out.mkdir()
    samples = [file.as_uri() for file in live_files(layout.tables, "bundle_samples")]
    refolded = refold(session, samples, stretches=2)
    pq.write_table(refolded.bundles, out / "refolded_bundles.parquet")
    pq.write_table(refolded.brokers, out / "refolded_brokers.parquet")
    history = fold_history(read_report_log(session, layout).persist(), read_decision_logs(session, layout))
    for field in fields(history):
        if field.name in sys.argv[3:]:
            pq.write_table(getattr(history, field.name).toArrow(), out / f"{field.name}.parquet")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
