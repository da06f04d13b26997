"""The archive of report files that Spark has read: `<data>/pipeline/archive/<full path of the file>`."""

import re
from collections.abc import Iterator

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import ARCHIVE, REPORT_LOG
from pulsar_barycenter.pipeline.tables.files import utc_date

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def remove_old_archive(storage: Storage, *, now_ms: int, days: int) -> None:
    """Delete from the archive of read reports the dates that are more than `days` days before today (UTC).

    In a local folder, a date stays if a report was added to it within the last `days` days. So reports with an old date
    can still be checked for `days` days after the pipeline has read them. For other storages it is not known when a
    file was added.
    """
    oldest_ms = now_ms - days * 86_400_000
    oldest = utc_date(oldest_ms)
    for log_folder in _archived_logs(storage, ARCHIVE):
        for entry in storage.entries(log_folder):
            was_read_lately = storage.local_root is not None and entry.modified_s * 1000 >= oldest_ms
            if _DATE.fullmatch(entry.name) and entry.name < oldest and not was_read_lately:
                storage.delete(f"{log_folder}/{entry.name}")


def _archived_logs(storage: Storage, folder: str) -> Iterator[str]:
    """Yield the paths of the report logs in the archive. A file is archived under its full path, so there is one log
    for each path that the data directory has had.
    """
    for entry in storage.entries(folder):
        path = f"{folder}/{entry.name}"
        if entry.name == REPORT_LOG:
            yield path
        elif entry.is_folder:
            yield from _archived_logs(storage, path)
