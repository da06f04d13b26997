"""A backlog: more files in the report log than a batch takes. They are folded in the order of their reports.

The time of modification of a file does not show the order: the files of a copied or uploaded log have any times. So one
Spark job reads the keys of all reports of the backlog first. The driver then sorts the reports, by sequence within an
incarnation and by time across incarnations, and divides the files into batches in this order. Folded files are moved to
the archive, as Spark does with the files of its stream.

If a clock was set back, a report counts with the greatest time before it. A file with several reports is in one batch,
together with all files whose reports come between them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.parsing.report_lines import (
    JSON_OPTIONS,
    LOAD_REPORT_LINE,
    believable_times,
    is_report,
    one_entry_a_bundle,
)
from pulsar_barycenter.pipeline.reports.acceptance import ReportKey
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import ARCHIVE, REPORT_LOG
from pulsar_barycenter.pipeline.stream.micro_batches import FILE


class FileHeader(NamedTuple):
    """A line of a report file: the full path or URL of the file, and the key of the report. `key` is None if the line
    is not a valid report.
    """

    file: str
    key: ReportKey | None


@dataclass(frozen=True, slots=True)
class BacklogBatch:
    """The files of one batch (full paths or URLs), and the lines in these files, with the columns LOAD_REPORT_LINE and
    FILE.
    """

    files: tuple[str, ...]
    lines: DataFrame


def read_backlog(session: SparkSession, storage: Storage, paths: set[str], *, most: int) -> Iterator[BacklogBatch]:
    """Read the report files `paths` in batches of about `most` files. Yield the batches in the order of the times of
    their reports, which is the order in which averages must be computed. `paths` are relative to `storage`.

    Raises Spark's errors if it cannot read the report log.
    """
    reader = session.read.schema(LOAD_REPORT_LINE).options(**JSON_OPTIONS)
    lines = reader.json(f"{storage.address(REPORT_LOG)}/*").withColumn(FILE, F.col("_metadata.file_path"))
    lines = lines.transform(believable_times).transform(one_entry_a_bundle)
    key = F.struct("lastUpdate", "brokerId", "incarnation", "sequence")
    found = lines.select(FILE, F.when(is_report(), key).alias("key")).toArrow()
    headers = [header for header in _headers(found) if storage.path_of(header.file) in paths]
    for batch in in_order(headers, most):
        yield BacklogBatch(batch, lines.where(F.col(FILE).isin(list(batch))))


def _headers(found: pa.Table) -> Iterator[FileHeader]:
    keys = found.column("key").combine_chunks()
    at, broker, incarnation, sequence = keys.flatten()
    columns = (at.to_pylist(), _shared(broker), _shared(incarnation), sequence.to_pylist())
    rows = zip(found.column(FILE).to_pylist(), keys.is_valid().to_pylist(), *columns, strict=True)
    for file, has_key, *key in rows:
        yield FileHeader(file, ReportKey(*key) if has_key else None)


def _shared(texts: pa.Array) -> list[str | None]:
    """Return the texts as a list. Equal texts are the same object in it, which saves memory."""
    codes = texts.dictionary_encode()
    values = codes.dictionary.to_pylist()
    return [None if code is None else values[code] for code in codes.indices.to_pylist()]


def no_reports(session: SparkSession) -> DataFrame:
    """Return an empty DataFrame with the columns of `BacklogBatch.lines`: the lines of a batch without reports."""
    return session.createDataFrame([], LOAD_REPORT_LINE).withColumn(FILE, F.lit(""))


def move_to_archive(storage: Storage, files: Iterable[str]) -> None:
    """Move files (full paths or URLs) from the report log to the archive. A file that is missing, because the retention
    of the log has deleted it, is skipped.
    """
    for file in files:
        path = storage.path_of(file)
        with suppress(FileNotFoundError):
            storage.move(path, f"{ARCHIVE}/{path}")


def in_order(headers: Iterable[FileHeader], most: int) -> list[tuple[str, ...]]:
    """Divide files into batches, and order them so that all reports of a batch are older than those of the next batch.
    A file may have several reports. So a batch has `most` files, or more if their reports lie between those of other
    files of the batch.

    Files with a line that is not a report come first. Reports of one incarnation count in the order of their sequences,
    even if its clock went back.
    """
    headers = list(headers)
    index_of = {key: index for index, key in enumerate(_reports_in_order({h.key for h in headers if h.key}))}
    span: dict[str, tuple[int, int]] = {}
    for header in headers:
        index = index_of[header.key] if header.key else -1
        first, last = span.get(header.file, (index, index))
        span[header.file] = min(first, index), max(last, index)
    batches: list[list[str]] = [[]]
    until = -1
    for file, (first, last) in sorted(span.items(), key=lambda item: (item[1], item[0])):
        if len(batches[-1]) >= most and first > until:
            batches.append([])
        batches[-1].append(file)
        until = max(until, last)
    return [tuple(batch) for batch in batches if batch]


def _reports_in_order(keys: Iterable[ReportKey]) -> Sequence[ReportKey]:
    by_incarnation: dict[tuple[str, str], list[ReportKey]] = {}
    for key in keys:
        by_incarnation.setdefault((key.broker, key.incarnation), []).append(key)
    timed: list[tuple[int, ReportKey]] = []
    for group in by_incarnation.values():
        at = 0
        for key in sorted(group, key=lambda key: (key.sequence, key)):
            at = max(at, key.reported_at)
            timed.append((at, key))
    timed.sort(key=lambda pair: (pair[0], pair[1].broker, pair[1].incarnation, pair[1].sequence))
    return [key for _, key in timed]
