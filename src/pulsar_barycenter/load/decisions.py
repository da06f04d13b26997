"""The decisions: which broker owns a bundle, which bundles move, which are split; each with its reason.

Needs no numpy, because brokers that never lead handle placements, too.
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
"""No limit: more bundles than any round decides on."""


def bundles_of_round(config: "BrokerConfig") -> int:
    """Return the maximum number of bundles that one round unloads, which is also the maximum number that it splits."""
    return config.barycenter_max_bundles_per_round or NO_LIMIT


class Placement(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A decision: the broker `broker` (an id) is to own `bundle`. `broker` is None if policies and filters leave no
    broker, or if the strategy chooses none and the next lookup does so; the reason says which.

    `why` is a function that builds the reason; every call returns an equal reason. Building a reason takes longer than
    choosing a broker, and most reasons are never read.
    """

    bundle: str
    broker: str | None
    why: Callable[[], Reason]

    @property
    def reason(self) -> Reason:
        """The reason why this broker, or no broker, was chosen; built each time that it is read."""
        return self.why()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placement):
            return NotImplemented
        return (self.bundle, self.broker, self.reason) == (other.bundle, other.broker, other.reason)

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def because(reason: Reason, bundle: str, broker: str | None) -> "Placement":
        """Return the placement of `bundle` on `broker`, with a reason that the caller has already built."""
        return Placement(bundle, broker, lambda: reason)


class Unload(msgspec.Struct, frozen=True, gc=False):
    """A decision: `bundle` leaves the broker `source`, and `destination` is to own it next. `destination` None: the
    next lookup chooses the owner.
    """

    bundle: str
    source: str
    reason: Reason
    destination: str | None = None


class Split(msgspec.Struct, frozen=True, gc=False):
    """A decision: `bundle`, which `broker` owns, is split at the hash `boundary`. `boundary` None: the owner chooses
    the hash.
    """

    bundle: str
    broker: str
    reason: Reason
    boundary: int | None = None


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """An action that was considered and rejected: "assign", "unload" or "split" of `subject`, a bundle or a broker.

    `source` is the broker of a bundle that was to be shed; "" for any other refusal.
    """

    action: str
    subject: str
    reason: Reason
    source: str = ""


def stays(unload: Unload, code: Code, *, settings: tuple[str, ...] = (), cause: Reason | None = None) -> Refusal:
    """Return the refusal of an unload: the bundle stays on its broker. `code` names the rule that refused it,
    `settings` are the configuration keys that would change this. `cause` is the reason behind the refusal; None: the
    reason of `unload`.
    """
    reason = Reason(code=code, subject=unload.bundle, settings=settings, cause=cause or unload.reason)
    return Refusal("unload", unload.bundle, reason, unload.source)
