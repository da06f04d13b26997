"""A broker of `ownership_world`: what it has read, what it holds of each bundle, and its next duty."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pulsar_barycenter.load.service_units.duties import Duty, Held, Role, duty_of, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, next_version

CHILDREN: Final = {"p": ("p0", "p1")}

View = dict[str, ServiceUnitStateData]


class Published(NamedTuple):
    """A record in flight; None is a tombstone. `presumed_dead` is the broker that may serve the bundle and was
    considered dead."""

    bundle: str
    record: ServiceUnitStateData | None
    presumed_dead: str | None = None


class Term(NamedTuple):
    """What a broker holds of a bundle: `epoch` is the number of the term that it began."""

    held: Held
    epoch: int = 0


@dataclass
class Broker:
    name: str
    view: View = field(default_factory=dict)
    position: int = 0
    """How many of the records it read."""
    terms: dict[str, Term] = field(default_factory=dict)
    done: dict[str, ServiceUnitStateData] = field(default_factory=dict)
    """The record of each bundle upon which it published what its duty was."""
    prepared: dict[str, tuple[ServiceUnitStateData, int]] = field(default_factory=dict)
    """The record upon which a number was taken, and the number."""
    outbox: list[Published] = field(default_factory=list)
    is_deaf: bool = False

    def held(self, bundle: str) -> Held:
        term, record = self.terms.get(bundle), self.view.get(bundle)
        if term is None or term.held is Held.CLOSED:
            return Held.NOTHING if term is None else Held.CLOSED
        is_this = record is not None and role_of(record, self.name) is Role.OWNER and record.epoch == term.epoch
        if term.held is Held.ENDED:
            return Held.ENDED if is_this else Held.NOTHING
        return Held.SERVING if is_this else Held.OUTDATED

    def duty(self, bundle: str) -> Duty:
        """Return its next duty, `NOTHING` if it waits for a record that it published."""
        record = self.view.get(bundle)
        duty = duty_of(role_of(record, self.name), self.held(bundle))
        if duty is Duty.SPLIT:
            waits = self.unasked_children(bundle) == [] if self.missing_children(bundle) else self.has_done(bundle)
            return Duty.NOTHING if waits else duty
        if self.is_deaf and duty is Duty.LET_GO and self.serves(bundle):
            return Duty.NOTHING
        return Duty.NOTHING if duty in PUBLISHING and self.has_done(bundle) else duty

    def forget_number(self, bundle: str) -> None:
        """Keep the number that was taken for a transfer only from its first record to the very next one."""
        if bundle in self.prepared:
            first, record = self.prepared[bundle][0], self.view.get(bundle)
            if record != first and (
                role_of(record, self.name) is not Role.HEIR
                or record is None
                or record.version_id != next_version(first)
            ):
                del self.prepared[bundle]

    def has_done(self, bundle: str) -> bool:
        """Return whether it already published what the present record requires of it."""
        return self.done.get(bundle) == self.view.get(bundle)

    def missing_children(self, bundle: str) -> list[str]:
        return [child for child in CHILDREN.get(bundle, ()) if child not in self.view]

    def unasked_children(self, bundle: str) -> list[str]:
        """Return the children that have no record yet and that it did not claim after the parent's record."""
        return [child for child in self.missing_children(bundle) if self.done.get(child) != self.view[bundle]]

    def serves(self, bundle: str) -> bool:
        return bundle in self.terms and self.terms[bundle].held is Held.SERVING


PUBLISHING: Final = frozenset({Duty.CLAIM, Duty.CLAIM_AGAIN, Duty.PREPARE, Duty.HAND_OVER, Duty.GIVE_UP})
