"""Computes the windows of all bundles and the averages of all brokers from the table of samples.

This is for large histories: after a loss of state, for a different history gap, or to check the stream. Spark
distributes the files. Each task folds a stretch of them with arrays (`pipeline.folds.stretches`), and the driver
combines the stretches in the order of time. There are two passes over the data. The first counts the samples of each
bundle, because the weight of a sample depends on how many came before; it reads two columns. The second folds.

Tasks read local files and shared folders themselves. Spark reads files at other addresses and distributes the rows by
time. This costs one more shuffle, but needs no other client or credentials.

A small history needs no Spark: `refold_here` does the work of the tasks in this process, one after the other. Up to
`SMALL_HISTORY` samples, both fold one stretch, so their results are equal to the last bit.

The result is that of `pipeline.batch.whole_history`, within rounding. If the samples of a bundle in local files are not
in the order of their times (late reports), they are sorted first; see `late_samples`.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by
from pyspark.sql.pandas.types import from_arrow_schema

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.batch.late_samples import (
    SAMPLE_ORDER,
    fold_sorted,
    sorted_samples,
    with_dictionaries,
)
from pulsar_barycenter.pipeline.folds.stretches import (
    COUNTED,
    FOLDED,
    MEMBERS,
    SIZES,
    STRETCH,
    NewestReports,
    StretchFold,
    count_samples,
    pieces_of,
)
from pulsar_barycenter.pipeline.spark.session import parallelism
from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.pipeline.tables.reading import opened_file
from pulsar_barycenter.pipeline.tables.schemas import (
    BROKER_DATA,
    BROKER_FIGURES,
    BUNDLE_SAMPLES,
    BUNDLE_STATE,
    FIGURES,
    WINDOWS,
)

SMALL_HISTORY: Final = 20_000_000
"""Up to this number of samples, a history is one stretch.

One core folds it in 4 s, about as long as Spark takes to start. `refold_here` then needs at most 4 GB of memory if the
samples of all bundles were late, and otherwise about 200 bytes per bundle.
"""


@dataclass(frozen=True, slots=True)
class Refolded:
    """The result of a refold: the average rates (windows) of bundles and brokers at the time of the newest sample.

    `bundles` has the columns BUNDLE_STATE, sorted by bundle; `brokers` has BROKER_DATA, sorted by broker. A bundle or
    broker is left out if its newest sample is older than the newest sample of all by more than `history_gap_ms`, an
    argument of `refold`. A broker whose newest report lists no bundle has no samples, and is left out as well. `late`
    is the number of bundles whose samples were not in the order of time, so that they had to be sorted first.
    """

    bundles: pa.Table
    brokers: pa.Table
    late: int


_Answer = tuple[pa.Table, pa.Table]


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    rows: int
    last_at: int


def refold(
    session: SparkSession, files: Sequence[str], *, history_gap_ms: int = HISTORY_GAP_MS, stretches: int | None = None
) -> Refolded:
    """Compute the average rates of bundles and brokers from all samples in `files`. These are Parquet files with the
    columns BUNDLE_SAMPLES: local paths, or addresses that Spark reads. No sample may be there twice.

    After more than `history_gap_ms` without a sample, earlier samples of a bundle no longer count. The history is
    divided in time into `stretches` parts, one task for each. None: one part if the files are local and have at most
    `SMALL_HISTORY` samples, otherwise one for each core of Spark.

    Raises:
        ValueError: there is no sample in `files`.
    """
    cores = parallelism(session)
    folders = [local_folder(file) for file in files]
    if None in folders:
        answers = _folded_by_spark(session, files, stretches or cores, history_gap_ms)
    else:
        found = _in_order([str(file) for file in folders])
        count = stretches or (1 if _is_small(found) else cores)
        answers = _folded_by_files(partial(_run, session), found, count, history_gap_ms)
    return _refolded(answers, partial(_sorted_fold, session, files, history_gap_ms), history_gap_ms)


def refold_here(files: Sequence[str], *, history_gap_ms: int = HISTORY_GAP_MS, stretches: int = 1) -> Refolded:
    """Compute the average rates of bundles and brokers from all samples in local `files`, in this process, without
    Spark.

    The result is that of `refold` with the same arguments.

    Raises:
        DamagedTableError: a file cannot be read.
        ValueError: there is no sample in `files`.
    """
    found = _in_order(files)
    answers = _folded_by_files(_run_here, found, stretches, history_gap_ms)

    def fold_late(late: pa.Array) -> pa.Table:
        pieces = pieces_of([file.path for file in found], FOLDED)
        return fold_sorted(sorted_samples(pieces, late).to_batches(), history_gap_ms)

    return _refolded(answers, fold_late, history_gap_ms)


def is_small_history(files: Sequence[str]) -> bool:
    """Return whether local `files` together have at most `SMALL_HISTORY` samples, according to the footers of the
    files.
    """
    return _is_small(_in_order(files))


def _is_small(files: Sequence[_File]) -> bool:
    return sum(file.rows for file in files) <= SMALL_HISTORY


def _refolded(answers: Sequence[_Answer], fold_late: Callable[[pa.Array], pa.Table], gap_ms: int) -> Refolded:
    """Combine the results of the parts of the history, in the order of time. `fold_late` is called with the names of
    bundles whose samples were not in the order of time, if there are any; it computes their averages, as a table with
    the schema STRETCH.
    """
    if not answers:
        raise ValueError("no samples: the given files have no rows")
    newest = NewestReports()
    for _, rows in answers:
        times = rows.group_by("broker").aggregate([("reported_at", "max")])
        newest.add(dict(zip(*(times.column(name).to_pylist() for name in times.column_names), strict=True)), rows)
    bundles, late = _composed([answer[0] for answer in answers])
    if len(late):
        bundles = pa.concat_tables([bundles, _composed([fold_late(late)])[0]])
    as_of = pc.max(bundles.column("as_of"))
    oldest = pa.scalar(as_of.cast(pa.int64()).as_py() - gap_ms * 1000, pa.int64()).cast(as_of.type)
    bundles = bundles.filter(pc.greater_equal(bundles.column("as_of"), oldest)).sort_by("bundle")
    members = newest.table()
    members = members.filter(pc.greater_equal(members.column("reported_at"), oldest.cast(pa.int64()).as_py() // 1000))
    return Refolded(bundles, _averaged(members, bundles, as_of), len(late))


def _folded_by_files(run: "_Run", files: Sequence[_File], tasks: int, gap_ms: int) -> list[_Answer]:
    """Divide `files` into at most `tasks` parts of the history. Return two tables for each part: the averages of
    bundles (schema STRETCH), and the bundles in the newest report of each broker (schema MEMBERS).

    `run` runs one task per part; a task reads its files itself.
    """
    parts = _in_stretches(files, tasks)
    priors = _priors(run, parts, gap_ms) if parts else []
    return run(partial(_fold_stretch, parts, priors, gap_ms), len(parts))


def _in_order(files: Sequence[str]) -> list[_File]:
    """Return the files that have rows, sorted by the time of their last sample, which is read from the file's footer.

    A file may have one late sample among newer ones. So the time of its last sample shows where most of its samples
    belong; the time of its first sample does not.
    """
    with ThreadPoolExecutor() as pool:
        looked_at = list(pool.map(_footer, files))
    return sorted((file for file in looked_at if file.rows), key=lambda file: (file.last_at, file.path))


def _footer(path: str) -> _File:
    with opened_file(path) as source:
        metadata = source.metadata
        column = source.schema_arrow.get_field_index("reported_at")
        lasts = [
            metadata.row_group(group).column(column).statistics.max
            for group in range(metadata.num_row_groups)
            if metadata.row_group(group).num_rows
        ]
        last_at = max((int(last.timestamp() * 1000) for last in lasts), default=0)
        return _File(path, metadata.num_rows, last_at)


def _in_stretches(files: Sequence[_File], count: int) -> list[list[str]]:
    """Divide `files` into at most `count` lists of paths, in their order, with about the same number of rows."""
    ends = np.cumsum([file.rows for file in files])
    if not len(ends):
        return []
    which = np.minimum((ends - 1) * count // ends[-1], count - 1)
    return [[file.path for file, at in zip(files, which, strict=True) if at == stretch] for stretch in np.unique(which)]


def _priors(run: "_Run", parts: Sequence[Sequence[str]], gap_ms: int) -> list[pa.Table | None]:
    """Return what is known of the samples before each part of the history in `parts`, which are lists of files: a table
    with the columns `bundle`, `samples` (how many samples of the bundle earlier parts have; only those that still
    count) and `last_at` (the time of the last of them). For the first part it is None.
    """
    if len(parts) == 1:
        return [None]
    # Each stretch but the last is counted, in two halves: smaller tasks keep all cores busy when there are few tasks.
    halves = [half for part in parts[:-1] for half in (part[: len(part) // 2], part[len(part) // 2 :])]
    counts = [answer[0] for answer in run(partial(_count_half, halves, gap_ms), len(halves))]
    return _summed_up(counts, gap_ms)[::2]


def _summed_up(counts: Sequence[pa.Table], gap_ms: int) -> list[pa.Table | None]:
    """Add up the counts of samples. `counts` has one table for each part of the history, with the counts of that part
    only. Return a list that is longer by one: at index i the sum of the first i counts; None at index 0.
    """
    priors: list[pa.Table | None] = [None]
    before: pa.Table | None = None
    for counted in counts:
        before = counted if before is None else _counted_after(before, counted, gap_ms)
        priors.append(before.select(["bundle", "samples", "last_at"]))
    return priors


def _counted_after(before: pa.Table, after: pa.Table, gap_ms: int) -> pa.Table:
    """Return the counts of samples (see `folds.stretches.Counts`) of two consecutive parts of the history together.
    `before` and `after` are the counts of each part.
    """
    both = before.join(after, "bundle", join_type="full outer", right_suffix="_after")
    had, has = (pc.is_valid(both.column(name)) for name in ("samples", "samples_after"))
    silent = pc.greater(pc.subtract(both.column("first_at_after"), both.column("last_at")), gap_ms)
    anew = pc.fill_null(pc.or_(both.column("cut_after"), silent), fill_value=False)
    total = pc.add(both.column("samples"), both.column("samples_after"))
    return pa.table(
        {
            "bundle": both.column("bundle"),
            "samples": pc.if_else(
                pc.and_(pc.and_(had, has), pc.invert(anew)),
                total,
                pc.if_else(has, both.column("samples_after"), both.column("samples")),
            ),
            "first_at": pc.coalesce(both.column("first_at"), both.column("first_at_after")),
            "last_at": pc.coalesce(both.column("last_at_after"), both.column("last_at")),
            "cut": pc.or_(pc.fill_null(both.column("cut"), fill_value=False), anew),
            "late": pc.or_(*(pc.fill_null(both.column(name), fill_value=False) for name in ("late", "late_after"))),
        }
    )


def _count_half(halves: Sequence[Sequence[str]], gap_ms: int, task: int) -> _Answer:
    return count_samples(pieces_of(halves[task], COUNTED), gap_ms), MEMBERS.empty_table()


def _fold_stretch(parts: Sequence[Sequence[str]], priors: Sequence[pa.Table | None], gap_ms: int, task: int) -> _Answer:
    fold = StretchFold(priors[task], gap_ms)
    return fold.fold(pieces_of(parts[task], FOLDED)), fold.newest.table()


_Work = Callable[[int], _Answer]
_Run = Callable[[_Work, int], list[_Answer]]
"""A function that calls its first argument with 0..n - 1 and returns the answers in this order."""


def _run_here(work: _Work, tasks: int) -> list[_Answer]:
    return [work(task) for task in range(tasks)]


def _run(session: SparkSession, work: _Work, tasks: int) -> list[_Answer]:
    """Call `work` with each number from 0 to `tasks` - 1 on Spark's workers, and return the results in this order."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # Spark has given this worker one core
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield _answered(task, work(task))

    found = _answers(session.range(0, tasks, 1, tasks).mapInArrow(answer, _ANSWERED))
    return [found[task] for task in range(tasks)]


_PIECE_ROWS = 200_000


def _folded_by_spark(session: SparkSession, files: Sequence[str], tasks: int, gap_ms: int) -> list[_Answer]:
    """Divide the samples in `files` by time into at most `tasks` parts. Return two tables for each part: the averages
    of bundles (schema STRETCH), and the bundles in the newest report of each broker (schema MEMBERS).

    Spark reads the rows, sends each to the task for its time, and sorts them there.
    """
    rows = session.read.schema(struct_type(BUNDLE_SAMPLES)).parquet(*files)
    cuts = _cuts(rows, tasks)
    counted = _run_by_time(rows.select(*COUNTED), cuts, partial(_count_rows, gap_ms)) if cuts else {}
    nothing = count_samples((), gap_ms)
    counts = [counted[stretch][0] if stretch in counted else nothing for stretch in range(len(cuts))]
    folded = _run_by_time(rows.select(*FOLDED), cuts, partial(_fold_rows, _summed_up(counts, gap_ms), gap_ms))
    return [folded[stretch] for stretch in sorted(folded)]


def _cuts(rows: DataFrame, tasks: int) -> list[int]:
    """Return the times (epoch ms) that divide the rows into at most `tasks` parts with about the same number of rows:
    where the second part begins, the third, and so on.
    """
    shares = [number / tasks for number in range(1, tasks)]
    if not shares:
        return []
    times = rows.select(_at_ms().alias("at"))
    return sorted({int(at) for at in times.approxQuantile("at", shares, 0.001)})


def _at_ms() -> Column:
    """Return a column with the time of a sample in epoch ms."""
    return F.unix_millis("reported_at")


_RowWork = Callable[[int, Iterator[pa.Table]], _Answer]


def _count_rows(gap_ms: int, _stretch: int, pieces: Iterator[pa.Table]) -> _Answer:
    return count_samples(pieces, gap_ms), MEMBERS.empty_table()


def _fold_rows(priors: Sequence[pa.Table | None], gap_ms: int, stretch: int, pieces: Iterator[pa.Table]) -> _Answer:
    fold = StretchFold(priors[stretch], gap_ms)
    return fold.fold(pieces), fold.newest.table()


def _run_by_time(rows: DataFrame, cuts: Sequence[int], work: _RowWork) -> dict[int, _Answer]:
    """Call `work` on Spark's workers once for each part of the history that has rows: with the number of the part, from
    0, and its rows in the order of time. Return the results by the number of the part.

    Part 0 ends before the first of `cuts` (epoch ms). Each later part begins at one of `cuts` and ends before the next.
    """

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # Spark has given this worker one core
        for first in batches:
            stretch = first.column("stretch")[0].as_py()
            yield _answered(stretch, work(stretch, _large_pieces(chain((first,), batches))))

    stretch = sum(((_at_ms() >= cut).cast("int") for cut in cuts), F.lit(0))
    order = [name for name in SAMPLE_ORDER if name in rows.columns]
    spread = rows.withColumn("stretch", stretch).repartitionById(len(cuts) + 1, F.col("stretch"))
    return _answers(spread.sortWithinPartitions(*order).mapInArrow(answer, _ANSWERED))


def _large_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combine Spark's small batches into tables with `_PIECE_ROWS` rows or more; only the last one may have fewer.
    Columns with names are encoded as Arrow dictionaries.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _PIECE_ROWS:
            yield with_dictionaries(pa.Table.from_batches(held))
            held = []
    if held:
        yield with_dictionaries(pa.Table.from_batches(held))


_ANSWERED = "task long, first binary, second binary"


def _answered(task: int, answer: _Answer) -> pa.RecordBatch:
    return pa.record_batch([[task], *([_packed(table)] for table in answer)], ["task", "first", "second"])


def _answers(rows: DataFrame) -> dict[int, _Answer]:
    return {row["task"]: (_unpacked(row["first"]), _unpacked(row["second"])) for row in rows.toArrow().to_pylist()}


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()


def _composed(stretches: Sequence[pa.Table]) -> tuple[pa.Table, pa.Array]:
    """Combine the results of the parts of the history, in the order of time. Return a table with the columns
    BUNDLE_STATE for the bundles whose samples were in the order of time, and the names of the other bundles.
    """
    names = pc.unique(pa.chunked_array([chunk for part in stretches for chunk in part.column("bundle").chunks]))
    count = len(names)
    last_at, samples, topics = np.full(count, np.iinfo(np.int64).min), np.zeros(count, int), np.zeros(count, int)
    late = np.zeros(count, bool)
    averages = {(size, figure): np.zeros(count) for size in SIZES for figure in FIGURES}
    for part in stretches:
        rows = pc.index_in(part.column("bundle"), names).to_numpy()
        column = {name: part.column(name).to_numpy() for name in STRETCH.names[1:]}
        late[rows] |= column["late"] | (column["first_at"] < last_at[rows])
        last_at[rows], samples[rows], topics[rows] = column["last_at"], column["samples"], column["topics"]
        for (size, figure), average in averages.items():
            average[rows] = column[f"share_{size}"] * average[rows] + column[f"sum_{size}_{figure}"]
    columns: dict[str, object] = {"bundle": names, "as_of": pa.array(last_at * 1000, pa.timestamp("us", "UTC"))}
    for window, size in zip(WINDOWS, SIZES, strict=True):
        columns[f"{window}_num_samples"] = np.minimum(samples, size).astype(np.int32)
        columns |= {f"{window}_{figure}": averages[size, figure] for figure in FIGURES}
    columns["topics"] = topics
    state = pa.table({name: columns[name] for name in BUNDLE_STATE.names})
    return state.filter(pa.array(~late)), names.filter(pa.array(late))


def _sorted_fold(session: SparkSession, files: Sequence[str], gap_ms: int, late: pa.Array) -> pa.Table:
    """Compute the averages of the bundles in `late`, whose samples may have any order in `files`. Return a table with
    the schema STRETCH. Spark sorts the samples, and its tasks compute the averages.
    """
    samples = session.read.schema(struct_type(BUNDLE_SAMPLES)).parquet(*files).select(*FOLDED)
    names = session.createDataFrame(pa.table({"bundle": late}))
    rows = samples.join(F.broadcast(names), "bundle", "left_semi").repartition("bundle")

    def folded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # Spark has given this worker one core
        yield from fold_sorted(batches, gap_ms).to_batches()

    schema = from_arrow_schema(STRETCH)
    found = rows.sortWithinPartitions("bundle", *SAMPLE_ORDER).mapInArrow(folded, schema).toArrow()
    return found.cast(STRETCH)


def _averaged(members: pa.Table, bundles: pa.Table, as_of: pa.Scalar) -> pa.Table:
    """Return the averages of each broker, with the columns BROKER_DATA, sorted by broker: the sums of the averages of
    its bundles. `members` has the bundles of each broker, `bundles` the averages of at least these bundles.
    """
    brokers = pc.unique(members.column("broker"))
    which = pc.index_in(members.column("broker"), brokers).to_numpy()
    rows = pc.index_in(members.column("bundle"), bundles.column("bundle")).to_numpy()
    sums = {"broker": brokers, "as_of": pa.array([as_of.as_py()] * len(brokers), pa.timestamp("us", "UTC"))}
    for name in BROKER_FIGURES:
        figures = bundles.column(name.replace("_term_", "_")).to_numpy()
        sums[name] = pa.array(np.bincount(which, weights=figures[rows], minlength=len(brokers)))
    return pa.table(sums).select(BROKER_DATA.names).sort_by("broker")
