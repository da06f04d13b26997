"""Answers an operator's questions about the recorded history from the tables.

Arrow reads the tables file by file, and rows are aggregated at once, so an answer needs neither Spark nor memory for
all rows. Periods are in epoch ms, begin inclusive, end exclusive. Every answer is an Arrow table.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import starmap
from operator import itemgetter
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.held import LONGEST_HELD
from pulsar_barycenter.pipeline.load_means import (
    FIGURES,
    Period,
    bundle_means,
    bundle_means_per_interval,
    report_times,
    usage_shares,
)
from pulsar_barycenter.pipeline.moves import FLAP_WITHIN, Move, Owned, flapping_of, moves_of
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER
from pulsar_barycenter.pipeline.tables.files import date_folders, date_of, table_files
from pulsar_barycenter.pipeline.tables.reading import opened_table, read_rows
from pulsar_barycenter.pipeline.tables.schemas import DECISIONS, OWNERSHIP, TABLES

END_OF_TIME: Final = 253_402_300_799_000
_ROWS_AT_ONCE: Final = 4_000_000
UNKNOWN: Final = "unknown"
"""Takes the place of a load manager for decisions whose log names neither a load manager nor a user."""

PERSON: Final = "person"
"""Takes the place of a load manager for decisions that a user requested."""

Progress = Callable[[Sequence[str], str], Iterable[str]]
"""A function that yields the given files, and may report progress; the text says what is being read."""


def silently(files: Sequence[str], _what: str) -> Iterable[str]:
    return files


class NoHistoryError(LookupError):
    """The tables have no rows that answer a question; the text says what is missing, and how to record it."""


class NoTablesError(NoHistoryError):
    """The data directory has no tables at all: no pipeline has written any yet."""


@dataclass(frozen=True, slots=True)
class BundleLife:
    """What the tables have about a bundle in the period, as Arrow tables, oldest row first.

    `owners` has broker, owned_from, owned_to (null: it still owns the bundle), ended (why the ownership ended: "moved",
    "split" or "broker gone"). `decisions` has the decisions about the bundle: at, by (the broker that decided),
    manager, strategy, kind, source, destination, refused (for kind "refuse", the action that was not taken), principal
    (the user who requested it; null: no user), sentence (the reason as a text), request (that user's HTTP request).
    `load` has the means of each interval, weighted by time: interval_start, broker (the one with the newest valid
    report), samples, covered (the fraction of the interval with a valid report), msg_rate (msg/s in + out),
    msg_throughput (bytes/s in + out), topics.
    """

    bundle: str
    owners: pa.Table
    decisions: pa.Table
    load: pa.Table


class Ranking(StrEnum):
    """The value by which bundles are ranked: message rate in msg/s, or throughput in bytes/s, both in + out."""

    MSG_RATE = "msg_rate"
    MSG_THROUGHPUT = "msg_throughput"


class History:
    """The recorded history of one data directory in a period: from `since_ms`, inclusive, to `until_ms`, exclusive.

    Every method that answers a question raises DamagedTableError, which names the file, if a table cannot be read.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        since_ms: int = 0,
        until_ms: int = END_OF_TIME,
        now_ms: int | None = None,
        progress: Progress = silently,
    ) -> None:
        """`since_ms` (inclusive) and `until_ms` (exclusive) are the period in epoch ms. A report is valid until
        `now_ms` (epoch ms) at the latest. None: it may be valid longer, for periods that ended long ago. `progress` is
        called with the paths of the files to read and the name of their table, and yields the paths.
        """
        self._storage = storage
        self._now = None if now_ms is None else datetime.fromtimestamp(now_ms / 1000, UTC)
        self._since = datetime.fromtimestamp(since_ms / 1000, UTC)
        self._until = datetime.fromtimestamp(min(until_ms, END_OF_TIME) / 1000, UTC)
        self._progress = progress

    def top_bundles(self, limit: int, *, by: Ranking = Ranking.MSG_RATE) -> pa.Table:
        """Return the `limit` bundles with the greatest mean of `by`, greatest first; if equal, the smaller name first.

        Means are weighted by time (docs/measures.md). Columns: bundle, broker (of its newest sample), samples (their
        number in the period), covered (the fraction of the period with a valid report), msg_rate and msg_throughput
        (means, in + out), msg_rate_max, msg_throughput_max, topics (of the newest sample).

        Raises:
            NoHistoryError: no bundle has a valid report in the period.
        """
        period = self._period()
        parts = self._parts("bundle_samples")
        found = []
        for part in range(parts):
            samples = [
                _figures(_in_part(rows, part, parts)) for rows in self._rows_held("bundle_samples", _SAMPLE_COLUMNS)
            ]
            if samples:
                found.append(bundle_means(pa.concat_tables(samples), period))
        means = pa.concat_tables(found) if found else pa.table({})
        if not len(means):
            raise self._nothing("bundle_samples")
        covered = pc.min_element_wise(
            pc.divide(means.column("covered_s"), max(period.until - period.since, 1) / 1e6), 1.0
        )
        ordered = means.append_column("covered", covered).sort_by([(str(by), "descending"), ("bundle", "ascending")])
        return ordered.slice(0, limit).select([*_TOP_COLUMNS])

    def bundle_owners(self, bundle: str) -> pa.Table:
        """Return the owners of the bundle over time, oldest first. The columns are broker, owned_from, owned_to and
        ended, as in the table `ownership`.

        Raises:
            NoHistoryError: the bundle is not in the table `ownership` for these dates.
        """
        return self._ownership(pc.field("bundle") == bundle).drop_columns(["bundle", "incarnation"])

    def bundle_of(self, topic: TopicName) -> str:
        """Return the bundle that contains a topic. If several bundles that had an owner in the period contain it,
        because a bundle was split, return the one whose ownership began last; if equal, the one with the smallest
        range.

        Raises:
            NoHistoryError: no bundle that contains the topic had an owner in the period.
        """
        namespace = f"{topic.namespace}/"
        owned = self._ownership(pc.starts_with(pc.field("bundle"), namespace))
        covering = [
            (since, -bundle.range.width, str(bundle))
            for since, name in zip(
                owned.column("owned_from").to_pylist(), owned.column("bundle").to_pylist(), strict=True
            )
            if (bundle := Bundle.parse(name)).contains(topic)
        ]
        if not covering:
            raise self._nothing("ownership")
        return max(covering)[2]

    def decisions(
        self, limit: int, *, manager: str = "", kind: str = "", columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the last `limit` decisions in the period, oldest first.

        `manager` and `kind` select the decisions of one load manager and of one kind; empty: all. `manager` may also be
        UNKNOWN (decisions that name neither a load manager nor a user) or PERSON (decisions that a user requested). The
        result has `columns`, by default: at, by, manager, strategy, kind, bundle, source, destination, refused,
        principal, sentence, request.

        Raises:
            NoHistoryError: there are no decisions of this kind in the period.
        """
        kept: pa.Table | None = None
        for rows in self._rows("decisions", "at", DECISIONS.names, pc.field("kind") == kind if kind else None):
            some = _of_manager(rows, manager)
            kept = some if kept is None else pa.concat_tables([kept, some])
            if len(kept) > max(limit, _DECISIONS_AT_ONCE):
                kept = _newest(_once(kept), limit)
        if kept is None:
            raise self._nothing("decisions")
        return _newest(_once(kept), limit).select([*(columns or _DECISION_COLUMNS)])

    def bundle_decisions(self, bundle: str, *, manager: str = "") -> pa.Table:
        """Return the decisions about the bundle in the period, oldest first; if `manager` is not empty, only those of
        this load manager, as in `decisions`.

        Columns: those of `decisions` without `bundle`.

        Raises:
            NoHistoryError: there are no decisions about the bundle in the period.
        """
        found = self._all("decisions", "at", DECISIONS.names, pc.field("bundle") == bundle)
        once = _once(_of_manager(found, manager))
        return once.select([name for name in _DECISION_COLUMNS if name != "bundle"])

    def moves(self, limit: int, *, bundle: str = "", broker: str = "") -> pa.Table:
        """Return the last `limit` moves of bundles from one broker to another in the period, oldest first.

        If `bundle` is not empty, only moves of this bundle count; if `broker` is not empty, only moves from or to this
        broker.

        Columns: at, bundle, source, destination, ended, since_last_s, is_back, unreported_s (see `moves.Move`); and of
        the decision that moved the bundle away: strategy, principal, sentence, request, all null if no decision is
        recorded.
        """
        wanted = [
            move
            for move in self._moves(pc.field("bundle") == bundle if bundle else None)
            if not broker or broker in (move.source, move.destination)
        ][-limit:]
        decided = self._unloads({move.bundle for move in wanted})
        rows = []
        for move in wanted:
            why = _why(move, decided)
            rows.append(
                {
                    **move._asdict(),
                    "since_last_s": None if move.since_last is None else move.since_last.total_seconds(),
                    "unreported_s": move.unreported.total_seconds(),
                    **{name: why.get(name) for name in _WHY_COLUMNS},
                }
            )
        return pa.Table.from_pylist(rows, schema=_MOVE_SCHEMA)

    def flapping(self, limit: int, *, within: timedelta = FLAP_WITHIN) -> pa.Table:
        """Return the `limit` bundles that flapped most often, most first. A flap is a move that a load manager made at
        most `within` after the bundle's previous move.

        A move that a user requested is not a flap, and neither is the next move after it. Columns: bundle, moves,
        flaps, back, soonest_s, first, last, brokers (see `moves.Flapping`).
        """
        moves = self._moves(None)
        decided = self._unloads({move.bundle for move in moves if move.is_flap(within)})
        found = flapping_of(moves, within, lambda move: bool(_why(move, decided).get("principal")))
        rows = [
            {**each._asdict(), "soonest_s": each.soonest.total_seconds(), "brokers": ", ".join(each.brokers)}
            for each in found[:limit]
        ]
        return pa.Table.from_pylist(rows, schema=_FLAPPING_SCHEMA)

    def _moves(self, condition: pc.Expression | None) -> list[Move]:
        """Return the moves within the period. `condition` selects rows of the table `ownership`; None: all. A move is
        missing if the bundle's previous ownership ended before the period began.
        """
        owned = self._ownership(condition)
        intervals = zip(*(owned.column(name).to_pylist() for name in _INTERVAL_COLUMNS), strict=True)
        return [move for move in moves_of(starmap(Owned, intervals)) if self._since <= move.at < self._until]

    def _unloads(self, bundles: set[str]) -> "_Unloads":
        """Return the decisions to unload these bundles, newest first, keyed by bundle and by the broker that owned the
        bundle.
        """
        columns = ["at", "bundle", "source", *_WHY_COLUMNS]
        condition = (pc.field("kind") == "unload") & pc.field("bundle").isin(list(bundles))
        found: _Unloads = {}
        for rows in self._rows("decisions", "at", columns, condition) if bundles else ():
            for row in rows.to_pylist():
                found.setdefault((row["bundle"], row["source"]), []).append(row)
        for decisions in found.values():
            decisions.sort(key=itemgetter("at"), reverse=True)
        return found

    def bundle_load(self, bundle: str, *, every: timedelta = timedelta(minutes=1)) -> pa.Table:
        """Return the means of the bundle's load for each interval of length `every`, weighted by time, oldest first.

        An interval without a valid report has no row. Columns: interval_start, broker (the one with the newest valid
        report), samples, covered (the fraction of the interval with a valid report), msg_rate and msg_throughput (in +
        out), topics.

        Raises:
            NoHistoryError: there is no row.
        """
        samples = [
            _figures(rows) for rows in self._rows_held("bundle_samples", _SAMPLE_COLUMNS, pc.field("bundle") == bundle)
        ]
        width = round(every.total_seconds() * 1_000_000)
        means = bundle_means_per_interval(pa.concat_tables(samples), self._period(), width) if samples else pa.table({})
        if not len(means):
            raise self._nothing("bundle_samples")
        covered = pc.divide(means.column("covered_s"), every.total_seconds())
        names = ["interval_start", "broker", "samples", "covered", "msg_rate", "msg_throughput", "topics"]
        return means.append_column("covered", covered).select(names)

    def bundle_life(self, bundle: str, *, every: timedelta = timedelta(minutes=15), manager: str = "") -> BundleLife:
        """Return the owners of a bundle, the decisions about it (only of the load manager `manager`, unless that is
        empty), and its load for each interval of length `every`. A part for which there are no rows is an empty table.

        Raises:
            NoHistoryError: all three parts have no rows in the period.
        """
        questions: tuple[Callable[[], pa.Table], ...] = (
            lambda: self.bundle_owners(bundle),
            lambda: self.bundle_decisions(bundle, manager=manager),
            lambda: self.bundle_load(bundle, every=every),
        )
        parts: list[pa.Table] = []
        lacking = 0
        for question, empty in zip(questions, _LIFE_SCHEMAS, strict=True):
            try:
                parts.append(question())
            except NoHistoryError:
                lacking += 1
                if lacking == len(questions):
                    raise
                parts.append(empty.empty_table())
        return BundleLife(bundle, *parts)

    def brokers_over(self, threshold: float) -> pa.Table:
        """Return the brokers whose weighted usage was above `threshold` (a fraction) in some report. The broker that
        was above it for the greatest share of the time comes first.

        Columns: broker, reports (their number), over (the number of reports above the threshold), share (of the time
        with a valid report, the fraction above the threshold), usage_mean (weighted by time), usage_max, first_over and
        last_over (times of the first and the last report above).
        """
        usages = [*self._rows_held("broker_usage", ["broker", "weighted_usage"])]
        shares = usage_shares(pa.concat_tables(usages), self._period(), threshold) if usages else pa.table({})
        if not len(shares):
            raise self._nothing("broker_usage")
        found = shares.filter(pc.is_valid(shares.column("first_over")))
        return found.sort_by([("share", "descending"), ("broker", "ascending")])

    def imbalance(self) -> pa.Table:
        """Return the rows of the table `balance`, oldest first, with two more columns: `usage_ratio` and
        `msg_rate_ratio` are the greatest value of a broker divided by the mean over the brokers, null if the mean is 0.

        Columns: interval_start, brokers, usage_max, usage_mean, usage_ratio, usage_deviation, msg_rate_ratio,
        brokers_over_threshold, unloads, splits, bundles_without_owner.
        """
        rows = self._all("balance", "interval_start", TABLES["balance"].schema.names)
        rows = rows.append_column("usage_ratio", _ratio(rows, "usage")).append_column(
            "msg_rate_ratio", _ratio(rows, "msg_rate")
        )
        return rows.select([*_BALANCE_COLUMNS]).sort_by("interval_start")

    def rows(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Return `columns` of the rows that the table `name` has in the period, in any order. Of rows with equal values
        in the table's key, only one is returned.

        Raises:
            NoHistoryError: there are no rows.
        """
        table = TABLES[name]
        found = self._all(name, table.time, list(dict.fromkeys([*columns, *table.key])))
        once = found.append_column("row", pa.array(range(len(found)), pa.int64()))
        kept = once.group_by(list(table.key), use_threads=False).aggregate([("row", "last")]).column("row_last")
        return found.take(kept).select([*columns])

    def table(self, name: str) -> pa.Table:
        """Return all columns of the table `name` in the period, sorted by time, then by the rest of the table's key. Of
        rows with equal keys, only one is returned.

        The result is empty if there are no rows. An interval of the table `ownership` is returned if a part of it is in
        the period.
        """
        table = TABLES[name]
        names = table.schema.names
        try:
            found = self._ownership(None) if name == "ownership" else self.rows(name, names)
        except NoHistoryError:
            return self._empty(names, name)
        order = [table.time, *(key for key in table.key if key != table.time)]
        return found.sort_by([(column, "ascending") for column in order])

    def _ownership(self, condition: pc.Expression | None) -> pa.Table:
        """Return the intervals of ownership that overlap the period, sorted by begin. `condition` selects rows of the
        table; None: all. An interval is returned once, although the table may have several rows of it; it has its end
        if that is known.

        Raises:
            NoHistoryError: the table has no such rows for the dates of the period.
        """
        found = [self._empty(OWNERSHIP.names, "ownership")]
        found += (
            read_rows(self._storage, file, "ownership", OWNERSHIP.names, condition) for file in self._files("ownership")
        )
        keys = TABLES["ownership"].key
        once = pa.concat_tables(found).group_by(list(keys)).aggregate([("owned_to", "max"), ("ended", "max")])
        once = once.rename_columns([name.removesuffix("_max") for name in once.column_names]).select(OWNERSHIP.names)
        if not len(once):
            raise self._nothing("ownership")
        begins = pc.less(once.column("owned_from"), pa.scalar(self._until, once.schema.field("owned_from").type))
        end = once.column("owned_to")
        lasts = pc.or_kleene(pc.is_null(end), pc.greater(end, pa.scalar(self._since, end.type)))
        return once.filter(pc.and_(begins, pc.fill_null(lasts, fill_value=True))).sort_by("owned_from")

    def _all(self, name: str, time: str, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        found = list(self._rows(name, time, columns, condition))
        if not found:
            raise self._nothing(name)
        return pa.concat_tables(found)

    def _rows(
        self,
        name: str,
        time: str,
        columns: Sequence[str],
        condition: pc.Expression | None = None,
        *,
        earlier: timedelta = timedelta(0),
    ) -> Iterator[pa.Table]:
        """Yield the rows of the table `name` whose time is in the period, or at most `earlier` before its begin. One
        table per file; files without such rows are skipped. `time` is the column with the time, `condition` selects
        rows (None: all).
        """
        begin = self._since - min(earlier, self._since - _NEVER)
        within = (pc.field(time) >= pa.scalar(begin, pa.timestamp("us", "UTC"))) & (
            pc.field(time) < pa.scalar(self._until, pa.timestamp("us", "UTC"))
        )
        wanted = within if condition is None else within & condition
        names = list(dict.fromkeys([*columns, time]))
        for file in self._files(name, earlier=earlier):
            rows = read_rows(self._storage, file, name, names, wanted)
            if len(rows):
                yield rows

    def _rows_held(
        self, name: str, columns: Sequence[str], condition: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of reports in the period, and of reports at most LONGEST_HELD before it, which may still be
        valid in it.
        """
        return self._rows(name, "reported_at", columns, condition, earlier=LONGEST_HELD)

    def _period(self) -> Period:
        """Return the period, with the times of the reports in it and shortly before it.

        If the begin of the period is before the first report, the period starts at that report. If it has no end, it
        ends when the last report is no longer valid. It never ends after the `now_ms` that the constructor got.
        """
        reports = report_times(self._rows_held("load_reports", ["broker"]))
        first = min((int(times[0]) for times in reports.values()), default=0)
        last = max((int(times[-1]) for times in reports.values()), default=0)
        until = _us(self._until)
        if until == END_OF_TIME * 1000 and reports:
            until = last + round(LONGEST_HELD.total_seconds() * 1e6)
        return Period(max(_us(self._since), first), until if self._now is None else min(until, _us(self._now)), reports)

    def _parts(self, name: str) -> int:
        """Return the number of parts into which the rows of the table `name` must be divided so that a part fits into
        memory. One part is handled at a time.
        """
        rows = 0
        for file in self._files(name, earlier=LONGEST_HELD):
            with opened_table(self._storage, file) as parquet:
                rows += parquet.metadata.num_rows
        return max(1, -(-rows // max(1, _ROWS_AT_ONCE)))

    def _files(self, name: str, *, earlier: timedelta = timedelta(0)) -> Iterable[str]:
        begin = self._since - min(earlier, self._since - _NEVER)
        first, last = begin.strftime("%Y-%m-%d"), self._until.strftime("%Y-%m-%d")
        dates = {date for date in map(date_of, date_folders(self._storage, name)) if first <= date <= last}
        return self._progress([file.path for file in table_files(self._storage, name, dates=dates)], name)

    @staticmethod
    def _empty(columns: Sequence[str], name: str) -> pa.Table:
        return _nullable(name, columns).empty_table()

    def _nothing(self, name: str) -> NoHistoryError:
        where = self._storage.address(f"{TABLES_FOLDER}/{name}")
        if not any(date_folders(self._storage, table) for table in TABLES):
            return NoTablesError(
                f"{self._storage.address(TABLES_FOLDER)} has no tables: there is no history yet."
                f" `barycenter pipeline run --data {self._storage.address()}` makes it from the load reports there"
            )
        late = "; an interval is recorded one minute after its end" if name == "balance" else ""
        return NoHistoryError(f"{where} has no matching rows in this period{late}")


_SAMPLE_COLUMNS: Final = (
    *("bundle", "broker", "topics"),
    *("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out"),
)
_TOP_COLUMNS: Final = (
    *("bundle", "broker", "samples", "covered", "msg_rate", "msg_rate_max"),
    *("msg_throughput", "msg_throughput_max", "topics"),
)
_BALANCE_COLUMNS: Final = (
    *("interval_start", "brokers", "usage_max", "usage_mean", "usage_ratio", "usage_deviation", "msg_rate_ratio"),
    *("brokers_over_threshold", "unloads", "splits", "bundles_without_owner"),
)


_INTERVAL_COLUMNS: Final = ("bundle", "broker", "owned_from", "owned_to", "ended")
_NEVER: Final = datetime.fromtimestamp(0, UTC)
_TIME: Final = pa.timestamp("us", "UTC")
_MOVE_SCHEMA: Final = pa.schema(
    {
        "at": _TIME,
        "bundle": pa.string(),
        "source": pa.string(),
        "destination": pa.string(),
        "ended": pa.string(),
        "since_last_s": pa.float64(),
        "is_back": pa.bool_(),
        "unreported_s": pa.float64(),
        "strategy": pa.string(),
        "principal": pa.string(),
        "sentence": pa.string(),
        "request": pa.string(),
    }
)
_WHY_COLUMNS: Final = ("strategy", "principal", "sentence", "request")
_FLAPPING_SCHEMA: Final = pa.schema(
    {
        "bundle": pa.string(),
        "moves": pa.int64(),
        "flaps": pa.int64(),
        "back": pa.int64(),
        "soonest_s": pa.float64(),
        "first": _TIME,
        "last": _TIME,
        "brokers": pa.string(),
    }
)
_DECISION_COLUMNS: Final = (
    *("at", "by", "manager", "strategy", "kind", "bundle", "source", "destination", "refused"),
    *("principal", "sentence", "request"),
)
_DECISIONS_AT_ONCE: Final = 100_000


def _nullable(name: str, columns: Iterable[str]) -> pa.Schema:
    schema = TABLES[name].arrow_schema
    return pa.schema([schema.field(column).with_nullable(True) for column in columns])


_LIFE_SCHEMAS: Final = (
    _nullable("ownership", [name for name in OWNERSHIP.names if name not in ("bundle", "incarnation")]),
    _nullable("decisions", [name for name in _DECISION_COLUMNS if name != "bundle"]),
    pa.schema(
        {
            "interval_start": _TIME,
            "broker": pa.string(),
            "samples": pa.int64(),
            "covered": pa.float64(),
            "msg_rate": pa.float64(),
            "msg_throughput": pa.float64(),
            "topics": pa.int64(),
        }
    ),
)
"""The columns of the parts of a `BundleLife`."""


_Unloads: TypeAlias = dict[tuple[str, str], list[dict[str, Any]]]


def _why(move: Move, decided: _Unloads) -> dict[str, Any]:
    """Return the decision that moved the bundle away from its source: the last decision to unload it that was made
    after the bundle's previous move, and not after this move. `decided` is the result of `_unloads`.

    Return {} if no such decision is recorded.
    """
    before = _NEVER if move.since_last is None else move.at - move.since_last
    of_bundle = decided.get((move.bundle, move.source), ())
    return next((each for each in of_bundle if before < each["at"] <= move.at), {})


def _of_manager(rows: pa.Table, manager: str) -> pa.Table:
    """Return the decisions of the load manager `manager`. "": return all decisions. PERSON: return those that users
    requested. UNKNOWN: return those that name neither a load manager nor a user.
    """
    if not manager:
        return rows
    who, is_manual = rows.column("manager"), pc.is_valid(rows.column("principal"))
    if manager == PERSON:
        return rows.filter(is_manual)
    return rows.filter(pc.and_not(pc.is_null(who), is_manual) if manager == UNKNOWN else pc.equal(who, manager))


def _once(rows: pa.Table) -> pa.Table:
    """Return the decisions in `rows`, oldest first. Of several rows of the same decision, only one is returned."""
    keys = list(TABLES["decisions"].key)
    once = rows.group_by(keys).aggregate([(name, "min") for name in DECISIONS.names if name not in keys])
    once = once.rename_columns([name.removesuffix("_min") for name in once.column_names])
    return once.select(DECISIONS.names).sort_by([("at", "ascending"), ("by", "ascending"), ("number", "ascending")])


def _newest(rows: pa.Table, limit: int) -> pa.Table:
    return rows.slice(max(0, len(rows) - limit))


def _figures(rows: pa.Table) -> pa.Table:
    """Return bundle, broker, topics and reported_at of each sample, and two more columns: the message rate (msg/s) and
    the throughput (bytes/s), both in + out.
    """
    found = rows.select(["bundle", "broker", "topics", "reported_at"])
    for name in FIGURES:
        found = found.append_column(name, pc.add(rows.column(f"{name}_in"), rows.column(f"{name}_out")))
    return found


def _in_part(rows: pa.Table, part: int, parts: int) -> pa.Table:
    """Return the rows of the bundles in the part with the number `part` (from 0). Bundles are divided into `parts`
    parts by a hash of their names.
    """
    if parts == 1:
        return rows
    codes = rows.column("bundle").combine_chunks().dictionary_encode()
    of_part = pa.array([zlib.crc32(name.encode()) % parts == part for name in codes.dictionary.to_pylist()])
    return rows.filter(of_part.take(codes.indices))


def _us(moment: datetime) -> int:
    return round((moment - _NEVER) / timedelta(microseconds=1))


def _ratio(rows: pa.Table, name: str) -> Any:
    mean = rows.column(f"{name}_mean")
    return pc.divide(rows.column(f"{name}_max"), pc.if_else(pc.greater(mean, 0), mean, pa.scalar(None, pa.float64())))
