"""The types of a subscription. Their values are those of the protocol; their labels are used in stats."""

import enum


class SubscriptionType(enum.Enum):
    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3

    @property
    def label(self) -> str:
        return "Key_Shared" if self is SubscriptionType.KEY_SHARED else self.name.capitalize()

    @property
    def is_shared(self) -> bool:
        """Whether messages are distributed over several consumers (Shared and Key_Shared), and not sent to a single
        active one.
        """
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


class KeySharedMode(enum.Enum):
    AUTO_SPLIT = 0
    STICKY = 1
