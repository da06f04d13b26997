"""How much of everything one client may have under way, attached or unread; `connection` holds it to them.

How long names may be is in `naming.topic`.
"""

from typing import Final

QUEUED_BYTES: Final = 1 << 20
"""What is collected for a client before dispatch waits; transports buffer about as much again."""

UNREAD_BYTES: Final = 16 << 20
"""Answers and messages that a client has not read, in bytes, at which reading from it stops.

So a client may write requests with so many bytes of answers before it has to read any.
"""

PENDING_BYTES: Final = 64 << 20
"""Unanswered SENDs of a connection, in bytes, at which reading stops; and likewise its other unanswered requests."""

OPEN_REQUESTS: Final = 5000
"""Unanswered requests at which reading stops."""

ATTACHED: Final = 100_000
"""Most producers and consumers of a connection together."""

PROPERTIES_LENGTH: Final = 1024
"""Characters of all keys and values together that a producer or a consumer brings about itself. Pulsar's
`maxConsumerMetadataSize`."""

SUBSCRIPTION_PROPERTIES_LENGTH: Final = 16 * 1024
"""The same of those that are stored with a subscription."""

IDS_AT_ONCE: Final = 1_000
"""Message ids of an ACK or REDELIVER that are worked off in one step; others have their turn between two steps. Clients
group no more than this; a command may hold hundreds of thousands."""

HASH_RANGES: Final = 10_000
"""Most hash ranges of a STICKY consumer."""

TEXT_LENGTH: Final = 1000
"""Characters of the longest text that is told of what a client said: in a refusal, in the log."""

TAKE_LEAVE_S: Final = 1.0
"""How long a connection that is one too many is there for its client to read why."""

CLOSED_ID_LIFE_S: Final = 30.0
"""How long SENDs for a producer that this broker closed are dropped without a word."""

JOIN_BELOW_MEAN_BYTES: Final = 1 << 10
"""Parts that are smaller in the mean are joined before they are written: cheaper than to hand over each."""
