"""What a topic checks of the messages that producers send, if its policies ask for it: size, delay, rate.

A message that is refused gets an error, and the messages after it are accepted. A rate is kept by reading no more from
the connections of the producers for a while: nothing is refused, and what was read is accepted.

Source: Pulsar's `AbstractTopic.isExceedMaximumMessageSize`, `isExceedMaximumDeliveryDelay`,
`PublishRateLimiterImpl`.
"""

import asyncio
from collections.abc import Iterator, Sequence
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
"""The messages and the bytes of a `Sent`."""


class Intake:
    """The checks of one topic. Its `throttle` is shared by all producers."""

    __slots__ = ("_max_delay_ms", "_max_size", "refuses", "throttle")

    def __init__(self, max_size: int, max_delay_ms: int, throttle: Throttle | None) -> None:
        self._max_size = max_size
        self._max_delay_ms = max_delay_ms
        self.refuses: Final = max_size > 0 or max_delay_ms > 0
        """Whether `refusals` may find any."""
        self.throttle = throttle

    @staticmethod
    def of(rules: TopicRules, now_s: float) -> "Intake | None":
        """Return the checks that a topic's rules ask for, None for none. `now_s` is the time of the event loop."""
        rate = rules.publish_rate
        messages, size = rate.publish_throttling_rate_in_msg, rate.publish_throttling_rate_in_byte
        throttle = Throttle(messages, size, 1.0, now_s) if messages > 0 or size > 0 else None
        max_delay_ms = rules.delayed.max_delivery_delay_in_millis if rules.delayed.active else 0
        if throttle is None and rules.max_message_size <= 0 and max_delay_ms <= 0:
            return None
        return Intake(rules.max_message_size, max_delay_ms, throttle)

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
        suspects = {index for index, entry in enumerate(data) if len(entry) > max_size} if max_size else set()
        if self._max_delay_ms:
            suspects.update(may_have_delivery_time(data))
        for index in sorted(suspects):
            entry = data[index]
            if 0 < max_size < len(entry):
                yield index, f"Exceed maximum message size: {len(entry)} bytes are more than the {max_size}"
            elif self._max_delay_ms and self._is_too_late(entry, now_ms):
                yield index, f"Exceed max allowed delivery delay of {self._max_delay_ms} milliseconds"

    def _is_too_late(self, entry: bytes, now_ms: int) -> bool:
        try:
            return read_metadata(entry).deliver_at_time - now_ms > self._max_delay_ms
        except MalformedFrameError:
            return False
