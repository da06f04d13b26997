"""Reads the owners of bundles from the extensible load manager's ownership channel, with Pulsar's own client.

All records are read again on each request, as compaction left them. A subscriber could lose its connection, and would
then miss records that were written and compacted away meanwhile. Of two records of a bundle, the one counts that every
broker keeps (`load.service_units.conflicts`). A bundle has an owner while its record has the state Owned; in other
states it is changing its owner or has none. Such records, tombstones and unreadable messages are logged once and name
no owner; an unreadable message replaces no record.

Source: Pulsar's `ServiceUnitStateTableViewImpl`: the key is the bundle, an empty value a tombstone.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
import pulsar
import structlog

from pulsar_barycenter.load.service_units.conflicts import conflict
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    decode_record,
)
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.observer.collector import OwnershipUnreadableError

log = structlog.get_logger(__name__)

MAX_BUNDLES: Final = 500_000
"""The maximum number of records, which take about 256 MiB; records of further bundles are ignored."""
MAX_MESSAGES: Final = 5_000_000
"""The maximum number of messages of one reading; a reading of a longer topic fails."""
MAX_SECONDS: Final = 60.0
_LARGEST_RECORD: Final = 1 << 20
_MAX_KEY_LENGTH: Final = 2_048
_MAX_LOGGED: Final = 1_000
_SHOWN: Final = 200
_WAIT_MS: Final = 10_000


class OwnershipRecords:
    """The ownership records of all bundles, as the messages of the topic define them. Readers of the same messages have
    the same records. `logged` has the problems that were logged already: they are not logged again.
    """

    def __init__(self, logged: set[str], *, most: int = MAX_BUNDLES) -> None:
        self._logged = logged
        self._most = most
        self._records: dict[Bundle, ServiceUnitStateData] = {}

    def owners(self) -> dict[str, str]:
        """Return the broker id of the owner of each bundle that has one."""
        return {
            str(bundle): record.dst_broker
            for bundle, record in self._records.items()
            if record.state is ServiceUnitState.OWNED and record.dst_broker
        }

    def take(self, key: str, value: bytes) -> None:
        """Update the records from one message of the topic, with the bundle as `key` and the record as `value`; the
        caller passes messages in the order of the topic. An empty value is a tombstone, which deletes the record.
        """
        try:
            bundle, record = _decoded(key, value)
        except (InvalidNameError, msgspec.DecodeError) as error:
            self._tell(f"unreadable {key[:_SHOWN]}", key=key[:_SHOWN], reason=str(error)[:_SHOWN])
            return
        before = self._records.get(bundle)
        if conflict(before, record, StorageType.SYSTEM_TOPIC) is not None:
            return
        if record is None:
            self._tell("tombstone", key=key, reason="a tombstone: the bundle has no record")
            self._records.pop(bundle, None)
            return
        if record.state is not ServiceUnitState.OWNED:
            self._tell(f"state {record.state}", key=key, reason=f"its state is {record.state}, so it has no owner now")
        if before is None and len(self._records) >= self._most:
            self._tell("full", key=key, reason=f"there are more than {count_of(self._most, 'bundle')}")
            return
        self._records[bundle] = record

    def _tell(self, what: str, **about: str) -> None:
        if what not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(what)
            log.warning("ownership_record_ignored", **about)


def _decoded(key: str, value: bytes) -> tuple[Bundle, ServiceUnitStateData | None]:
    """Return the bundle and the ownership record that a message has; the record is None for a tombstone.

    Raises:
        InvalidNameError: the key is not the name of a bundle.
        msgspec.DecodeError: the value is not a record, or has an unknown state.
    """
    if len(key) > _MAX_KEY_LENGTH:
        raise msgspec.DecodeError(
            f"the key of the message has {len(key):,} characters, more than the name of a bundle can have"
        )
    if len(value) > _LARGEST_RECORD:
        raise msgspec.DecodeError(f"the message has {len(value):,} bytes, more than an ownership record can have")
    return Bundle.parse(key), decode_record(value) if value else None


class OwnershipTopic:
    """Reads the ownership channel, the records of the bundles' owners, of a cluster that keeps it in a topic."""

    def __init__(self, client: pulsar.Client) -> None:
        """Use `client`, which the caller closes, to read the topic."""
        self._client = client
        self._logged: set[str] = set()

    def owners(self) -> Mapping[str, str]:
        """Return the owner of each bundle. All messages that the topic has at the begin of the call are read, and
        perhaps some that arrive during the call.

        Blocks the calling thread until the messages are read, at most about MAX_SECONDS seconds; after that it raises
        OwnershipUnreadableError.

        Raises:
            OwnershipUnreadableError: the records cannot be read, not all of them in that time, or there are more than
                MAX_MESSAGES messages.
        """
        records, deadline = OwnershipRecords(self._logged), time.monotonic() + MAX_SECONDS
        try:
            reader = self._client.create_reader(
                SERVICE_UNIT_STATE_TOPIC,
                pulsar.MessageId.earliest,
                reader_name="barycenter-collect",
                is_read_compacted=True,
            )
        except pulsar.PulsarException as error:
            raise OwnershipUnreadableError(
                f"the ownership records in {SERVICE_UNIT_STATE_TOPIC} cannot be read: {error}"
            ) from error
        try:
            for _ in range(MAX_MESSAGES):
                if not reader.has_message_available():
                    return records.owners()
                if time.monotonic() > deadline:
                    break
                message = reader.read_next(_WAIT_MS)
                records.take(message.partition_key(), message.data())
        except pulsar.PulsarException as error:
            raise OwnershipUnreadableError(
                f"reading the ownership records in {SERVICE_UNIT_STATE_TOPIC} failed before the end of the topic:"
                f" {error}"
            ) from error
        finally:
            with suppress(pulsar.PulsarException):
                reader.close()
        raise OwnershipUnreadableError(
            f"not all ownership records in {SERVICE_UNIT_STATE_TOPIC} were read: reading took more than"
            f" {MAX_SECONDS:.0f} s, or the topic has too many messages; check that the topic is compacted"
        )
