"""Reads the load reports of brokers by their admin REST or from a metadata store.

Reports of the modular and the simple load manager are in both. The leader's averages over time are in the store, and
Barycenter's leader returns them. The load of the extensible load manager is only available from Barycenter's leader,
because Apache Pulsar has it in a topic.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.load.reports.load_report import TimeAverageBrokerData, decode_report
from pulsar_barycenter.load.reports.simple_load_report import decode_load_report
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError, open_store
from pulsar_barycenter.metadata.sqlite.reading import read_folders
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.observer.addresses import address_of
from pulsar_barycenter.observer.answers import has_no_report, without_report
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.status.broker_tables import MonitoredBroker, Report

_BROKERS: Final = "/loadbalance/brokers"
_AVERAGES: Final = "/loadbalance/broker-time-average"
_SQLITE: Final = "sqlite:"
_MAX_BROKERS: Final = 10_000
_MAX_ANSWER_BYTES: Final = 256 << 20
_AT_ONCE: Final = 32
_TIMEOUT_S: Final = 30.0


class NothingReportedError(Exception):
    """No load report is available at the given address; the text says why, and where to find the load."""


async def monitored(new_client: NewClient, place: str) -> list[MonitoredBroker]:
    """Return the brokers with their load, sorted by name; `place` is the web address of a broker, or the URL of a
    metadata store (`metadataStoreUrl`).

    A broker that does not answer, or has no load report, is left out.

    Raises:
        ClusterError, MetadataError, UnknownStoreError, NothingReportedError: there is no load report.
        TimeoutError: the store did not answer within _TIMEOUT_S seconds.
    """
    if place.startswith(("http://", "https://")):
        return await _of_cluster(new_client, place)
    async with asyncio.timeout(_TIMEOUT_S):
        if place.startswith(_SQLITE):
            return _of_records(await asyncio.to_thread(_records_of_file, Path(place.removeprefix(_SQLITE))))
        store = await open_store(place, operation_timeout_s=_TIMEOUT_S)
        try:
            return _of_records(await _records_of(store))
        finally:
            await store.close()


async def _of_cluster(new_client: NewClient, url: str) -> list[MonitoredBroker]:
    client = new_client(timeout_s=_TIMEOUT_S, most_bytes=_MAX_ANSWER_BYTES)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def report_of(broker: str) -> Report | None:
        async with gate:
            try:
                answer = await client.call(
                    "GET", await address_of(client, broker, url), "/admin/v2/broker-stats/load-report"
                )
                return _decoded(msgspec.json.encode(answer))
            except AdminRequestError as error:
                if error.status and not has_no_report(error):
                    raise
                return None

    try:
        brokers = msgspec.convert(await client.call("GET", url, "/admin/v2/brokers"), list[str])
        reports = dict(zip(brokers, await asyncio.gather(*map(report_of, brokers)), strict=True))
        snapshot = await _snapshot(client, url)
    except AdminRequestError as error:
        raise ClusterError(without_report(error)) from error
    except msgspec.DecodeError as error:
        raise ClusterError(f"{url}: the answer has an unexpected form: {error}") from error
    finally:
        await client.close()
    if snapshot is not None and snapshot.extensible is not None:
        reports = dict(snapshot.extensible.loads)
    averages: Mapping[str, TimeAverageBrokerData] = (snapshot and snapshot.broker_data) or {}
    found = [
        MonitoredBroker(broker, report, averages.get(broker))
        for broker, report in sorted(reports.items())
        if report is not None
    ]
    if not found:
        raise NothingReportedError(
            f"no broker of {url} returns a load report; brokers with the extensible load manager of Apache Pulsar"
            " publish their load in a topic instead: if the brokers use that load manager, record the load with"
            " `barycenter collect`"
        )
    return found


async def _snapshot(client: AdminClient, url: str) -> SnapshotDocument | None:
    """Return the leader's snapshot; None if the broker does not return it. Apache Pulsar's brokers never return one."""
    try:
        answer: Any = await client.call("GET", url, "/barycenter/v1/snapshot")
        return msgspec.convert(answer, SnapshotDocument, strict=False)
    except (AdminRequestError, msgspec.ValidationError):
        return None


def _records_of_file(file: Path) -> dict[str, bytes]:
    if not file.is_file():
        raise MetadataError(str(file), "the file does not exist")
    return dict(read_folders(file, (_BROKERS, _AVERAGES), (), most=_MAX_BROKERS))


async def _records_of(store: MetadataStore) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for folder in (_BROKERS, _AVERAGES):
        names = await store.children(folder)
        if len(names) > _MAX_BROKERS:
            raise MetadataError(
                folder,
                f"this folder of the metadata store has more than {_MAX_BROKERS:,} keys, the maximum; give the web"
                " address of a broker instead of the metadata store",
            )
        for name in names:
            record = await store.get(f"{folder}/{name}")
            if record is not None:
                found[f"{folder}/{name}"] = record.value
    return found


def _of_records(records: Mapping[str, bytes]) -> list[MonitoredBroker]:
    """Return the brokers that have a load report in the store, sorted by name. `records` maps paths in the store to
    their content. A broker with the extensible load manager has a record without a load report; it is left out.

    Raises:
        NothingReportedError: no broker has a load report in the store.
    """
    found, others = [], 0
    for path, value in sorted(records.items()):
        if not path.startswith(f"{_BROKERS}/"):
            continue
        name = path.removeprefix(f"{_BROKERS}/")
        try:
            if b'"loadReportType"' not in value:
                others += 1
                continue
            stored = records.get(f"{_AVERAGES}/{name}")
            average = None if stored is None else msgspec.json.decode(stored, type=TimeAverageBrokerData, strict=False)
            found.append(MonitoredBroker(name, _decoded(value), average))
        except msgspec.DecodeError:
            others += 1
    if not found:
        raise NothingReportedError(
            f"the store has no load report, only {others} registrations of brokers without one: the extensible load "
            "manager has its load elsewhere; give the web address of a broker of Barycenter"
            if others
            else "no broker is registered in the store"
        )
    return found


def _decoded(document: bytes) -> Report:
    """Return a report of the simple load manager, which has allocated resources, or of the modular one.

    Raises:
        msgspec.DecodeError: the document is not a report.
    """
    return decode_load_report(document) if b'"allocated' in document else decode_report(document)


UNREADABLE: Final = (ClusterError, MetadataError, UnknownStoreError, NothingReportedError, TimeoutError)
