"""Detects messages that a publisher sent twice.

A publisher that reconnects sends messages without a receipt again, and some of them may be stored already. A broker
with deduplication drops those; without it, which is the default, the broker stores them a second time, and readers drop
them by this module. It relies on two facts: our publishers have unique names, and they number their messages. Messages
of other producers are never dropped: many producers restart their numbers under a former name.
"""

import random
from typing import Final

from pulsar_barycenter.bounds.recent import Recent

PUBLISHER_PREFIX: Final = "barycenter-system-topics-"

WINDOW: Final = 1024
"""The number of sequence ids, up to the highest, that are recorded one by one. It is larger than the number of messages
that a publisher may have without a receipt.
"""

MOST_PUBLISHERS: Final = 1000
"""The maximum number of publishers that are recorded. The publisher whose last message was seen longest ago is removed
first.
"""

_ALL: Final = (1 << WINDOW) - 1


def publisher_name(source: random.Random) -> str:
    """Return a unique producer name, which has 128 random bits."""
    return f"{PUBLISHER_PREFIX}{source.getrandbits(128):032x}"


class Repeats:
    """The messages that a reader has seen: for each publisher, the highest sequence id, and a bit for each of the
    WINDOW ids up to it.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: Recent[str, tuple[int, int]] = Recent(MOST_PUBLISHERS)

    def is_repeat(self, producer: str, sequence_id: int) -> bool:
        """Return whether this message was seen before this call, and record it. An id that is WINDOW or more below the
        highest id of its publisher counts as seen. Always False for messages that no `Publisher` of this package sent.
        """
        if not producer.startswith(PUBLISHER_PREFIX):
            return False
        highest, bits = self._seen.get(producer) or (-1, 0)
        behind = highest - sequence_id
        if behind < 0:
            bits = (bits << -behind | 1) & _ALL if -behind < WINDOW else 1
            highest = sequence_id
            known = False
        else:
            known = behind >= WINDOW or bool(bits >> behind & 1)
            if not known:
                bits |= 1 << behind
        self._seen.put(producer, (highest, bits))
        return known
