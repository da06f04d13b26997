"""The limits of one client connection: requests under way, attached producers and consumers, unread answers.

`connection` and the handlers of commands enforce them. The longest names are in `naming.topic`.
"""

from typing import Final

from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY

QUEUED_BYTES: Final = 1 << 20
"""Queued bytes for a client at which dispatch stops. The transport buffers about the same amount in addition."""

UNREAD_BYTES: Final = 16 << 20
"""Bytes of answers and messages that a client has not read, at which the broker stops reading from it.

So a client may write requests whose answers have that many bytes before it has to read.
"""

PENDING_BYTES: Final = 64 << 20
"""Bytes of unanswered SENDs of a connection at which reading stops; the same limit holds for its other requests."""

OPEN_REQUESTS: Final = 5000
"""The number of unanswered requests, other than SENDs, at which reading stops."""

ATTACHED: Final = 100_000
"""The most producers and consumers of a connection together."""

PROPERTIES_LENGTH: Final = 1024
"""The most characters of the metadata of a producer or consumer, all keys and values together. Pulsar's
`maxConsumerMetadataSize`."""

SUBSCRIPTION_PROPERTIES_LENGTH: Final = 16 * 1024
"""The most characters of the properties that are stored with a subscription, all keys and values together."""

IDS_AT_ONCE: Final = 1_000
"""The most message ids of an ACK or REDELIVER that are handled in one step of the event loop; other work runs between
two steps. Clients group no more than this, but a command may have hundreds of thousands."""

ACK_SET_WORDS: Final = -(-MAX_MESSAGES_IN_ENTRY // 64)
"""The most words of the ack_set of a message id: a bit for each message of the largest batch. An ACK with a longer one
is refused."""

HASH_RANGES: Final = 10_000
"""The most hash ranges of a STICKY consumer."""

TEXT_LENGTH: Final = 1000
"""The most characters of a client's text that are repeated in an error or in the log."""

TAKE_LEAVE_S: Final = 1.0
"""How long a refused connection stays open, in seconds, so that its client can read the error."""

CLOSED_ID_LIFE_S: Final = 30.0
"""How long SENDs for a producer that this broker closed are dropped without an answer, in seconds."""

JOIN_BELOW_MEAN_BYTES: Final = 1 << 10
"""Frames with a smaller mean size are joined before they are written: this is cheaper than to write each."""
