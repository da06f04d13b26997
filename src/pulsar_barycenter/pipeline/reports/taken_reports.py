"""Looks up in the table `load_reports` whether reports were taken, if the memory of `acceptance` does not show it.

Such reports are rare: they are older than two days, or their incarnation has more gaps than are stored.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.reports.acceptance import ReportKey, TakenKey, taken_key
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import table_files, utc_date
from pulsar_barycenter.pipeline.tables.reading import read_rows

_TABLE = "load_reports"
_COLUMNS = ("broker", "incarnation", "sequence")


def look_up_taken(storage: Storage, keys: Iterable[ReportKey], *, before: int) -> dict[TakenKey, bool]:
    """Return for each report whether a batch with an id below `before` wrote it to the table `load_reports`. Later
    batches do not count, because they will run again.

    Only the files for the dates of the reports are read.

    Raises:
        DamagedTableError: a file of these dates is damaged.
        OSError: the file system cannot read a file.
    """
    by_date: dict[str, set[TakenKey]] = {}
    for key in keys:
        by_date.setdefault(utc_date(key.reported_at), set()).add(taken_key(key))
    found = {key: False for wanted in by_date.values() for key in wanted}
    for date, wanted in by_date.items():
        brokers = pa.array({broker for broker, _, _ in wanted})
        for file in table_files(storage, _TABLE, dates=[date]):
            if file.first >= before:
                continue
            rows = read_rows(storage, file.path, _TABLE, _COLUMNS, pc.field("broker").isin(brokers))
            columns = (rows.column(name).to_pylist() for name in _COLUMNS)
            found |= dict.fromkeys(wanted.intersection(zip(*columns, strict=True)), True)
    return found
