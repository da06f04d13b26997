"""A backlog: more files in the log of reports than a batch takes, folded in the order of their reports.

When a file was written says nothing: a copy of a log, or one that was uploaded, has files in any order. So the driver
reads what names each report first, all of a backlog in one job, and cuts the files into batches by the order that the
reports themselves give: those of an incarnation by their sequences, and all by their times. Files are then moved to the
archive, as Spark moves those of its stream.

Of a clock that was set back the greatest time before counts. A file with several reports stands in one batch, together
with all that lies between them.
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
    """A line of a file, as Spark names it; `key` is None for one that is no report."""

    file: str
    key: ReportKey | None


@dataclass(frozen=True, slots=True)
class BacklogBatch:
    """Some files as Spark names them, and their lines: LOAD_REPORT_LINE and FILE."""

    files: tuple[str, ...]
    lines: DataFrame


def read_backlog(session: SparkSession, storage: Storage, paths: set[str], *, most: int) -> Iterator[BacklogBatch]:
    """Give the lines of the files `paths` in batches of about `most` files, to be folded in this order.

    Raises what Spark does if it cannot read the log.
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
    """The texts, each value once in memory."""
    codes = texts.dictionary_encode()
    values = codes.dictionary.to_pylist()
    return [None if code is None else values[code] for code in codes.indices.to_pylist()]


def no_reports(session: SparkSession) -> DataFrame:
    """The lines of a batch without reports, as those of a `BacklogBatch`."""
    return session.createDataFrame([], LOAD_REPORT_LINE).withColumn(FILE, F.lit(""))


def move_to_archive(storage: Storage, files: Iterable[str]) -> None:
    """Move files out of the log; those that its retention has deleted are passed over."""
    for file in files:
        path = storage.path_of(file)
        with suppress(FileNotFoundError):
            storage.move(path, f"{ARCHIVE}/{path}")


def in_order(headers: Iterable[FileHeader], most: int) -> list[tuple[str, ...]]:
    """Cut the files into batches of `most`, or of more where files overlap; what is no report comes first."""
    headers = list(headers)
    place = {key: number for number, key in enumerate(_reports_in_order({h.key for h in headers if h.key}))}
    span: dict[str, tuple[int, int]] = {}
    for header in headers:
        here = place[header.key] if header.key else -1
        first, last = span.get(header.file, (here, here))
        span[header.file] = min(first, here), max(last, here)
    batches: list[list[str]] = [[]]
    until = -1
    for file, (first, last) in sorted(span.items(), key=lambda each: (each[1], each[0])):
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
    timed.sort(key=lambda each: (each[0], each[1].broker, each[1].incarnation, each[1].sequence))
    return [key for _, key in timed]
