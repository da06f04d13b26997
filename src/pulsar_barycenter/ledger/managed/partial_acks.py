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
    """Return the bit set that a sequence of 64-bit words, which may be signed, stands for."""
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *[word & _WORD_MASK for word in words]), "little")


def words_of(bits: int) -> tuple[int, ...]:
    """Return a bit set, other than ALL, as a sequence of unsigned 64-bit words; the last one is not 0."""
    count = -(-bits.bit_length() // WORD_BITS)
    return struct.unpack(f"<{count}Q", bits.to_bytes(8 * count, "little"))


class PartialAcks:
    """For each partly acknowledged entry: which of its messages are not acknowledged. At most `max_entries` entries
    are recorded.

    Partial acknowledgements of further entries are not recorded, nor those of an entry with which all bit sets together
    would have more than MAX_WORDS words: their acknowledged messages may be delivered again. With `max_entries` 0 no
    partial acknowledgement is recorded.
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
        """Acknowledge the messages of an entry that are not in `bits`; return the bit set of those that are still not
        acknowledged.

        If 0 is returned, all messages are acknowledged, and the entry is not recorded here any more. If ALL is
        returned, nothing has changed, because `max_entries` or MAX_WORDS is reached.
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
        """Record a bit set that was stored, for an entry that is not recorded yet. Ignore it if `max_entries` or
        MAX_WORDS is reached.
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
        """Remove the entries at `positions` from this record, because they are acknowledged. Entries that are not
        recorded are ignored.
        """
        for position in positions:
            if position in self.left:
                self._remove(position)

    def remove_through(self, position: Position) -> None:
        """Remove every entry up to and including `position` from this record."""
        stop = bisect_right(self._order, position)
        for known in self._order[:stop]:
            self._words -= _words_in(self.left.pop(known))
        del self._order[:stop]

    def has_from(self, position: Position) -> bool:
        """Return whether an entry at or after `position` is recorded."""
        return bool(self._order) and self._order[-1] >= position

    def clear(self) -> None:
        self.left.clear()
        self._order.clear()
        self._words = 0

    def stored(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield (ledger, entry, words) to store in the cursor's record, oldest first; not more than MAX_STORED_WORDS
        words in total.
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
