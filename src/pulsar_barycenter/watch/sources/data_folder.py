"""Reads a cluster from a folder of recorded load: of `collect`, of `balance`, or the data folder of a cluster.

| file | used for |
|---|---|
| `load-reports/<yyyy-mm-dd>/*.json` | load and owners; new files are read each time |
| `settings.jsonl` | the settings in force, which `collect` and `balance` record; without it, defaults are assumed |
| `policies.jsonl` | the rules of administrators in force, which `balance` records; without it, none are assumed |
| `cluster.json` | which cluster it is |
| `moves.journal`, `splits.journal` | the reasons of the moves and splits of `balance` |

Reports are sorted by their time; a look is taken when a broker reports again, so that moves are seen in their order.
Reports that the pipeline has archived (`pipeline/archive`) are not read.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pulsar_barycenter.balancer.facts import Identity
from pulsar_barycenter.balancer.state_folder import StateError, read_file
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.load.policies import ClusterPolicies, PolicyError
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, decode_report
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.recorded_policies import POLICIES_FILE, RecordedPolicies, read_policies
from pulsar_barycenter.observer.recorded_settings import SETTINGS_FILE, RecordedSettings, read_settings
from pulsar_barycenter.operations.journal import Entry, MoveState, move_journal
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.splitting import SplitEntry, SplitState, split_journal
from pulsar_barycenter.watch.sources.error import WatchError
from pulsar_barycenter.watch.watched_cluster import MINUTE_MS, Beside, Look
from pulsar_barycenter.whole_files.reading import read_regular

MAX_REPORTS: Final = 500_000
"""The maximum number of reports that are read at once, those of the newest days."""
MAX_REPORT_BYTES: Final = 256 << 20
MAX_TIME_MS: Final = 253_402_214_400_000
"""The latest time of a report, epoch ms: the last day of the year 9999, the end of dates."""
_OPEN_DAYS: Final = 2
"""The number of the newest days that may get more files."""
_LOAD_REPORTS: Final = "load-reports"
_COLLECTED: Final = "collect.json"
_JOURNAL_MS: Final = 60 * MINUTE_MS
"""A move that is seen at most this long after an entry of the journal began has the reason of that entry."""
_MISSED_ROUNDS: Final = 3
"""A broker without a report in more than this many rounds of a collector counts as ended."""
_SILENT_MS: Final = 16 * MINUTE_MS
"""The time without a report after which a broker that writes its own reports counts as ended: Pulsar's longest
interval, plus a minute.
"""
_LEAST_SILENT_MS: Final = 5_000

T = TypeVar("T")


class DataFolder:
    """A source that reads the files below the folder `path`; of the load reports, it reads only those that are at most
    `span_ms` ms older than the newest one.
    """

    def __init__(self, path: Path, *, span_ms: int) -> None:
        """Check that `path` is a folder of recorded load. `span_ms` is how far before the newest load report reports
        are read.

        Raises:
            WatchError: `path` is not a folder of recorded load, or has no load reports.
            OSError: the folder cannot be read.
        """
        self._path = path
        self._span_ms = span_ms
        self._read: dict[str, set[str]] = {}
        """The names of the files that were read, by day."""
        self._over = ""
        """The days up to this one (inclusive) are not read again."""
        self._damaged_count, self._first_damaged = 0, ""
        self._last_ms: dict[str, int] = {}
        self._gaps_ms: list[int] = []
        self._settings = _Changing[list[RecordedSettings]]([])
        self._policies = _Changing[list[RecordedPolicies]]([])
        self._journal = _Changing[list[Entry]]([])
        self._splits = _Changing[list[SplitEntry]]([])
        self._troubles: dict[str, str] = {}
        try:
            check_load_folder(path, may_be_empty=False)
        except WrongFolderError as error:
            raise WatchError(str(error)) from error
        if next(self._files(), None) is None:
            raise WatchError(
                f"{path} has no load reports: record some with barycenter collect --url … --out {path}, or show the "
                "cluster live with --url"
            )

    @property
    def name(self) -> str:
        return str(self._path)

    async def read(self) -> list[Look]:
        return await asyncio.to_thread(self._looks)

    def problems(self) -> tuple[str, ...]:
        found = list(self._troubles.values())
        if self._damaged_count:
            reports = count_of(self._damaged_count, "report")
            are = "is" if self._damaged_count == 1 else "are"
            found.append(f"{reports} cannot be read and {are} missing here: {self._first_damaged}")
        return tuple(found)

    # ---- reading ----

    def _looks(self) -> list[Look]:
        reports = self._new_reports()
        self._read_beside()
        groups: list[list[LocalBrokerData]] = []
        seen: set[str | None] = set()
        for report in reports:
            if not groups or report.broker_id in seen:
                groups.append([])
                seen = set()
            seen.add(report.broker_id)
            groups[-1].append(report)
        return [self._look(group) for group in groups]

    def _look(self, group: Sequence[LocalBrokerData]) -> Look:
        at_ms = max(report.last_update for report in group)
        for report in group:
            broker = str(report.broker_id)
            if broker in self._last_ms:
                self._gaps_ms = [*self._gaps_ms[-20:], max(0, report.last_update - self._last_ms[broker])]
            self._last_ms[broker] = report.last_update
        silent_ms = self._silent_ms()
        live = [broker for broker, last_ms in self._last_ms.items() if at_ms - last_ms <= silent_ms]
        return Look(at_ms, group, live, self._beside(at_ms))

    def _silent_ms(self) -> int:
        if not (self._path / _COLLECTED).exists():
            return _SILENT_MS
        if not self._gaps_ms:
            return MINUTE_MS
        usual_ms = sorted(self._gaps_ms)[len(self._gaps_ms) // 2]
        return max(_LEAST_SILENT_MS, _MISSED_ROUNDS * usual_ms)

    def _files(self) -> Iterator[Path]:
        """Yield the files that were not read yet, the newest day first."""
        root = self._path / _LOAD_REPORTS
        for day in sorted(_names(root), reverse=True):
            known = self._read.get(day, set[str]())
            for name in self._names_of_day(root / day) if day > self._over else ():
                if name.endswith(".json") and not name.startswith(".") and name not in known:
                    yield root / day / name

    def _names_of_day(self, folder: Path) -> list[str]:
        try:
            return _names(folder)
        except OSError as error:  # no rights, or a link to itself: the other days can be shown
            self._troubles["days"] = f"{folder} cannot be read and is missing here: {error.strerror}"
            return []

    def _new_reports(self) -> list[LocalBrokerData]:
        found: list[LocalBrokerData] = []
        newest_ms = max(self._last_ms.values(), default=0)
        day = ""
        for file in self._files():
            if len(found) >= MAX_REPORTS:
                self._troubles["many"] = f"There are more than {MAX_REPORTS:,} reports; the oldest are missing here."
                break
            if file.parent.name != day:  # files of one day have no order
                newest_ms = max((report.last_update for report in found), default=newest_ms)
                if day and found and newest_ms - min(report.last_update for report in found) > self._span_ms:
                    break
                day = file.parent.name
            self._read.setdefault(day, set()).add(file.name)
            report = self._report(file)
            if report is not None:
                found.append(report)
        for over in sorted(self._read)[:-_OPEN_DAYS]:
            self._over = max(self._over, over)
            del self._read[over]
        newest_ms = max((report.last_update for report in found), default=newest_ms)
        within = [report for report in found if newest_ms - report.last_update <= self._span_ms]
        return sorted(within, key=lambda report: (report.last_update, str(report.broker_id)))

    def _report(self, file: Path) -> LocalBrokerData | None:
        try:
            report = decode_report(read_regular(file, MAX_REPORT_BYTES))
        except FileNotFoundError:  # the pipeline has moved it, or its time is over
            return None
        except (msgspec.DecodeError, OSError) as error:
            self._damage(file, str(error.strerror or error) if isinstance(error, OSError) else str(error))
            return None
        if not report.broker_id:
            self._damage(file, "it names no broker")
            return None
        if not 0 <= report.last_update <= MAX_TIME_MS:
            self._damage(file, f"its time, {report.last_update} (epoch ms), is not between the years 1970 and 9999")
            return None
        return report

    def _damage(self, file: Path, why: str) -> None:
        """Count a report file that cannot be read; `why` is the reason. The message about such files names the first of
        them.
        """
        self._damaged_count += 1
        self._first_damaged = self._first_damaged or f"{file}: {why}"

    # ---- beside the load ----

    def _read_beside(self) -> None:
        """Read the recorded settings and policies, and the journals of `barycenter balance`, again if their files have
        changed. If one cannot be read, its former content stays, and `problems` reports this.

        Raises:
            WatchError: the folder has records of two clusters.
        """
        settings_file, journal = self._path / SETTINGS_FILE, move_journal(self._path / "moves.journal")
        policies_file, splits = self._path / POLICIES_FILE, split_journal(self._path / "splits.journal")
        self._troubles.pop("beside", None)
        try:
            self._settings.update(settings_file, lambda: read_settings(settings_file))
            self._policies.update(policies_file, lambda: read_policies(policies_file))
            self._journal.update(journal.file, journal.read)
            self._splits.update(splits.file, splits.read)
        except (msgspec.DecodeError, JournalError, OSError) as error:
            self._troubles["beside"] = f"{settings_file.parent} cannot be read completely: {error}"
        named = dict.fromkeys(record.cluster for record in self._settings.value if record.cluster)
        identity = self._identity()
        if identity is not None:
            named[identity.cluster] = None
        if len(named) > 1:
            raise WatchError(
                f"{self._path} has load of several clusters, {' and '.join(named)}: record each cluster in a separate"
                " folder"
            )

    def _identity(self) -> Identity | None:
        try:
            return read_file(self._path / "cluster.json", Identity)
        except StateError as error:
            self._troubles["beside"] = str(error)
            return None

    def _beside(self, at_ms: int) -> Beside:
        records = self._settings.value
        record = _in_force(records, at_ms)
        identity = self._identity() if record is None else None
        return Beside(
            cluster=record.cluster if record else identity.cluster if identity else "",
            leader=record.leader if record else "",
            settings=record.settings if record else None,
            policies=self._policies_at(at_ms),
            journal=_reasons(self._journal.value, at_ms),
            split_journal=_split_reasons(self._splits.value, at_ms),
        )

    def _policies_at(self, at_ms: int) -> ClusterPolicies:
        record = _in_force(self._policies.value, at_ms)
        try:
            return ClusterPolicies() if record is None else record.policies.policies()
        except PolicyError as error:
            self._troubles["policies"] = f"a recorded policy cannot be followed, so all policies are ignored: {error}"
            return ClusterPolicies()


class _Timed(Protocol):
    """A record that is valid from a time on."""

    @property
    def at(self) -> int: ...


_Record = TypeVar("_Record", bound=_Timed)


def _in_force(records: Sequence[_Record], at_ms: int) -> _Record | None:
    """Return the last record up to the time `at_ms` (epoch ms, inclusive), or the first record if all are later; None
    if there are no records.
    """
    return next((record for record in reversed(records) if record.at <= at_ms), records[0] if records else None)


def _names(folder: Path) -> list[str]:
    """Return the names of the entries in a folder; no names if the folder is missing or is not a folder."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


class _Changing(Generic[T]):
    """The content of a file. `update` reads the file again if its size or modification time has changed; while the file
    is missing, the former content stays.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        self._sign = (0, 0)

    def update(self, file: Path, read: Callable[[], T]) -> None:
        """Read the file with the function `read` if the file has changed since the last reading.

        Raises:
            OSError: the file cannot be read. Errors of `read` are raised, too. After any error the former content
                stays.
        """
        try:
            state = file.stat()
        except FileNotFoundError:
            return
        if (state.st_size, state.st_mtime_ns) != self._sign:
            self.value = read()
            self._sign = (state.st_size, state.st_mtime_ns)


def _reasons(entries: Sequence[Entry], at_ms: int) -> Mapping[tuple[str, str], str]:
    """Return the reasons of those moves in the journal of `barycenter balance` that began at `at_ms` (epoch ms) or at
    most _JOURNAL_MS before. The key is the bundle and the destination.
    """
    return {
        (entry.bundle, entry.destination): entry.why or "no reason was given"
        for entry in entries
        if entry.state is MoveState.BEGUN and 0 <= at_ms - entry.at <= _JOURNAL_MS
    }


def _split_reasons(entries: Sequence[SplitEntry], at_ms: int) -> Mapping[str, str]:
    """Return the reasons of those splits in the journal of `barycenter balance` that began at `at_ms` (epoch ms) or at
    most _JOURNAL_MS before, by bundle.
    """
    return {
        entry.bundle: entry.why or "no reason was given"
        for entry in entries
        if entry.state is SplitState.BEGUN and 0 <= at_ms - entry.at <= _JOURNAL_MS
    }
