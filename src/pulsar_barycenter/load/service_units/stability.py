"""How far the leader trusts what the metadata store says of brokers that are gone.

A store that loses its connections loses the keys of brokers that live. So whoever's session was just lost does not
take the absence of others for their death, and whoever's was lost a short while ago waits before he does.

Source: Pulsar's `ServiceUnitStateChannelImpl.getMetadataState` and `handleBrokerDeletionEvent`.
"""

import enum
from typing import Final

JITTERY_MS: Final = 180_000
"""So long a session that was re-established counts as just re-established, the last ms included."""


class MetadataStability(enum.Enum):
    STABLE = "stable"
    JITTERY = "jittery"
    UNSTABLE = "unstable"

    @property
    def cleanup_delay_s(self) -> float | None:
        """How long to wait before a broker that is gone counts as lost; None: it does not count as lost at all."""
        return _DELAYS[self]


_DELAYS: Final[dict[MetadataStability, float | None]] = {
    MetadataStability.STABLE: 0.0,
    MetadataStability.JITTERY: JITTERY_MS / 1000,
    MetadataStability.UNSTABLE: None,
}


def stability(*, has_session: bool, reestablished_at_ms: int | None, now_ms: int) -> MetadataStability:
    """Return how the store is to be taken at `now_ms`; `reestablished_at_ms` None: no session was ever lost."""
    if not has_session:
        return MetadataStability.UNSTABLE
    if reestablished_at_ms is not None and now_ms - reestablished_at_ms <= JITTERY_MS:
        return MetadataStability.JITTERY
    return MetadataStability.STABLE
