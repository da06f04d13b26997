"""Checks messages that producers send, if the policies of the topic require it: encryption, size, delay, rate.

A message that is refused gets an error, and the messages after it are accepted. A rate is enforced by not reading from
the connections of the producers for a while: no message is refused, and those that were read are accepted.

Most reads have no message that a policy could refuse. `Intake.may_refuse` shows this in one pass over the SENDs of a
read; only if it returns True, the messages are checked one by one. When the policies change, the topic gets another
`Intake`, whose `may_refuse` checks only what these policies require.

Source: Pulsar's `AbstractTopic.isExceedMaximumMessageSize`, `isExceedMaximumDeliveryDelay`,
`PublishRateLimiterImpl`, `ResourceGroupPublishLimiter`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

from pulsar_barycenter.bounds.token_bucket import Allotment, Throttle
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.producer import Sent
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import read_metadata

_MESSAGES: Final = itemgetter(3)
_SIZE: Final = itemgetter(4)
"""A function that returns the number of messages and the bytes of a `Sent`."""
_DELIVERY_MS: Final = itemgetter(5)
_UNENCRYPTED: Final = "Messages must be encrypted"

Screen: TypeAlias = Callable[[Sequence[Sent]], bool]
"""A function that gets messages, and returns False if the policies refuse none of them, True if they have to be checked
one by one.
"""


class Intake:
    """The checks of the messages that producers send to one topic. `throttle` limits the topic, `of_group` all topics
    of its resource group together; None means no limit.

    `may_refuse(messages)` returns False if it is certain that the policies refuse none of the messages; otherwise call
    `refusals` to find those that are refused. `rates` counts all messages, also the refused ones, and stops reading
    from producers that exceed a rate.
    """

    __slots__ = ("_max_delay_ms", "_max_size", "_requires_encryption", "_throttle", "may_refuse", "rates")

    def __init__(
        self,
        max_size: int,
        max_delay_ms: int,
        throttle: Throttle | None,
        *,
        of_group: Throttle | None = None,
        requires_encryption: bool = False,
    ) -> None:
        self._requires_encryption = requires_encryption
        self._max_size = max_size
        self._max_delay_ms = max_delay_ms
        self._throttle = throttle
        self.may_refuse = _screen(max_size, max_delay_ms, requires_encryption=requires_encryption)
        throttles = tuple(found for found in (throttle, of_group) if found is not None)
        self.rates = PublishRates(throttles) if throttles else UNRATED

    @staticmethod
    def asked(rules: TopicRules) -> tuple[object, ...]:
        """Return the rules from which `of` makes its result, for a comparison. When one of them changes, the topic
        replaces its `Intake`.
        """
        return (
            rules.publish_rate,
            rules.group_rate,
            rules.max_message_size,
            rules.delayed,
            rules.requires_encryption,
        )

    @staticmethod
    def of(rules: TopicRules, of_group: Throttle | None, now_s: float) -> "Intake | None":
        """Return the checks that a topic's rules require, None if they require none.

        `of_group` is the throttle of the topic's resource group, None without a limit. `now_s` is the time of the event
        loop.
        """
        rate = rules.publish_rate
        messages, size = rate.publish_throttling_rate_in_msg, rate.publish_throttling_rate_in_byte
        throttle = Throttle(messages, size, 1.0, now_s) if messages > 0 or size > 0 else None
        max_delay_ms = rules.delayed.max_delivery_delay_in_millis if rules.delayed.active else 0
        encrypted = rules.requires_encryption
        is_rated = throttle is not None or of_group is not None
        if not is_rated and rules.max_message_size <= 0 and max_delay_ms <= 0 and not encrypted:
            return None
        return Intake(rules.max_message_size, max_delay_ms, throttle, of_group=of_group, requires_encryption=encrypted)

    def close(self, now_s: float) -> None:
        """End the use of this object, because another one replaces it. Remove the limit of the topic's own throttle, so
        that no connection waits for it any more. Give back to the throttle of the resource group what it allowed in
        advance. `now_s` is the time of the event loop.
        """
        self.rates.close(now_s)
        if self._throttle is not None:
            self._throttle.lift()

    def refusals(
        self, sent: Sequence[Sent], entries: Sequence[NewEntry], now_ms: int, *, are_chunks: bool
    ) -> Iterator[tuple[int, str]]:
        """For each entry that the policies refuse, yield its index in `entries`, and the reason; in ascending order.
        `sent` has the fields of the SEND of each entry.
        """
        max_size = 0 if are_chunks else self._max_size
        for index, send in enumerate(sent):
            refusal = self._refusal(entries[index][0], max_size, send[5] - now_ms)
            if refusal is not None:
                yield index, refusal

    def _refusal(self, entry: bytes, max_size: int, delay_ms: int) -> str | None:
        if 0 < max_size < len(entry):
            return f"Exceed maximum message size: {len(entry)} bytes are more than the {max_size}"
        if self._requires_encryption and not _is_encrypted(entry):
            return _UNENCRYPTED
        if 0 < self._max_delay_ms < delay_ms:
            return f"Exceed max allowed delivery delay of {self._max_delay_ms} milliseconds"
        return None


class PublishRates:
    """Counts the messages that producers send to one topic, and stops reading from producers that exceed a rate: the
    topic's own rate, or that of its resource group.
    """

    __slots__ = ("_allotment",)

    def __init__(self, throttles: Sequence[Throttle]) -> None:
        self._allotment = Allotment(throttles)

    def count(self, sent: Sequence[Sent]) -> None:
        """Count the messages in `sent`, which one producer sent, also the refused ones. If a rate is reached by this,
        stop reading from the producer's connection; reading resumes when the rate lets messages pass again.
        """
        if not self._allotment.take(sum(map(_MESSAGES, sent)), sum(map(_SIZE, sent))):
            self._check(sent[0][0].link)

    def _check(self, link: ClientLink) -> None:
        """If a throttle lets no message pass now, stop reading from `link`. Reading resumes when all throttles let
        messages pass again.
        """
        now_s = asyncio.get_running_loop().time()
        if not self._allotment.allowance(now_s):
            for throttle in self._allotment.throttles:
                if throttle.wait_s(now_s) > 0:
                    link.hold_reading(throttle)

    def close(self, now_s: float) -> None:
        """Give the messages and bytes that the throttles allowed in advance, and that were not used, back to them.
        `now_s` is the time of the event loop.
        """
        self._allotment.give_back(now_s)


class Unrated(PublishRates):
    """The rates of a topic that has none."""

    __slots__ = ()

    def count(self, sent: Sequence[Sent]) -> None: ...


UNRATED: Final = Unrated(())


def _screen(max_size: int, max_delay_ms: int, *, requires_encryption: bool) -> Screen:
    if requires_encryption:
        return _has_any
    if max_size > 0 and max_delay_ms > 0:
        return lambda sent: max(map(_SIZE, sent)) > max_size or _has_delivery_time(sent)
    if max_size > 0:
        return lambda sent: max(map(_SIZE, sent)) > max_size
    return _has_delivery_time if max_delay_ms > 0 else _has_none


def _has_none(sent: Sequence[Sent]) -> bool:
    return False


def _has_any(sent: Sequence[Sent]) -> bool:
    return True


def _has_delivery_time(sent: Sequence[Sent]) -> bool:
    return any(map(_DELIVERY_MS, sent))


def _is_encrypted(entry: bytes) -> bool:
    try:
        return bool(read_metadata(entry).encryption_keys)
    except MalformedFrameError:
        return False
