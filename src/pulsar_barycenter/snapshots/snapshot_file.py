"""Reads snapshots from files and folders. The content decides which kind of file it is, not the name.

| what | made by |
|---|---|
| Barycenter's snapshot, `*.json` | `barycenter snapshot`, see `document` |
| its columns, `*.parquet` | `barycenter snapshot`, see `parquet_snapshot` |
| the pipeline's tables, or a data folder that has them | the pipeline, see `pipeline_tables` |
| a load report, `*.json` | `pulsar-admin broker-stats load-report` |
| messages of the extensible load manager's topics, `*.txt` | `pulsar-client consume`, see `extensible_document` |
| a folder of reports and messages, or a data folder that has one | the newest report of each broker counts |

Reports of the modular load manager have no history. The windows of bundles are then those of a leader that received
only these reports. If a report does not name its broker, the broker is taken from its URL, else from the file name.

Reading brings numpy when a snapshot is made; writing JSON does without it.
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.load.managers import ManagerKind, short_name
from pulsar_barycenter.load.policies import PolicyError
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.reports.windows import LiveFold, broker_averages
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, decode_snapshot, encode_snapshot
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument, ExtensibleItem, kind_of, messages_in
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.snapshots.data_warnings import STALE_MS, data_warnings
from pulsar_barycenter.snapshots.table_folder import TablesError, tables_below

if TYPE_CHECKING:
    from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

ACCEPTED: Final = (
    "give a snapshot (`barycenter snapshot --out FILE`),"
    " a load report (`pulsar-admin broker-stats load-report > FILE`), "
    "a folder of load reports, or the pipeline's tables"
)


_T = TypeVar("_T")


_PARQUET: Final = b"PAR1"
_REPORT_LOG: Final = "load-reports"
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
"""The names of a report log's folders. A folder that has other folders is not a report log."""


class SnapshotFileError(ValueError):
    """A file that cannot be read as a snapshot; the text names the file, the problem, and which content is accepted."""

    def __init__(self, path: Path, problem: str, accepted: str = ACCEPTED) -> None:
        super().__init__(f"{path}: {problem}; {accepted}")
        self.path = path


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot and the data that came with it.

    `source` names what was read, `settings` names the origin of `configuration`. `reports` are load reports of the
    simple load manager, by broker id. `remarks` are problems of the settings; `warnings` are these and the problems of
    the load data.
    """

    snapshot: "LoadSnapshot"
    source: str
    manager: ManagerKind = ManagerKind.MODULAR
    memory: MemoryDocument = field(default_factory=MemoryDocument)
    configuration: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, LoadReport] = field(default_factory=dict)
    settings: str = "the snapshot's settings"
    remarks: tuple[str, ...] = ()

    @property
    def is_simple(self) -> bool:
        """Whether the brokers run the simple load manager, as far as the snapshot says so; False if it does not say
        which they run.
        """
        if self.manager is ManagerKind.SIMPLE:
            return True
        names = {short_name(name) for name in self.snapshot.brokers.class_names if name}
        return names == {short_name(ManagerKind.SIMPLE.class_name)}

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*data_warnings(self.snapshot), *self.remarks)


def read_snapshot_file(path: Path | str, at_ms: int | None = None, *, silence_ms: int = STALE_MS) -> SnapshotFile:
    """Return the snapshot in a file or folder, with the data that came with it.

    `at_ms` (epoch ms) selects a time in the past; only a folder with the pipeline's tables supports it. A snapshot from
    tables leaves out brokers whose newest report is more than `silence_ms` older than the newest report of all brokers.

    Raises:
        SnapshotFileError: the content has no known form or is not valid, or `at_ms` is given for another input than
            tables.
        OSError: a file cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        tables = tables_below(path)
        if tables is not None:
            return _of_tables(tables, at_ms, silence_ms)
    if at_ms is not None:
        raise SnapshotFileError(
            path,
            "this input has the load of one time only",
            "only the tables of a pipeline have the load of several times: to choose a time, give the folder"
            " with these tables (DATA/tables)",
        )
    if path.is_dir():
        log = path / _REPORT_LOG
        return _of_reports(_reports_of_folder(log if log.is_dir() else path), path)
    with path.open("rb") as file:
        is_parquet = file.read(len(_PARQUET)) == _PARQUET
    return _of_columns(path, path) if is_parquet else _of_content(path.read_bytes(), path)


def snapshot_of_bytes(content: bytes, path: Path) -> SnapshotFile:
    """Return the snapshot in the content of a file.

    `path` is the file's name in error messages. If a load report does not name its broker, `path` is used as the
    broker's name, too.

    Raises:
        SnapshotFileError: the content has no known form, or is not valid.
    """
    return _of_columns(io.BytesIO(content), path) if content.startswith(_PARQUET) else _of_content(content, path)


def write_snapshot(path: Path | str, document: SnapshotDocument) -> None:
    """Write a snapshot: as columns if the name ends with `.parquet`, else as JSON.

    Raises:
        OSError: the file cannot be written.
        PolicyError: an isolation policy in the document is not valid.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        # brings Arrow, which snapshots as JSON do without
        from pulsar_barycenter.snapshots.parquet_snapshot import LeaderState, write_columns

        write_columns(
            path, document.snapshot(), LeaderState(memory=document.memory, configuration=document.configuration)
        )
    else:
        path.write_bytes(encode_snapshot(document))


def _of_content(content: bytes, path: Path) -> SnapshotFile:
    found = _parse(path, content)
    return of_document(found, path) if isinstance(found, SnapshotDocument) else _of_reports(found, path)


def _of_columns(file: Path | BinaryIO, path: Path) -> SnapshotFile:
    from pulsar_barycenter.snapshots.parquet_snapshot import NoSnapshotError, read_columns

    try:
        snapshot, leader = read_columns(file)
    except (NoSnapshotError, PolicyError) as error:
        raise SnapshotFileError(path, f"the file is a Parquet file, but not a snapshot: {error}") from error
    manager = ManagerKind.MODULAR if snapshot.extensible is None else ManagerKind.EXTENSIBLE
    return SnapshotFile(snapshot, "a snapshot", manager, memory=leader.memory, configuration=leader.configuration)


def _of_tables(folder: Path, at_ms: int | None, silence_ms: int) -> SnapshotFile:
    from pulsar_barycenter.snapshots.pipeline_tables import read_tables

    try:
        document = read_tables(folder, at_ms, silence_ms=silence_ms)
    except TablesError as error:
        raise SnapshotFileError(
            folder,
            str(error),
            "for a snapshot, give a data folder whose tables have rows of the time of the snapshot",
        ) from error
    return replace(of_document(document, folder), source="the pipeline's tables")


def of_document(document: SnapshotDocument, path: Path) -> SnapshotFile:
    """Return the snapshot in a document; `path` is the file's name in error messages.

    Raises:
        SnapshotFileError: a policy in it is not valid.
    """
    try:
        snapshot = document.snapshot()
    except PolicyError as error:
        raise SnapshotFileError(path, f"in policies: {error}") from error
    return SnapshotFile(
        snapshot,
        "a snapshot",
        ManagerKind.MODULAR if document.extensible is None else ManagerKind.EXTENSIBLE,
        memory=document.memory,
        configuration=document.configuration,
    )


# ---- load reports ----

_Report = LocalBrokerData | LoadReport | tuple[str, ExtensibleItem]
_KINDS: Final = {
    LocalBrokerData: ManagerKind.MODULAR,
    LoadReport: ManagerKind.SIMPLE,
    tuple: ManagerKind.EXTENSIBLE,
}


def _of_reports(found: list[tuple[Path, _Report]], path: Path) -> SnapshotFile:
    kinds = {_KINDS[type(report)]: file for file, report in found}
    if len(kinds) > 1:
        mixed = ", ".join(f"{file.name} is of the {kind} load manager" for kind, file in kinds.items())
        raise SnapshotFileError(
            path,
            mixed,
            "a snapshot is made from reports of one load manager: give load reports of one load manager only",
        )
    if ManagerKind.SIMPLE in kinds:
        return _of_simple([(file, report) for file, report in found if isinstance(report, LoadReport)])
    if ManagerKind.EXTENSIBLE in kinds:
        extensible = ExtensibleDocument.of(item for _, item in found if isinstance(item, tuple))
        document = SnapshotDocument(taken_at=extensible.newest_ms, brokers={}, extensible=extensible)
        return replace(of_document(document, path), source=f"loads of {count_of(len(extensible.loads), 'broker')}")
    fold = LiveFold()
    modular = [(file, report) for file, report in found if isinstance(report, LocalBrokerData)]
    for broker, report in sorted(_named(modular), key=lambda item: item[1].last_update):
        fold.accept(broker, report)
    averages = {broker: broker_averages(report.last_stats, fold.bundles) for broker, report in fold.reports.items()}
    document = SnapshotDocument(
        taken_at=max(report.last_update for report in fold.reports.values()),
        brokers=fold.reports,
        bundle_data=fold.bundles,
        broker_data=averages,
    )
    return SnapshotFile(document.snapshot(), f"load reports of {count_of(len(fold.reports), 'broker')}")


def _of_simple(found: list[tuple[Path, LoadReport]]) -> SnapshotFile:
    from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot  # brings numpy

    reports: dict[str, LoadReport] = {}
    for file, report in found:
        broker = report.name or _broker_of(report.web_service_url, report.web_service_url_tls, file)
        if broker not in reports or reports[broker].timestamp < report.timestamp:
            reports[broker] = complete(report)
    taken_at_ms = max(report.timestamp for report in reports.values())
    snapshot = replace(build_simple_snapshot(reports), taken_at_ms=taken_at_ms)
    source = f"load reports of {count_of(len(reports), 'broker')}"
    return SnapshotFile(snapshot, source, ManagerKind.SIMPLE, reports=reports)


def _named(found: Iterable[tuple[Path, LocalBrokerData]]) -> Iterable[tuple[str, LocalBrokerData]]:
    for file, report in found:
        yield report.broker_id or _broker_of(report.web_service_url, report.web_service_url_tls, file), report


def _broker_of(url: str | None, url_tls: str | None, file: Path) -> str:
    """Return host and port of `url`, or else of `url_tls`; if neither has them, the name of the file without its
    suffix.
    """
    for address in (url, url_tls):
        host_and_port = urlsplit(address or "").netloc
        if host_and_port:
            return host_and_port
    return file.stem


def _is_data_folder(folder: Path) -> bool:
    """Return whether the folder has the files that brokers create in their data folder."""
    return (folder / "ledgers" / "identity").is_file() or any(folder.glob("conf/broker-*.conf"))


def _reports_of_folder(folder: Path) -> list[tuple[Path, _Report]]:
    found: list[tuple[Path, _Report]] = []
    below = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    foreign = next((entry.name for entry in below if not _DAY.fullmatch(entry.name)), None)
    if foreign is not None and _is_data_folder(folder):
        raise SnapshotFileError(
            folder,
            "the data folder has no tables and no load reports: no pipeline has run on it, and its brokers wrote no"
            " load reports",
            "to get a snapshot, take it from the running cluster with --url, or start the cluster with a pipeline"
            " (`barycenter standalone --pipeline`), which writes tables to the data folder",
        )
    if foreign is not None:
        raise SnapshotFileError(
            folder, f"the folder is neither a folder of load reports nor a data folder: it contains {foreign}/"
        )
    files = (file for parent in (folder, *below) for kind in ("*.json", "*.txt") for file in parent.glob(kind))
    for file in sorted(files):
        parsed = _parse(file, file.read_bytes())
        if isinstance(parsed, SnapshotDocument):
            raise SnapshotFileError(
                file,
                "the file is a snapshot, but is in a folder of load reports, and only one kind can be read at a time",
                "give either the file of this snapshot alone, or a folder that has only load reports",
            )
        found += parsed
    if not found:
        raise SnapshotFileError(
            folder, "the folder has no *.json or *.txt files, neither directly nor in folders named by day (YYYY-MM-DD)"
        )
    return found


# ---- one file ----


def _parse(file: Path, content: bytes) -> SnapshotDocument | list[tuple[Path, _Report]]:
    """Return the content of a file: a snapshot, or load reports, each with its file. Load reports are accepted as the
    messages of a load topic (of the extensible load manager), as one report, or as one report on each line.

    Raises:
        SnapshotFileError: the content has none of these forms.
    """
    if not content.strip():
        raise SnapshotFileError(file, "is empty")
    messages = list(messages_in(content))
    if messages:
        return [(file, _message(file, key, text, line)) for key, text, line in messages]
    try:
        fields = _fields(content)
    except msgspec.DecodeError as error:
        lines = content.splitlines()
        if len(lines) > 1 and _is_object(lines[0]):
            return [(file, _report(file, line, _fields_of_line(file, line, n), n)) for n, line in enumerate(lines, 1)]
        raise SnapshotFileError(file, f"is not a JSON object: {error}") from error
    if "format" in fields or "brokers" in fields:
        return _decoded(file, content, decode_snapshot)
    return [(file, _report(file, content, fields))]


def _fields(content: bytes) -> dict[str, msgspec.Raw]:
    return decode_json(content, dict[str, msgspec.Raw])


def _is_object(line: bytes) -> bool:
    try:
        _fields(line)
    except msgspec.DecodeError:
        return False
    return True


def _fields_of_line(file: Path, line: bytes, number: int) -> dict[str, msgspec.Raw]:
    try:
        return _fields(line)
    except msgspec.DecodeError as error:
        raise SnapshotFileError(file, f"line {number} is not a JSON object: {error}") from error


def _message(file: Path, key: str, content: bytes, line: int) -> tuple[str, ExtensibleItem]:
    kind = kind_of(_fields_of_line(file, content, line))
    if kind is None:
        raise SnapshotFileError(file, _at(line, "the message is not one of the extensible load manager"))
    return key, _decoded(file, content, _lenient(kind), line)


def _report(file: Path, content: bytes, fields: Mapping[str, msgspec.Raw], line: int | None = None) -> _Report:
    kind = bytes(fields.get("loadReportType", b"")).strip(b'"').decode(errors="replace")
    if kind == "LoadReport" or (not kind and "bundleStats" in fields):
        return _decoded(file, content, _lenient(LoadReport), line)
    if kind == "LocalBrokerData" or (not kind and "lastStats" in fields):
        return _decoded(file, content, _lenient(LocalBrokerData), line)
    extensible = None if kind else kind_of(fields)
    if extensible is not None:
        return file.stem, _decoded(file, content, _lenient(extensible), line)
    raise SnapshotFileError(file, _at(line, f"loadReportType is {kind!r}" if kind else _foreign_fields(list(fields))))


_MAX_FIELDS: Final = 5


def _foreign_fields(names: list[str]) -> str:
    if not names:
        return "it is an object without fields, not a load report"
    shown = ", ".join(names[:_MAX_FIELDS]) + (", …" if len(names) > _MAX_FIELDS else "")
    return f"it is not a load report: its fields are {shown}"


def _lenient(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return a decoder of JSON into `kind` that also accepts a text where a number is expected, because Pulsar writes
    NaN and infinite values as texts.
    """
    return msgspec.json.Decoder(kind, strict=False).decode


def _decoded(file: Path, content: bytes, decode: Callable[[bytes], _T], line: int | None = None) -> _T:
    try:
        return decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotFileError(file, _at(line, str(error))) from error


def _at(line: int | None, text: str) -> str:
    return text if line is None else f"line {line}: {text}"
