"""Telling what a publisher sent twice.

A publisher that reconnects sends again what has no receipt, and some of that was stored already. A broker that
deduplicates drops it; others, as brokers are configured by default, store it a second time, and readers drop it by
what is here: a publisher of ours has a name that nobody else ever has, and counts its messages. Of other producers
nothing is known: many begin to count anew under a name that they had before.
"""

import random
from typing import Final

from pulsar_barycenter.bounds.recent import Recent

PUBLISHER_PREFIX: Final = "barycenter-system-topics-"

WINDOW: Final = 1024
"""So many sequence ids behind the highest are told apart; more than a publisher may have without a receipt."""

MOST_PUBLISHERS: Final = 1000
"""Of more than so many the one that was silent for longest is forgotten."""

_ALL: Final = (1 << WINDOW) - 1


def publisher_name(source: random.Random) -> str:
    """Return a name that no other publisher has, by 128 random bits."""
    return f"{PUBLISHER_PREFIX}{source.getrandbits(128):032x}"


class Repeats:
    """What a reader has seen: of each publisher the highest sequence id, and a bit for each of those below it."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: Recent[str, tuple[int, int]] = Recent(MOST_PUBLISHERS)

    def is_repeat(self, producer: str, sequence_id: int) -> bool:
        """Tell whether that message was seen before, and remember it; never true for producers that are not ours."""
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
