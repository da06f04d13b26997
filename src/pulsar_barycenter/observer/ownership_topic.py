"""Who owns which bundle, by the records of the extensible load manager's ownership channel, read by a stock client.

All records are read anew each time, as compaction left them: who followed the topic instead would miss what came and
was compacted away while he was parted from it. Of two records of a bundle the one is kept that every broker keeps
(`load.service_units.conflicts`). A bundle has an owner while its record says Owned; records of other states say that it
is on its way, or nobody's. Those, tombstones, and what cannot be read are told once and name no owner; what cannot be
read replaces no record.

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

MOST_BUNDLES: Final = 500_000
"""So many records are kept; a quarter of a gigabyte."""
MOST_MESSAGES: Final = 5_000_000
"""So many messages are read at a time."""
MOST_SECONDS: Final = 60.0
_LARGEST_RECORD: Final = 1 << 20
_LONGEST_KEY: Final = 2_048
_MOST_TOLD: Final = 1_000
_SHOWN: Final = 200
_WAIT_MS: Final = 10_000


class OwnershipRecords:
    """The records of all bundles, as every reader of the same messages keeps them; `told` is what was told before."""

    def __init__(self, told: set[str], *, most: int = MOST_BUNDLES) -> None:
        self._told = told
        self._most = most
        self._records: dict[Bundle, ServiceUnitStateData] = {}

    def owners(self) -> dict[str, str]:
        """Return the id of the broker that owns each bundle which is owned."""
        return {
            str(bundle): record.dst_broker
            for bundle, record in self._records.items()
            if record.state is ServiceUnitState.OWNED and record.dst_broker
        }

    def take(self, key: str, value: bytes) -> None:
        """Take one message into account, in the order of the topic; an empty value is a tombstone."""
        try:
            bundle, record = _decoded(key, value)
        except (InvalidNameError, msgspec.DecodeError) as error:
            self._tell(f"unreadable {key[:_SHOWN]}", key=key[:_SHOWN], reason=str(error)[:_SHOWN])
            return
        before = self._records.get(bundle)
        if conflict(before, record, StorageType.SYSTEM_TOPIC) is not None:
            return
        if record is None:
            self._tell("tombstone", key=key, reason="a tombstone: the bundle has no record any more")
            self._records.pop(bundle, None)
            return
        if record.state is not ServiceUnitState.OWNED:
            self._tell(
                f"state {record.state}", key=key, reason=f"its state is {record.state}, so that nobody owns it now"
            )
        if before is None and len(self._records) >= self._most:
            self._tell("full", key=key, reason=f"there are more than {count_of(self._most, 'bundle')}")
            return
        self._records[bundle] = record

    def _tell(self, what: str, **about: str) -> None:
        if what not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(what)
            log.warning("ownership_record_ignored", **about)


def _decoded(key: str, value: bytes) -> tuple[Bundle, ServiceUnitStateData | None]:
    """Return the bundle and its record, None for a tombstone.

    Raises:
        InvalidNameError: the key names no bundle.
        msgspec.DecodeError: the value is no record, or one of a state that is not known here.
    """
    if len(key) > _LONGEST_KEY:
        raise msgspec.DecodeError(f"the key has {len(key):,} characters")
    if len(value) > _LARGEST_RECORD:
        raise msgspec.DecodeError(f"the record has {len(value):,} bytes")
    return Bundle.parse(key), decode_record(value) if value else None


class OwnershipTopic:
    """Reads the channel where its records are messages."""

    def __init__(self, client: pulsar.Client) -> None:
        """`client` stays the caller's."""
        self._client = client
        self._told: set[str] = set()

    def owners(self) -> Mapping[str, str]:
        """Return the broker that owns each bundle, by all messages that were there when this was called, or later.

        Blocks for as long as the records take to be read, about MOST_SECONDS at the utmost.

        Raises:
            OwnershipUnreadableError: they cannot be read, or not all of them in that time.
        """
        records, deadline = OwnershipRecords(self._told), time.monotonic() + MOST_SECONDS
        try:
            reader = self._client.create_reader(
                SERVICE_UNIT_STATE_TOPIC,
                pulsar.MessageId.earliest,
                reader_name="barycenter-collect",
                is_read_compacted=True,
            )
        except pulsar.PulsarException as error:
            raise OwnershipUnreadableError(f"{SERVICE_UNIT_STATE_TOPIC} cannot be read: {error}") from error
        try:
            for _ in range(MOST_MESSAGES):
                if not reader.has_message_available():
                    return records.owners()
                if time.monotonic() > deadline:
                    break
                message = reader.read_next(_WAIT_MS)
                records.take(message.partition_key(), message.data())
        except pulsar.PulsarException as error:
            raise OwnershipUnreadableError(f"{SERVICE_UNIT_STATE_TOPIC} cannot be read on: {error}") from error
        finally:
            with suppress(pulsar.PulsarException):
                reader.close()
        raise OwnershipUnreadableError(
            f"{SERVICE_UNIT_STATE_TOPIC} was not read to its end in {MOST_SECONDS:.0f} s; is it compacted?"
        )
