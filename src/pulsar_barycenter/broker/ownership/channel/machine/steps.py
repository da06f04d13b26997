"""What the duties share: the step after a duty, the publication of a record, and notes to and from requests."""

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.naming.bundle import Bundle


@dataclass(frozen=True, slots=True)
class PreparedNumber:
    """A number that was taken when a transfer to this broker began. It is valid only for the claim of the bundle in the
    next version of the record.
    """

    version_id: int
    epoch: int

    def goes_on(self, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None) -> bool:
        """Return whether a change of the record is the next step of the transfer for which the number was taken."""
        return (
            before is not None
            and after is not None
            and before.version_id == self.version_id
            and after.version_id == self.version_id + 1
            and after.state is ServiceUnitState.ASSIGNING
        )


class NextStep(enum.Enum):
    """The next step after a duty."""

    LOOK = "check again at once"
    WAIT = "wait for a change"
    RETRY = "check again after a while"


Action: TypeAlias = Callable[[Bundle, ServiceUnitStateData], Awaitable[NextStep]]
"""Does a duty of a bundle with its record.

Raises LookupFailedError or MetadataError if it failed; then it is tried again."""


@dataclass(slots=True)
class RequestNotes:
    """Information about bundles that requests and duties share."""

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
    """Publish a record and return the next step: LOOK, or RETRY if the record was refused although it has not changed.

    Raises:
        ChannelUnavailableError: the record was not written, or this is not known.
    """
    accepted = await records.put(bundle, before, after)
    return NextStep.LOOK if accepted or records.get(bundle) is not before else NextStep.RETRY
