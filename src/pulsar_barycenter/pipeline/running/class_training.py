"""Runs what the commands do with Spark, so that Java loads those classes: a stream, a whole history, a SQL query.

    python -m pulsar_barycenter.pipeline.running.class_training FOLDER OPTION ...

Creates FOLDER, and gives the OPTIONs to Java. Returns after Java has ended and written the archive. After a change
here, change the form (`_FORM`) in `class_archive`, too.
"""

import shlex
import sys
from dataclasses import fields
from pathlib import Path

from pulsar_barycenter.pipeline.batch.refold import refold
from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.decision_lines import read_decision_logs
from pulsar_barycenter.pipeline.parsing.report_lines import read_report_log
from pulsar_barycenter.pipeline.running.warm_up import fold_samples
from pulsar_barycenter.pipeline.spark.java_options import EXTRA_OPTIONS, Compilers
from pulsar_barycenter.pipeline.spark.session import INTERPRETED, create_session, end_java
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import table_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES

_JAVA_ENDS_S = 600.0
_QUESTION = "select broker, count(*), max(as_of) from broker_data group by broker order by broker"


def main(folder: Path, *options: str) -> None:
    # The first compiler: nothing here runs for long. Plans are first compiled and then interpreted: sessions do both.
    java = " ".join(map(shlex.quote, (*options, *Compilers.FIRST.value)))
    settings = {EXTRA_OPTIONS: java, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    session = create_session("classes", conf=settings, compilers=Compilers.BOTH)
    layout = PipelineLayout.of(folder)
    layout.create()
    fold_samples(session, layout)
    history = fold_history(read_report_log(session, layout).persist(), read_decision_logs(session, layout))
    for field in fields(history):
        getattr(history, field.name).toArrow()
    refold(session, [layout.address(file.path) for file in table_files(layout, "bundle_samples")])
    for key, value in INTERPRETED.items():
        session.conf.set(key, value)
    fold_samples(session, layout)
    for name in TABLES:
        read_table(session, layout, name).createOrReplaceTempView(name)
    session.sql(_QUESTION).toArrow()
    end_java(session, within_s=_JAVA_ENDS_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
