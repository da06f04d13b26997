"""Whether reports were taken, by the table of reports: for those that `acceptance` cannot tell.

They are rare: older than two days, or among more gaps than are remembered.
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
    """Say of each report whether the table has it of a batch before `before`, on the date of its time.

    What a batch wrote that was cut off does not count: the batch runs again.

    Raises:
        DamagedTableError: a file of that date cannot be read.
        OSError: the file system does not let it be read.
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
