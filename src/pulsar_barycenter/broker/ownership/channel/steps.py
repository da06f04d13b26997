"""What one step of settling leaves for the next: what follows it, and a number that was taken ahead."""

import enum
from dataclasses import dataclass

from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData


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
