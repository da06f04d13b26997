"""Decides what is sent of a batch of which some messages are acknowledged: the whole entry, with an ack set.

A set bit in an ack set is a message that the client gives to the application; it skips the others. Only the messages of
set bits cost permits and count as unacknowledged. Source: Pulsar's `AbstractBaseDispatcher.filterEntriesForConsumer`.
"""

from collections.abc import Sequence

from pulsar_barycenter.ledger.managed.partial_acks import words_of


def part_of(messages: int, bits: int) -> tuple[int, Sequence[int]]:
    """Return how many messages of a batch are not acknowledged, and the ack set to send with the batch. An empty ack
    set means that all messages of the batch are delivered.

    `messages` is the number of messages in the batch. `bits` is the bit set of the messages that are not acknowledged.
    Bits beyond the number of messages are ignored; they occur because the cursor does not always know that number. If
    no bit is left after this, `bits` is wrong, and all messages are delivered.
    """
    if bits.bit_length() > messages:
        bits &= (1 << messages) - 1
    left = bits.bit_count()
    return (left, words_of(bits)) if 0 < left < messages else (messages, ())
