"""Opens a recorded history, and answers questions to it; `pipeline.history` computes the answers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from pulsar_barycenter.cluster_logs.data_folder import check_load_folder
from pulsar_barycenter.history.data_frames import in_pandas, in_polars, tables
from pulsar_barycenter.history.errors import UnknownTableError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.history import END_OF_TIME, BundleLife, History, Ranking
from pulsar_barycenter.pipeline.local_sql import run_local_sql
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.storage.arrow_storage import ArrowStorage
from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage, local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.storage.read_only import ReadOnlyStorage
from pulsar_barycenter.pipeline.tables.schemas import TABLES

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import SparkSession

_RANKINGS: Final = {"rate": Ranking.MSG_RATE, "throughput": Ranking.MSG_THROUGHPUT}


@dataclass(frozen=True, repr=False)
class RecordedHistory:
    """The recorded history of a cluster in a period; `open_history` makes it.

    The results of the methods are Arrow tables: `to_pandas()`, `to_pylist()` and `polars.from_arrow` convert them.
    Times are UTC timestamps, rates are msg/s, throughput is bytes/s, usages are fractions unless a column says percent.
    Means are weighted by time (docs/measures.md). Each call reads the files that exist at that time, so a later call
    sees newer reports.

    Every method that reads raises DamagedTableError, which names the file, if a file of a table cannot be read, and
    OSError if the folder or bucket cannot be reached.
    """

    _storage: Storage
    _since_ms: int
    _until_ms: int

    def __repr__(self) -> str:
        return f"<RecordedHistory of {self.address}>"

    @property
    def address(self) -> str:
        """The path or URL of the data folder."""
        return self._storage.address()

    @property
    def table_names(self) -> Sequence[str]:
        """The names of the tables that docs/tables.md describes."""
        return tuple(TABLES)

    def table(self, name: str) -> pa.Table:
        """Return the rows of a table in the period as an Arrow table, oldest first, each row once. Without rows in the
        period the result is an empty table.

        All rows are in memory; use `sql` for a table that is too large for that.

        Args:
            name: One of `table_names`.

        Raises:
            UnknownTableError: there is no such table.

        >>> open_history("docs/examples/history").table("broker_usage").schema.names[:2]
        ['broker', 'incarnation']
        """
        if name not in TABLES:
            raise UnknownTableError(name)
        return self._questions().table(name)

    def pandas(self, name: str) -> "pd.DataFrame":
        """Return a table as a DataFrame of pandas; the rows are those of `table`.

        Raises:
            UnknownTableError: there is no such table.
            MissingLibraryError: pandas is not installed.

        >>> sorted(open_history("docs/examples/history").pandas("broker_usage").broker.unique())[0]
        'broker-0:8080'
        """
        return in_pandas(self.table(name))

    def polars(self, name: str) -> "pl.DataFrame":
        """Return a table as a DataFrame of Polars; the rows are those of `table`.

        Raises:
            UnknownTableError: there is no such table.
            MissingLibraryError: Polars is not installed.

        >>> open_history("docs/examples/history").polars("balance")["brokers"].max()
        3
        """
        return in_polars(self.table(name))

    def spark(self, session: "SparkSession") -> HistoryTables:
        """Return all tables as DataFrames of Spark. They have the whole history and not only the period; see
        `history.data_frames.tables`.

        Raises:
            MissingLibraryError: PySpark is not installed.
            OSError: Spark cannot reach the folder.
        """
        return tables(session, self.address)

    def top(self, limit: int = 10, *, by: Literal["rate", "throughput"] = "rate") -> pa.Table:
        """Return the bundles with the greatest mean load, in + out, greatest first.

        Args:
            limit: The maximum number of bundles.
            by: "rate" (msg/s) or "throughput" (bytes/s).

        Returns:
            A row for each bundle: `bundle`, `broker` (of its newest sample), `samples`, `covered` (the share of the
            period for which there are reports), `msg_rate` and `msg_throughput` (means), `msg_rate_max`,
            `msg_throughput_max`, `topics` (their number, in the newest sample).

        Raises:
            NoHistoryError: there are no samples in the period.

        >>> open_history("docs/examples/history").top(3).num_rows
        3
        """
        return self._questions().top_bundles(limit, by=_RANKINGS[by])

    def bundle(self, name: str, *, every: timedelta = timedelta(minutes=15), manager: str | None = None) -> BundleLife:
        """Return the life of a bundle: its owners, the decisions about it, and its load.

        Args:
            name: A bundle as tenant/namespace/range, or a topic: then the last bundle in the period that contained the
                topic.
            every: The length of the intervals for which the mean load is computed.
            manager: Return only decisions of this load manager; the values are those of `decisions`. None: all
                decisions.

        Raises:
            InvalidNameError: the name is neither a bundle's nor a topic's.
            NoHistoryError: nothing of it is recorded in the period.

        >>> history = open_history("docs/examples/history")
        >>> life = history.bundle(history.top(1)["bundle"][0].as_py())
        >>> life.load.column_names[:2]
        ['interval_start', 'broker']
        """
        questions = self._questions()
        return questions.bundle_life(self._bundle(questions, name), every=every, manager=manager or "")

    def decisions(self, limit: int = 50, *, manager: str | None = None, kind: str | None = None) -> pa.Table:
        """Return the last `limit` decisions in the period, oldest first.

        Args:
            limit: The maximum number of decisions.
            manager: Return only decisions of this load manager: "modular", "extensible" or "simple"; "person":
                requested by an operator; "unknown": the log does not say. None: all decisions.
            kind: Return only decisions of this kind: "assign", "unload", "split", "refuse" or "shed". None: all kinds.

        Returns:
            `at`, `by` (the broker that decided), `manager`, `strategy`, `kind`, `bundle`, `source`, `destination`,
            `refused` (the action that was considered and not taken), `principal` (the user who requested the decision,
            null if no user did), `sentence` (the reason as text), `request` (the HTTP request of that user).

        Raises:
            NoHistoryError: there are no decisions in the period.

        >>> open_history("docs/examples/history").decisions(1, kind="unload")["kind"].to_pylist()
        ['unload']
        """
        return self._questions().decisions(limit, manager=manager or "", kind=kind or "")

    def moves(self, limit: int = 50, *, bundle: str | None = None, broker: str | None = None) -> pa.Table:
        """Return the last `limit` moves of bundles in the period, oldest first; empty if nothing moved.

        Args:
            limit: The maximum number of moves.
            bundle: Return only moves of this bundle, or of the bundle of this topic. None: all bundles.
            broker: Return only moves from this broker (HOST:PORT) and moves to it. None: all brokers.

        Returns:
            `at` (when the new owner first reported the bundle), `bundle`, `source`, `destination`, `ended` (why the
            bundle left: "moved" or "broker gone"), `since_last_s` (the time since the bundle's previous move, null if
            none is known), `is_back` (the bundle returned to the source of that previous move), `unreported_s` (how
            long no broker reported the bundle); and of the decision, null if none is recorded: `strategy`, `principal`,
            `sentence`, `request`, as in `decisions`.

        Raises:
            InvalidNameError: `bundle` is neither a bundle's nor a topic's name.
            NoHistoryError: no owner of a bundle is recorded in the period.

        >>> open_history("docs/examples/history").moves(2).num_rows
        2
        """
        questions = self._questions()
        name = self._bundle(questions, bundle) if bundle else ""
        return questions.moves(limit, bundle=name, broker=broker or "")

    def flapping(self, limit: int = 20, *, within: timedelta = timedelta(minutes=30)) -> pa.Table:
        """Return the bundles that load managers moved again soon after a move, those with the most such moves first.

        A move that an operator requested does not count. The move of the same bundle after it does not count either.
        The table is empty if no bundle moved again soon.

        Args:
            limit: The maximum number of bundles.
            within: A move counts if it comes at most this time after the bundle's previous move.

        Returns:
            `bundle`, `moves` (all moves of the bundle), `flaps` (moves that came too soon), `back` (flaps that returned
            to the broker which the bundle had just left), `soonest_s` (the shortest time between a flap and the move
            before it), `first` and `last` (the times of the first and the last flap), `brokers` (all owners, sorted by
            name, separated by commas).

        Raises:
            NoHistoryError: no owner of a bundle is recorded in the period.

        >>> open_history("docs/examples/history").flapping().column_names[:3]
        ['bundle', 'moves', 'flaps']
        """
        return self._questions().flapping(limit, within=within)

    def brokers(self, *, over: float = 0.85) -> pa.Table:
        """Return the brokers whose weighted usage was above a threshold, sorted by the share of time above it, largest
        first.

        Args:
            over: The threshold, exclusive, as a fraction: 0.85 is 85 %.

        Returns:
            `broker`, `reports` (their number), `over` (the number of reports above the threshold), `share` (the part of
            the time with reports in which the usage was above it), `usage_mean`, `usage_max`, `first_over` and
            `last_over` (times of the first and the last report above it). Empty if no broker was above the threshold.

        Raises:
            NoHistoryError: there are no reports in the period.

        >>> open_history("docs/examples/history").brokers(over=0.25)["broker"].to_pylist()
        ['broker-0:8080']
        """
        return self._questions().brokers_over(over)

    def imbalance(self) -> pa.Table:
        """Return how evenly the brokers were loaded, interval by interval (one minute by default), oldest first.

        Returns:
            `interval_start`, `brokers`, `usage_max`, `usage_mean`, `usage_ratio`, `usage_deviation`, `msg_rate_ratio`,
            `brokers_over_threshold`, `unloads`, `splits`, `bundles_without_owner` (see the table `balance` in
            docs/tables.md). A ratio is the greatest value divided by the mean; it is null if the mean is 0.

        Raises:
            NoHistoryError: there are no complete intervals in the period; an interval is recorded about a minute after
                its end.

        >>> "usage_ratio" in open_history("docs/examples/history").imbalance().column_names
        True
        """
        return self._questions().imbalance()

    def sql(self, query: str, *, limit: int = 10_000) -> pa.Table:
        """Return the result of one SQL query, which DuckDB runs. The query can use all tables by their names; they have
        the whole history and not only the period.

        The query takes at most 1 GiB of memory in addition to the result, and cannot write. For data in a bucket use
        `spark`.

        Args:
            query: A select, describe or show; docs/tables.md has examples.
            limit: The maximum number of rows of the result.

        Raises:
            ValueError: the data is not in a folder of this machine.
            QueryError: the query is wrong or fails; the text says why.

        >>> query = "select count(distinct broker) as brokers from broker_usage"
        >>> open_history("docs/examples/history").sql(query).to_pylist()
        [{'brokers': 3}]
        """
        if not isinstance(self._storage, LocalStorage):
            raise ValueError(
                f"sql() reads only folders of this machine, and {self.address} is not a folder of this machine:"
                " use spark(session) instead"
            )
        return run_local_sql(self._storage, query, limit=limit)

    def _questions(self) -> History:
        now_ms = time.time_ns() // 1_000_000
        return History(self._storage, since_ms=self._since_ms, until_ms=self._until_ms, now_ms=now_ms)

    @staticmethod
    def _bundle(questions: History, name: str) -> str:
        try:
            return str(Bundle.parse(name))
        except InvalidNameError:
            return questions.bundle_of(TopicName.parse(name))


def open_history(
    folder: str | PathLike[str],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    spark: "SparkSession | None" = None,
) -> RecordedHistory:
    """Open the recorded history in a data folder or a bucket. Nothing is read before a method of the result is called.

    Args:
        folder: A folder of this machine, or the address of a bucket. Without `spark`, Arrow reads the address: `s3:`,
            `s3a:`, `gs:`, `abfs:` or `hdfs:`, with the credentials that Arrow finds.
        since: The begin of the period, inclusive. None: from the first report on.
        until: The end of the period, exclusive. None: without an end, so that later reports are included.
        spark: A Spark session that reads the address instead of Arrow, with the session's own credentials and settings.

    Raises:
        WrongFolderError: a folder does not exist, or is not a data folder.
        ValueError: a time has no offset from UTC, `since` is not before `until`, or Arrow does not know the address.
        OSError: the folder or bucket cannot be reached.

    >>> from datetime import UTC, datetime
    >>> history = open_history("docs/examples/history", until=datetime(2026, 1, 1, 10, tzinfo=UTC))
    >>> history.table("load_reports").num_rows
    180
    """
    since_ms, until_ms = epoch_ms(since, 0), epoch_ms(until, END_OF_TIME)
    if since_ms >= until_ms:
        raise ValueError(f"since={since} is not before until={until}")
    return RecordedHistory(storage_at(fspath(folder), spark), since_ms, until_ms)


def storage_at(address: str, spark: "SparkSession | None" = None) -> Storage:
    """Return the storage of a data directory. `address` is a folder of this machine, or an address as for
    `open_history`; if `spark` is given, this session reads the address. Raises the errors of `open_history`.
    """
    local = local_folder(address)
    if local is not None:
        check_load_folder(local)
        return PipelineLayout.of(local)
    if spark is None:
        return ReadOnlyStorage(ArrowStorage(address), "a history is only read here")
    # local folders, and buckets that Arrow reads, need no PySpark
    from pulsar_barycenter.pipeline.spark.addresses import open_storage

    return open_storage(address, spark)


def epoch_ms(moment: datetime | None, otherwise: int) -> int:
    """Return `moment` as epoch ms, 0 for times before 1970; None: return `otherwise`. Raise ValueError if `moment` has
    no offset from UTC.
    """
    if moment is None:
        return otherwise
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no offset from UTC: give datetime(…, tzinfo=UTC), or a time with an offset")
    return max(0, round((moment.astimezone(UTC) - datetime.fromtimestamp(0, UTC)) / timedelta(milliseconds=1)))
