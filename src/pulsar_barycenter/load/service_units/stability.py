"""How far the leader trusts the metadata store when the keys of brokers disappear.

If a store loses its connections, the keys of live brokers disappear. So a leader without a session treats no broker as
lost. A leader that lost its session waits one session timeout from the start of its new session, so that other brokers
that lost theirs at the same time can get new ones.

Source: Pulsar's `ServiceUnitStateChannelImpl.getMetadataState` and `handleBrokerDeletionEvent`. Where we differ: Pulsar
waits for 180 s in the jittery state. Here a broker whose session ended has stopped serving, so taking its bundles is
safe at any time, and the wait only avoids unnecessary moves.
"""

import enum
from typing import Final

JITTERY_MS: Final = 180_000
"""For this time (inclusive) after a session was re-established, the metadata store counts as jittery, not as stable."""


class MetadataStability(enum.Enum):
    STABLE = "stable"
    JITTERY = "jittery"
    UNSTABLE = "unstable"


def stability(*, has_session: bool, reestablished_at_ms: int | None, now_ms: int) -> MetadataStability:
    """Return the stability of the metadata store at `now_ms`: unstable if there is no session; jittery for JITTERY_MS
    after a lost session was established again; otherwise stable. `reestablished_at_ms` is the last time at which this
    happened (epoch ms); None: no session was ever lost.
    """
    if not has_session:
        return MetadataStability.UNSTABLE
    if reestablished_at_ms is not None and now_ms - reestablished_at_ms <= JITTERY_MS:
        return MetadataStability.JITTERY
    return MetadataStability.STABLE


def cleanup_delay_ms(
    state: MetadataStability, *, reestablished_at_ms: int | None, now_ms: int, session_timeout_ms: int
) -> int | None:
    """Return for how many ms from `now_ms` a broker whose key is missing from the metadata store must not be treated as
    lost yet. `state` is the stability of the store.

    0: the broker counts as lost now. None: it does not count as lost until `state` changes.
    """
    if state is MetadataStability.UNSTABLE:
        return None
    if state is MetadataStability.STABLE or reestablished_at_ms is None:
        return 0
    since_ms = max(0, now_ms - reestablished_at_ms)  # a clock may be set back
    return max(0, session_timeout_ms - since_ms)
