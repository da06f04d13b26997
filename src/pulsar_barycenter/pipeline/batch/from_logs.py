"""Computes all tables of a data directory from its logs again, and compares them with the recorded tables."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.batch.output import replaced_tables, table_path
from pulsar_barycenter.pipeline.batch.recorded import Comparison, compare_tables, compare_with_recorded
from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.decision_lines import read_decision_logs
from pulsar_barycenter.pipeline.parsing.report_lines import read_report_log
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import REPORT_LOG
from pulsar_barycenter.pipeline.tables.files import table_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES

_AVERAGES: Final = {"bundle_data": "bundle", "broker_data": "broker"}
"""Tables of which only the newest rows are computed, and the column that identifies a row."""


def refold_logs(
    session: SparkSession,
    storage: Storage,
    out: Storage | None = None,
    *,
    history_gap_ms: int = HISTORY_GAP_MS,
    progress: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Iterator[tuple[str, Comparison]]:
    """Compute each table again from the logs: the report log, the archive of read reports and the decision logs. For
    each table yield its name, and the comparison of the computed rows with the recorded ones.

    With `out`, the computed tables are also written there, each as `<name>.parquet`, a folder of files. When the
    iterator ends, they replace the tables of an earlier refold all at once; if it is closed earlier, or fails, they do
    not. After more than `history_gap_ms` without a sample, earlier samples of a bundle no longer count. `progress` is
    called with a text, and returns a context manager, which is open while a table is computed.

    Raises:
        ValueError: there is no report in the logs.
    """
    lines = read_report_log(session, storage).persist()
    tables = fold_history(lines, read_decision_logs(session, storage), history_gap_ms=history_gap_ms)
    with nullcontext() if out is None else replaced_tables(out) as new:
        for name in TABLES:
            rows: DataFrame = getattr(tables, name)
            if out is not None:
                rows = rows.persist()  # used twice: compared and written
            with progress(f"computing {name}"):
                if name in _AVERAGES:
                    files = [file.path for file in table_files(storage, name)]
                    found = compare_with_recorded(rows.toArrow(), storage, files, _AVERAGES[name])
                else:
                    found = compare_tables(rows, read_table(session, storage, name))
                if name == "load_reports" and not found.rows:
                    raise ValueError(
                        f"no reports in {storage.address(REPORT_LOG)} or in the archive of read reports; "
                        "give another folder"
                    )
                if out is not None:
                    rows.write.mode("overwrite").parquet(out.address(f"{new}/{table_path(name)}"))
                    rows.unpersist()
            yield name, found
