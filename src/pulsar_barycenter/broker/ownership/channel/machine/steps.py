"""What the duties have in common: how one ends, how a record is offered, and what a request leaves for them."""

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.naming.bundle import Bundle


@dataclass(frozen=True, slots=True)
class PreparedNumber:
    """A number taken ahead, when a transfer to this broker began: for the claim that follows the very next record."""

    version_id: int
    epoch: int

    def goes_on(self, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None) -> bool:
        """Tell whether a change of the record is that to its next step."""
        return (
            before is not None
            and after is not None
            and before.version_id == self.version_id
            and after.version_id == self.version_id + 1
            and after.state is ServiceUnitState.ASSIGNING
        )


class NextStep(enum.Enum):
    """What follows when a duty was attended to."""

    LOOK = "look again at once"
    WAIT = "wait for a change"
    RETRY = "look again after a while"


Action: TypeAlias = Callable[[Bundle, ServiceUnitStateData], Awaitable[NextStep]]
"""Does one duty about a bundle and its record.

Raises LookupFailedError or MetadataError if it could not be done; it is tried again then."""


@dataclass(slots=True)
class RequestNotes:
    """What requests leave for the duties that are done for them, and what these leave for the requests."""

    reasons: dict[Bundle, str] = field(default_factory=dict)
    """Why a bundle is acquired or released, for the serving log."""
    topics_closed: dict[Bundle, int] = field(default_factory=dict)
    """How many topics of a bundle were closed when it was handed over or given up."""


async def offer(
    records: OwnershipRecords,
    bundle: Bundle,
    before: ServiceUnitStateData | None,
    after: ServiceUnitStateData | None,
) -> NextStep:
    """Publish a record; if it was refused and nothing else came, that is tried again after a while.

    Raises:
        ChannelUnavailableError: it was not written, or that is not known.
    """
    accepted = await records.put(bundle, before, after)
    return NextStep.LOOK if accepted or records.get(bundle) is not before else NextStep.RETRY
