"""How far the leader trusts what the metadata store says of brokers that are gone.

A store that loses its connections loses the keys of brokers that live. So a leader without a session takes nobody for
lost, and one whose session was lost waits until the others that lost theirs with it have had time for new ones: for one
session timeout from the beginning of its new session.

Source: Pulsar's `ServiceUnitStateChannelImpl.getMetadataState` and `handleBrokerDeletionEvent`. Different: Pulsar waits
for 180 s in the jittery state. A broker whose session ended has stopped serving here, so taking its bundles is safe at
any time, and the wait only avoids moves that are not needed.
"""

import enum
from typing import Final

JITTERY_MS: Final = 180_000
"""So long a session that was re-established counts as just re-established, the last ms included."""


class MetadataStability(enum.Enum):
    STABLE = "stable"
    JITTERY = "jittery"
    UNSTABLE = "unstable"


def stability(*, has_session: bool, reestablished_at_ms: int | None, now_ms: int) -> MetadataStability:
    """Return how the store is to be taken at `now_ms`; `reestablished_at_ms` None: no session was ever lost."""
    if not has_session:
        return MetadataStability.UNSTABLE
    if reestablished_at_ms is not None and now_ms - reestablished_at_ms <= JITTERY_MS:
        return MetadataStability.JITTERY
    return MetadataStability.STABLE


def cleanup_delay_ms(
    state: MetadataStability, *, reestablished_at_ms: int | None, now_ms: int, session_timeout_ms: int
) -> int | None:
    """Return for how long from `now_ms` on a broker that is gone does not count as lost yet; 0: it does, None: it does
    not as long as this state lasts."""
    if state is MetadataStability.UNSTABLE:
        return None
    if state is MetadataStability.STABLE or reestablished_at_ms is None:
        return 0
    since_ms = max(0, now_ms - reestablished_at_ms)  # a clock may be put back
    return max(0, session_timeout_ms - since_ms)
