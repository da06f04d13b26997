"""The limits of one client connection: running requests, attached producers and consumers, unread answers.

`connection` and the handlers of commands enforce them. The maximum lengths of names are in `naming.topic`.
"""

from typing import Final

from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY

QUEUED_BYTES: Final = 1 << 20
"""The number of bytes queued for a client at which dispatch to it stops. The transport buffers about the same number
in addition.
"""

UNREAD_BYTES: Final = 16 << 20
"""The number of bytes of answers and messages, which a client has not read yet, at which the broker stops reading from
it.

So a client may write requests whose answers have that many bytes before it has to read.
"""

PENDING_BYTES: Final = 64 << 20
"""The number of bytes of unanswered SENDs of a connection at which reading stops. The bytes of its other unanswered
requests are counted separately, and have the same limit.
"""

OPEN_REQUESTS: Final = 5000
"""The number of unanswered requests, other than SENDs, at which reading stops."""

FULL_READ_BYTES: Final = 256_000
"""The number of bytes from which on a read is a full one: uvloop reads at most this number at once, asyncio more. After
a full read of a connection, everything else has its turn before the next read.
"""

ATTACHED: Final = 100_000
"""The maximum number of producers and consumers of a connection, counted together."""

PROPERTIES_LENGTH: Final = 1024
"""The maximum number of characters of the metadata of a producer or consumer, all keys and values together. Source:
Pulsar's `maxConsumerMetadataSize`.
"""

SUBSCRIPTION_PROPERTIES_LENGTH: Final = 16 * 1024
"""The maximum number of characters of the properties that are stored with a subscription, all keys and values
together.
"""

IDS_AT_ONCE: Final = 1_000
"""The maximum number of message ids of an ACK or REDELIVER that are handled in one step of the event loop; other work
runs between two steps. Pulsar's clients send at most this number in one command, but a frame has room for hundreds of
thousands.
"""

ACK_SET_WORDS: Final = -(-MAX_MESSAGES_IN_ENTRY // 64)
"""The maximum number of words in the ack_set of a message id: a bit for each message of the largest batch. An ACK with
a longer one is refused.
"""

HASH_RANGES: Final = 10_000
"""The maximum number of hash ranges of a STICKY consumer."""

TEXT_LENGTH: Final = 1000
"""The maximum number of characters of a client's text that are repeated in an error or in the log."""

TAKE_LEAVE_S: Final = 1.0
"""The number of seconds that a refused connection stays open, so that its client can read the error."""

CLOSED_ID_LIFE_S: Final = 30.0
"""The number of seconds during which SENDs for a producer that this broker closed are dropped without an answer."""

JOIN_BELOW_MEAN_BYTES: Final = 1 << 10
"""Frames whose mean size is smaller than this number of bytes are joined before they are written, because this is
cheaper than to write each.
"""
