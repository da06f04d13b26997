"""What is decided: who shall own a bundle, which bundles move, which are split. Each with its reason.

Free of numpy, since every broker passes placements on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from pulsar_barycenter.load.reasons import Code, Reason

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

ROUND_KEY: Final = "barycenterMaxBundlesPerRound"
OVERLOAD_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
NO_LIMIT: Final = 2**31 - 1
"""More than any round decides."""


def bundles_of_round(config: "BrokerConfig") -> int:
    """Return how many bundles one round unloads, or splits, at most."""
    return config.barycenter_max_bundles_per_round or NO_LIMIT


class Placement(msgspec.Struct, frozen=True, gc=False, eq=False):
    """`broker` (an id) shall own `bundle`; None: no broker qualifies.

    `why` makes the reason, the same one each time: to tell what else was possible takes longer than to choose, and
    nobody asks of most bundles of a round.
    """

    bundle: str
    broker: str | None
    why: Callable[[], Reason]

    @property
    def reason(self) -> Reason:
        return self.why()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placement):
            return NotImplemented
        return (self.bundle, self.broker, self.reason) == (other.bundle, other.broker, other.reason)

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def because(reason: Reason, bundle: str, broker: str | None) -> "Placement":
        """Return a placement whose reason is there already."""
        return Placement(bundle, broker, lambda: reason)


class Unload(msgspec.Struct, frozen=True, gc=False):
    """`bundle` leaves `source`, for `destination` if one is known already."""

    bundle: str
    source: str
    reason: Reason
    destination: str | None = None


class Split(msgspec.Struct, frozen=True, gc=False):
    """`bundle`, owned by `broker`, is divided, at the hash `boundary` if that was decided with it."""

    bundle: str
    broker: str
    reason: Reason
    boundary: int | None = None


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """`subject` (a bundle or a broker) was considered for `action` ("assign", "unload", "split") and left alone.

    `source` is the broker of a bundle that was to be shed.
    """

    action: str
    subject: str
    reason: Reason
    source: str = ""


def stays(unload: Unload, code: Code, *, settings: tuple[str, ...] = (), cause: Reason | None = None) -> Refusal:
    """Return that a bundle stays although it was to be shed; because of `cause`, or else of why it was to be."""
    reason = Reason(code=code, subject=unload.bundle, settings=settings, cause=cause or unload.reason)
    return Refusal("unload", unload.bundle, reason, unload.source)
