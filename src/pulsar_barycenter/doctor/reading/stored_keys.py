"""Parses the keys of a metadata store: those of Barycenter, and those of Apache Pulsar in the same form."""

from collections.abc import Iterable
from typing import Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.doctor.picture import CHANNEL_LEADER, LEADER, Lock, StoreView
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, decode_record
from pulsar_barycenter.metadata.leader_writes.leased_values import split_lease
from pulsar_barycenter.naming.bundle import Bundle

BROKERS: Final = "/loadbalance/brokers"
LEADERS: Final = (LEADER, CHANNEL_LEADER)
LOCKS: Final = "/namespace"
RECORDS: Final = "/service_unit_state"
LOCAL_POLICIES: Final = "/admin/local-policies"
POLICIES: Final = "/admin/policies"
OVERRIDES: Final = "/admin/configuration"

FOLDERS: Final = (BROKERS, LOCKS, RECORDS, LOCAL_POLICIES, POLICIES)
KEYS: Final = (*LEADERS, OVERRIDES, FOLDER_KEY)


class _Lock(msgspec.Struct, rename="camel"):
    broker_id: str = ""
    http_url: str | None = None
    http_url_tls: str | None = None
    disabled: bool = False


class _Leader(msgspec.Struct, rename="camel"):
    broker_id: str = ""
    service_url: str = ""


class _Bundles(msgspec.Struct, rename="camel"):
    boundaries: tuple[str, ...] | None = None


class _WithBundles(msgspec.Struct):
    bundles: _Bundles | None = None


class _Keys:
    """Decodes keys of the metadata store, one after the other, and collects their content for the doctor."""

    def __init__(self) -> None:
        self.brokers: dict[str, LocalBrokerData | None] = {}
        self.leaders: dict[str, str] = {}
        self.locks: dict[str, Lock] = {}
        self.records: dict[str, ServiceUnitStateData] = {}
        self.boundaries: dict[str, tuple[str, ...]] = {}
        self.copies: dict[str, tuple[str, ...]] = {}
        self.overrides: dict[str, str] = {}
        self.ledgers_folder = ""
        self.unreadable: dict[str, str] = {}

    def take(self, path: str, value: bytes) -> None:
        try:
            self._take(path, split_lease(value)[1])
        except (msgspec.DecodeError, ValueError) as error:
            self.unreadable[path] = str(error)

    def _take(self, path: str, value: bytes) -> None:
        """Decode and record the content of the key `path`.

        Raises:
            msgspec.DecodeError, ValueError: its name or its value is not valid.
        """
        folder = next((folder for folder in FOLDERS if path.startswith(f"{folder}/")), "")
        name = path[len(folder) + 1 :]
        is_bundle = name.rpartition("/")[2].startswith("0x")
        if path in LEADERS:
            leader = decode_json(value, _Leader)
            self.leaders[path] = leader.broker_id or place_of(leader.service_url)
        elif path == FOLDER_KEY:
            self.ledgers_folder = value.decode()
        elif path == OVERRIDES:
            self.overrides = decode_json(value, dict[str, str])
        elif folder == BROKERS:
            self.brokers[name] = None
            self.brokers[name] = decode_json(value, LocalBrokerData)
        elif folder == LOCKS and is_bundle:
            lock = decode_json(value, _Lock)
            holder = lock.broker_id or place_of(lock.http_url or lock.http_url_tls or "")
            self.locks[str(Bundle.parse(name))] = Lock(holder, lock.disabled)
        elif folder == RECORDS and is_bundle and value:
            self.records[str(Bundle.parse(name))] = decode_record(value)
        elif folder in (LOCAL_POLICIES, POLICIES) and "/" in name:
            bundles = decode_json(value, _WithBundles).bundles
            if bundles is not None and bundles.boundaries:
                (self.boundaries if folder == LOCAL_POLICIES else self.copies)[name] = bundles.boundaries


def store_view(url: str, stored: Iterable[tuple[str, bytes]]) -> StoreView:
    """Return the content of the stored keys that the doctor knows; `unreadable` has those that cannot be parsed.
    Unknown keys are ignored.
    """
    keys = _Keys()
    for path, value in stored:
        keys.take(path, value)
    return StoreView(
        url=url,
        brokers=keys.brokers,
        leaders=keys.leaders,
        locks=keys.locks,
        records=keys.records,
        boundaries=keys.boundaries,
        copies=keys.copies,
        overrides=keys.overrides,
        ledgers_folder=keys.ledgers_folder,
        unreadable=keys.unreadable,
    )


def place_of(url: str) -> str:
    """Return host and port of a URL, in the form of a broker id."""
    return url.partition("://")[2].rstrip("/")
