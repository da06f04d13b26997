"""The entries after a cursor's mark-delete position of which only some messages are acknowledged.

The messages of such an entry that are not acknowledged are a bit set: bit i is set while message i of the batch is not
acknowledged. In memory it is a number; on the wire and in a stored record it is a sequence of 64-bit words, bit 0 of
the first word being the first message.

Source: `batchDeletedIndexes` of Pulsar's `ManagedCursorImpl`.
"""

import struct
from bisect import bisect_right, insort
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from pulsar_barycenter.ledger.position import Position

ALL: Final = -1
"""The bit set of an entry of which no message is acknowledged, whatever the number of its messages."""

WORD_BITS: Final = 64

MAX_WORDS: Final = 250_000
"""The maximum number of 64-bit words that a cursor keeps in memory. 10,000 entries of 1,600 messages need this
number.
"""

MAX_STORED_WORDS: Final = 10_000
"""The maximum number of 64-bit words in a cursor's record, so that the record fits every metadata store: a word takes
up to 21 bytes.
"""

_WORD_MASK: Final = (1 << WORD_BITS) - 1


def bits_of(words: Sequence[int]) -> int:
    """Convert a sequence of 64-bit words, which may be signed numbers, to a bit set: bit 0 of the first word is bit 0
    of the result.
    """
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *[word & _WORD_MASK for word in words]), "little")


def words_of(bits: int) -> tuple[int, ...]:
    """Convert a bit set to a sequence of unsigned 64-bit words, of which the last one is not 0. `bits` must not be ALL,
    the bit set of an entry of which no message is acknowledged.
    """
    count = -(-bits.bit_length() // WORD_BITS)
    return struct.unpack(f"<{count}Q", bits.to_bytes(8 * count, "little"))


class PartialAcks:
    """The partly acknowledged entries of a cursor: for each, the bit set of its messages that are not acknowledged. At
    most `max_entries` entries are recorded; with 0, none.

    A partial acknowledgement of a further entry is not recorded, and neither is one with which all bit sets together
    would have more than MAX_WORDS words. The messages of such an entry may be delivered again although they are
    acknowledged.
    """

    __slots__ = ("_max_entries", "_order", "_words", "left")

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._order: list[Position] = []
        self._words = 0
        self.left: dict[Position, int] = {}
        """The bit sets by position; none is 0. Only this object changes it."""

    def __len__(self) -> int:
        return len(self.left)

    def acknowledge(self, position: Position, bits: int) -> int:
        """Acknowledge the messages of the entry at `position` that are not in the bit set `bits`. Return the bit set of
        the messages that are still not acknowledged.

        If 0 is returned, all messages are acknowledged, and the entry is not recorded here any more. If ALL (the bit
        set of all messages, whatever their number is) is returned, nothing has changed: the acknowledgement cannot be
        recorded, because the number of entries or of words has reached its maximum.
        """
        before = self.left.get(position)
        if before is not None:
            bits &= before
            if not bits:
                self._remove(position)
            elif bits != before:
                self._put(position, bits)
        elif bits and not self._put(position, bits):
            return ALL
        return bits

    def restore(self, position: Position, bits: int) -> None:
        """Record the bit set `bits`, which was stored, for the entry at `position`, which is not recorded yet. Do
        nothing if `max_entries` or MAX_WORDS would be exceeded.
        """
        self._put(position, bits)

    def _put(self, position: Position, bits: int) -> bool:
        before = self.left.get(position, 0)
        words = self._words + _words_in(bits) - _words_in(before)
        if not before:
            if len(self.left) >= self._max_entries or words > MAX_WORDS:
                return False
            insort(self._order, position)
        self._words = words
        self.left[position] = bits
        return True

    def _remove(self, position: Position) -> None:
        self._words -= _words_in(self.left.pop(position))
        del self._order[bisect_right(self._order, position) - 1]

    def remove(self, positions: Collection[Position]) -> None:
        """Remove the entries at `positions`, because all their messages are acknowledged. Positions that are not
        recorded are ignored.
        """
        for position in positions:
            if position in self.left:
                self._remove(position)

    def remove_through(self, position: Position) -> None:
        """Remove every entry whose position is `position` or before it."""
        stop = bisect_right(self._order, position)
        for known in self._order[:stop]:
            self._words -= _words_in(self.left.pop(known))
        del self._order[:stop]

    def has_from(self, position: Position) -> bool:
        """Return whether an entry whose position is `position` or after it is recorded."""
        return bool(self._order) and self._order[-1] >= position

    def clear(self) -> None:
        self.left.clear()
        self._order.clear()
        self._words = 0

    def stored(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield (ledger, entry, words) for each entry that is to be stored in the cursor's record, oldest first. Newer
        entries with which there would be more than MAX_STORED_WORDS words in total are left out.
        """
        room = MAX_STORED_WORDS
        for position in islice(self._order, self._max_entries):
            words = words_of(self.left[position])
            room -= len(words)
            if room < 0:
                return
            yield (*position, words)


def _words_in(bits: int) -> int:
    return -(-bits.bit_length() // WORD_BITS)
