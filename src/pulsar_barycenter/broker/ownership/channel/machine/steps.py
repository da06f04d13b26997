"""What the duties (what the state of a bundle requires of a broker) share: the step after a duty, the writing of an
ownership record, and information for and from requests.
"""

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.naming.bundle import Bundle


@dataclass(frozen=True, slots=True)
class PreparedNumber:
    """An epoch that this broker took when a transfer to it began. `version_id` is the version that the bundle's
    ownership record had then. The epoch may be used only if the next version of the record assigns the bundle to this
    broker.
    """

    version_id: int
    epoch: int

    def goes_on(self, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None) -> bool:
        """Return whether a change of the ownership record from `before` to `after` is the next step of the transfer for
        which the epoch was taken.
        """
        return (
            before is not None
            and after is not None
            and before.version_id == self.version_id
            and after.version_id == self.version_id + 1
            and after.state is ServiceUnitState.ASSIGNING
        )


class NextStep(enum.Enum):
    """What is done with a bundle after a duty: LOOK: check the bundle again at once. WAIT: wait for a change. RETRY:
    check it again after a while.
    """

    LOOK = "check again at once"
    WAIT = "wait for a change"
    RETRY = "check again after a while"


Action: TypeAlias = Callable[[Bundle, ServiceUnitStateData], Awaitable[NextStep]]
"""A function that does a duty of a bundle, which has the given ownership record.

If it fails, it raises LookupFailedError or MetadataError, and is called again later.
"""


@dataclass(slots=True)
class RequestNotes:
    """Values that one part of the state machine leaves for another, by bundle: why a bundle is acquired or released,
    and how many topics were closed.
    """

    reasons: dict[Bundle, str] = field(default_factory=dict)
    """Why a bundle is acquired or released, for the serving log."""
    topics_closed: dict[Bundle, int] = field(default_factory=dict)
    """The number of topics of a bundle that were closed when it was transferred or released."""


async def offer(
    records: OwnershipRecords,
    bundle: Bundle,
    before: ServiceUnitStateData | None,
    after: ServiceUnitStateData | None,
) -> NextStep:
    """Replace an ownership record: `before` is the present one, `after` the new one (None: delete it). Return the next
    step: RETRY if the write was refused although the record is still `before`, else LOOK (check the bundle again).

    Raises:
        ChannelUnavailableError: the record was not written, or this is not known.
    """
    accepted = await records.put(bundle, before, after)
    return NextStep.LOOK if accepted or records.get(bundle) is not before else NextStep.RETRY
