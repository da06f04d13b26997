"""The ownership records as messages of a compacted topic that the leader serves.

The key of a message is the bundle, its value the record as JSON; a message without a value is a tombstone. All brokers
read all messages in the order in which they are stored, and accept or refuse each by the same rule
(`load.service_units.conflicts`), as compaction does. So all brokers have the same records in the end. A publisher waits
until it has read its own message, and then knows the outcome. It recognises the message by its content: a message that
was sent again to the next leader may be stored twice, and is read once, at another position than that in its receipt.

Source: Pulsar's `ServiceUnitStateTableViewImpl`.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError, RecordListener
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.entries import MessageId
from pulsar_barycenter.broker.system_topics.errors import SystemTopicError
from pulsar_barycenter.broker.system_topics.publisher import UNKNOWN_PLACE, Publisher
from pulsar_barycenter.broker.system_topics.reader import Reader
from pulsar_barycenter.load.service_units.conflicts import conflict
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitStateData,
    StorageType,
    decode_record,
    encode_record,
)
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC

log = structlog.get_logger(__name__)

_PUBLISH_S: Final = 10.0
"""The number of seconds for publishing a record and reading it back. After that, the outcome counts as unknown."""
_MAX_LOGGED_KEYS: Final = 1_000


def keeps_earlier(earlier: bytes, later: bytes | None) -> bool:
    """Return whether compaction of the topic keeps the record `earlier` although the later message has the same key.

    A record that cannot be decoded never replaces a record that can be decoded. Every later record replaces a record
    that cannot be decoded.
    """
    try:
        before = decode_record(earlier)
    except msgspec.DecodeError:
        return False
    try:
        after = decode_record(later) if later else None
    except msgspec.DecodeError:
        return True
    return conflict(before, after, StorageType.SYSTEM_TOPIC) is not None


class _Offer:
    """An ownership record that this broker published in the topic. `accepted`: whether it became the record of its
    bundle; None: not known, because this broker has not read it yet.
    """

    __slots__ = ("accepted", "value")

    def __init__(self, value: bytes | None) -> None:
        self.value = value
        self.accepted: bool | None = None


class TopicRecords:
    """The ownership records as messages of a topic. Implements `OwnershipRecords`."""

    storage = StorageType.SYSTEM_TOPIC

    def __init__(self, client: SystemTopicClient) -> None:
        self._client = client
        self._known: dict[Bundle, ServiceUnitStateData] = {}
        self._offers: dict[str, list[_Offer]] = {}
        """The offers of each key, in the order of publication."""
        self._read_to: MessageId | None = None
        self._progress = NextChange()
        self._logged: set[str] = set()
        self._listener: RecordListener | None = None
        self._reader: Reader | None = None
        self._publisher: Publisher | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._is_read = False

    @property
    def is_read(self) -> bool:
        return self._is_read

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        return self._known.get(bundle)

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        return list(self._known.items())

    def bundles(self) -> list[Bundle]:
        return list(self._known)

    def start(self, listener: RecordListener) -> None:
        self._listener = listener
        self._publisher = self._client.publisher(SERVICE_UNIT_STATE_TOPIC)
        self._reader = self._client.reader(SERVICE_UNIT_STATE_TOPIC, self._take, read_compacted=True)
        self._catching_up = asyncio.create_task(self._await_read(self._reader), name="ownership records")

    async def _await_read(self, reader: Reader) -> None:
        await reader.caught_up()
        self._is_read = True

    async def close(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)
        for connection in (self._reader, self._publisher):
            if connection is not None:
                await connection.close()
        self._reader = self._publisher = None

    async def refresh(self, bundle: Bundle) -> None:
        """Do nothing: the reader of the topic gets every message."""

    async def catch_up(self) -> None:
        if self._reader is None:
            raise ChannelUnavailableError("this broker has no connection to the topic of the ownership records")
        try:
            async with asyncio.timeout(_PUBLISH_S):
                await self._reader.reach_end()
        except (TimeoutError, SystemTopicError) as error:
            raise ChannelUnavailableError(
                str(error) or "the topic of the ownership records was not read to its end in time"
            ) from error

    async def put(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        guard: Guard | None = None,
    ) -> bool:
        if self._known.get(bundle) is not before or conflict(before, after, self.storage):
            return False
        if self._publisher is None:
            raise ChannelUnavailableError("this broker has no connection to the topic of the ownership records")
        key, offer = str(bundle), _Offer(None if after is None else encode_record(after))
        offers = self._offers.setdefault(key, [])
        offers.append(offer)
        try:
            message_id = await self._publisher.publish(key, offer.value, timeout_s=_PUBLISH_S)
            async with asyncio.timeout(_PUBLISH_S):
                return await self._outcome(offer, message_id)
        except SystemTopicError as error:
            raise ChannelUnavailableError(str(error)) from error
        except TimeoutError:
            raise ChannelUnavailableError(
                f"an ownership record was published, but was not read back in {_PUBLISH_S:.0f} s, so it is not known "
                "whether it was accepted"
            ) from None
        finally:
            offers.remove(offer)
            if not offers:
                self._offers.pop(key, None)

    async def copy(self, bundle: Bundle, after: ServiceUnitStateData | None, holds: Callable[[], bool]) -> None:
        """Write a copy of a record; see `CopiedRecords.copy`. If brokers would ignore the message because of the rules
        for changes of records (`load.service_units.conflicts`), a message that deletes the former record is published
        first.
        """
        before = self.get(bundle)
        if after is None or conflict(before, after, self.storage):
            await self._copied(bundle, before, None, holds)
            before = None
        if after is not None:
            await self._copied(bundle, before, after, holds)

    async def _copied(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        holds: Callable[[], bool],
    ) -> None:
        if not holds():
            raise ChannelUnavailableError(
                "this broker does not copy ownership records any more: another broker is the leader, or the records "
                "are being moved to another place"
            )
        if not await self.put(bundle, before, after):
            raise ChannelUnavailableError(
                "an ownership record was not copied, because another broker changed it during the copy"
            )

    async def _outcome(self, offer: _Offer, message_id: MessageId) -> bool:
        """Wait until this broker has read a record that it published; there is no time limit here, the caller has to
        set one. Return whether the record was accepted. False also if compaction removed the record before it was read.
        """
        while offer.accepted is None and (
            message_id == UNKNOWN_PLACE or self._read_to is None or self._read_to < message_id
        ):
            await self._progress.wait(1.0)
        return bool(offer.accepted)

    # ---- reading ----

    def _take(self, key: str | None, value: bytes | None, message_id: MessageId, publish_time_ms: int) -> None:
        try:
            if key is not None:
                accepted = self._accept(key, value)
                self._set_outcome(key, value, accepted=accepted)
        finally:
            self._read_to = message_id
            self._progress.notify()

    def _set_outcome(self, key: str, value: bytes | None, *, accepted: bool) -> None:
        for offer in self._offers.get(key, ()):
            if offer.accepted is None and offer.value == value:
                offer.accepted = accepted
                return

    def _accept(self, key: str, value: bytes | None) -> bool:
        """Apply a message of the topic to the ownership records. Return True if it changed or deleted the record of a
        bundle; False if the rules for changes of records refuse it, or it cannot be decoded. A message that cannot be
        decoded is logged, once for each key.
        """
        try:
            bundle = Bundle.parse(key)
            after = decode_record(value) if value else None
        except (InvalidNameError, msgspec.DecodeError) as error:
            if key not in self._logged and len(self._logged) < _MAX_LOGGED_KEYS:
                self._logged.add(key)
                log.warning("ownership_record_ignored", key=key[:200], reason=str(error))
            return False
        before = self._known.get(bundle)
        refusal = conflict(before, after, self.storage)
        if refusal is not None:
            log.debug("ownership_record_refused", bundle=key, reason=refusal.value)
            return False
        if after is None:
            self._known.pop(bundle, None)
        else:
            self._known[bundle] = after
        if self._listener is not None and (before is not None or after is not None):
            self._listener(bundle, before, after)
        return True
