"""Uses of Spark what tests use of it: the stream over some reports, and one batch over all of them.

python -m support.spark_classes FOLDER    (which is to be made)
"""

import sys
import threading
from dataclasses import fields
from pathlib import Path

from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.decision_lines import read_decision_logs
from pulsar_barycenter.pipeline.parsing.report_lines import read_report_log
from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob
from pulsar_barycenter.pipeline.spark.session import create_session
from support.data_of_before import copied


def main(folder: Path) -> None:
    session = create_session("classes")
    layout = copied(folder)
    PipelineJob(session, layout, JobSettings(once=True), clock_ms=lambda: 0).run(threading.Event())
    history = fold_history(read_report_log(session, layout).persist(), read_decision_logs(session, layout))
    for field in fields(history):
        getattr(history, field.name).toArrow()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
