"""Checks messages that producers send, if the policies of the topic require it: encryption, size, delay, rate.

A message that is refused gets an error, and the messages after it are accepted. A rate is enforced by not reading from
the connections of the producers for a while: no message is refused, and those that were read are accepted.

Source: Pulsar's `AbstractTopic.isExceedMaximumMessageSize`, `isExceedMaximumDeliveryDelay`,
`PublishRateLimiterImpl`.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.clients.producer import Sent
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import may_have_delivery_time, read_metadata

_MESSAGES: Final = itemgetter(3)
_SIZE: Final = itemgetter(4)
"""A function that returns the number of messages and the bytes of a `Sent`."""
_UNENCRYPTED: Final = "Messages must be encrypted"


class Intake:
    """The checks of one topic for messages that producers send. Its `throttle` is shared by all producers."""

    __slots__ = ("_max_delay_ms", "_max_size", "_requires_encryption", "refuses", "throttle")

    def __init__(
        self, max_size: int, max_delay_ms: int, throttle: Throttle | None, *, requires_encryption: bool = False
    ) -> None:
        self._requires_encryption = requires_encryption
        self._max_size = max_size
        self._max_delay_ms = max_delay_ms
        self.refuses: Final = max_size > 0 or max_delay_ms > 0 or requires_encryption
        """Whether `refusals` may find any."""
        self.throttle = throttle

    @staticmethod
    def asked(rules: TopicRules) -> tuple[object, ...]:
        """Return those rules on which the result of `of` depends. The topic creates new checks when they change."""
        return rules.publish_rate, rules.max_message_size, rules.delayed, rules.requires_encryption

    @staticmethod
    def of(rules: TopicRules, now_s: float) -> "Intake | None":
        """Return the checks that a topic's rules require, None if they require none. `now_s` is the time of the event
        loop.
        """
        rate = rules.publish_rate
        messages, size = rate.publish_throttling_rate_in_msg, rate.publish_throttling_rate_in_byte
        throttle = Throttle(messages, size, 1.0, now_s) if messages > 0 or size > 0 else None
        max_delay_ms = rules.delayed.max_delivery_delay_in_millis if rules.delayed.active else 0
        encrypted = rules.requires_encryption
        if throttle is None and rules.max_message_size <= 0 and max_delay_ms <= 0 and not encrypted:
            return None
        return Intake(rules.max_message_size, max_delay_ms, throttle, requires_encryption=encrypted)

    def count(self, sent: Sequence[Sent]) -> None:
        """Count messages of one producer that were accepted, and stop reading its connection if they are too many."""
        if self.throttle is None:
            return
        now_s = asyncio.get_running_loop().time()
        if not self.throttle.take(sum(map(_MESSAGES, sent)), sum(map(_SIZE, sent)), now_s):
            sent[0][0].link.hold_reading(self.throttle)

    def refusals(self, entries: Sequence[NewEntry], now_ms: int, *, are_chunks: bool) -> Iterator[tuple[int, str]]:
        """Yield the index of each entry that is refused, ascending, and the reason."""
        data = [entry[0] for entry in entries]
        max_size = 0 if are_chunks else self._max_size
        for index in self._suspects(data, max_size):
            refusal = self._refusal(data[index], max_size, now_ms)
            if refusal is not None:
                yield index, refusal

    def _suspects(self, data: Sequence[bytes], max_size: int) -> Iterable[int]:
        """Return the indexes of the entries that have to be checked for size or delay, ascending."""
        if self._requires_encryption:
            return range(len(data))
        too_large = {index for index, entry in enumerate(data) if len(entry) > max_size} if max_size else set()
        return sorted(too_large.union(may_have_delivery_time(data)) if self._max_delay_ms else too_large)

    def _refusal(self, entry: bytes, max_size: int, now_ms: int) -> str | None:
        if 0 < max_size < len(entry):
            return f"Exceed maximum message size: {len(entry)} bytes are more than the {max_size}"
        try:
            metadata = read_metadata(entry)
        except MalformedFrameError:
            return _UNENCRYPTED if self._requires_encryption else None
        if self._requires_encryption and not metadata.encryption_keys:
            return _UNENCRYPTED
        if 0 < self._max_delay_ms < metadata.deliver_at_time - now_ms:
            return f"Exceed max allowed delivery delay of {self._max_delay_ms} milliseconds"
        return None
