"""The bundles that this broker holds, and the states of each.

A *term* is the time in which a broker holds a bundle under one epoch. Of two terms whose bundles overlap, the later has
the higher epoch. A `Holding` is the object for one term of a bundle on this broker: the proof of ownership (a lock, see
`locks`, or an ownership record, see `channel`), the term, and its state. TRANSITIONS has the next state for each state
and event; any other event is a bug of the caller.

| state    | proof    | look-ups here | clients  | receipts | leaves the state by                                     |
|----------|----------|---------------|----------|----------|---------------------------------------------------------|
| (absent) | none     | search        | refused  | none     | acquired, with an epoch -> PREPARED                     |
| PREPARED | held     | wait          | refused  | none     | ACTIVATE -> SERVING; END: loss, abandoned split         |
| SERVING  | held     | this broker   | accepted | sent     | UNLOAD -> LEAVING, for a release or a split; END: loss  |
| LEAVING  | held     | wait          | refused  | sent     | END: topics closed or timed out, or loss                |
| ENDED    | in doubt | wait          | refused  | withheld | topics closed, then released -> absent (`forget`)       |

A term never continues after its end: after a loss the bundle is acquired again in a new term, with a new epoch.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.ownership.term import PauseDetector, Term
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.bundle import Bundle


class HoldingState(enum.Enum):
    PREPARED = "prepared"
    SERVING = "serving"
    LEAVING = "leaving"
    ENDED = "ended"


class HoldingEvent(enum.Enum):
    ACTIVATE = "activate"
    UNLOAD = "unload"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[HoldingState, HoldingEvent], HoldingState]] = {
    (HoldingState.PREPARED, HoldingEvent.ACTIVATE): HoldingState.SERVING,
    (HoldingState.PREPARED, HoldingEvent.END): HoldingState.ENDED,
    (HoldingState.SERVING, HoldingEvent.UNLOAD): HoldingState.LEAVING,
    (HoldingState.SERVING, HoldingEvent.END): HoldingState.ENDED,
    (HoldingState.LEAVING, HoldingEvent.END): HoldingState.ENDED,
    # A release, a split, the close of the broker and a loss each end the term, independently of each other.
    (HoldingState.ENDED, HoldingEvent.END): HoldingState.ENDED,
}


class OwnershipProof(Protocol):
    """The lock or record that makes this broker the owner of a bundle, for one term."""

    @property
    def epoch(self) -> int: ...


W = TypeVar("W", bound=OwnershipProof)


@dataclass(slots=True, eq=False)
class Holding(Generic[W]):
    """This broker's hold on one bundle, from its acquisition to its release: the term, the proof of ownership (`won`,
    the lock or the record), and the state. The term has begun in the state SERVING, and has ended in the state ENDED.
    """

    term: Term
    won: W
    owner: Owner
    state: HoldingState = HoldingState.PREPARED
    splitting: bool = False
    keeps_clients: bool = False
    """Whether the bundle's topics are closed for a transfer while their clients stay connected and wait for the next
    owner's address.
    """

    @property
    def is_ended(self) -> bool:
        return self.state is HoldingState.ENDED

    def on(self, event: HoldingEvent) -> None:
        """Change to the next state in TRANSITIONS after an event.

        Raises:
            AssertionError: the event is not possible in this state.
        """
        after = TRANSITIONS.get((self.state, event))
        assert after is not None, f"{event.value} of bundle {self.term.bundle}, which is {self.state.value}"
        self.state = after
        self.term.active = after is HoldingState.SERVING
        self.term.revoked = after is HoldingState.ENDED


class Holdings(Generic[W]):
    """All `Holding` objects of this broker, at most one for each bundle.

    No method waits. A method that changes a state also changes the term, and writes to the serving log (the log lines
    at the beginning and at the end of terms). Then it calls `changed` with the bundle.
    """

    def __init__(
        self, *, pauses: PauseDetector, clock: Clock, serving_log: ServingLog, changed: Callable[[Bundle], None]
    ) -> None:
        self._pauses = pauses
        self._clock = clock
        self._serving_log = serving_log
        self._changed = changed
        self._by_bundle: dict[Bundle, Holding[W]] = {}

    def __contains__(self, bundle: Bundle) -> bool:
        return bundle in self._by_bundle

    def get(self, bundle: Bundle) -> Holding[W] | None:
        return self._by_bundle.get(bundle)

    def all(self) -> list[Holding[W]]:
        return list(self._by_bundle.values())

    def bundles(self) -> list[Bundle]:
        return list(self._by_bundle)

    def is_serving(self, holding: Holding[W]) -> bool:
        """Return whether this broker serves the bundle of `holding` now. False also if the process may have been
        paused, even if the term has not been ended yet.
        """
        return holding.state is HoldingState.SERVING and not self._pauses.has_paused()

    def serving(self, bundle: Bundle) -> Holding[W] | None:
        """Return the holding of a bundle if this broker serves it now, else None."""
        holding = self._by_bundle.get(bundle)
        return holding if holding is not None and self.is_serving(holding) else None

    def prepare(self, bundle: Bundle, won: W, owner: Owner) -> Holding[W]:
        """Register a bundle that was just acquired; return its holding, whose term has not begun. `won` is the proof of
        ownership: the lock or the record. `owner` is the answer to look-ups that names this broker.

        The new holding replaces one of an earlier term that is still registered although another broker has owned the
        bundle since.
        """
        holding = Holding(Term(bundle, won.epoch, self._clock.now_ms(), self._pauses), won, owner)
        self._by_bundle[bundle] = holding
        return holding

    def activate(self, holding: Holding[W], reason: str) -> None:
        """Begin the term: from now on look-ups return this broker, and topics may be opened."""
        holding.on(HoldingEvent.ACTIVATE)
        holding.term.acquired_at_ms = self._clock.now_ms()
        self._serving_log.started(holding.term, reason)
        self._changed(holding.term.bundle)

    def unload(self, holding: Holding[W]) -> None:
        """Accept no more clients for a bundle, because it is being unloaded. Receipts are still sent."""
        holding.on(HoldingEvent.UNLOAD)
        self._changed(holding.term.bundle)

    def end(self, holding: Holding[W], reason: str) -> None:
        """End the term now: from now on no client is accepted, and no receipt is sent. Idempotent."""
        was_begun = holding.state in (HoldingState.SERVING, HoldingState.LEAVING)
        holding.on(HoldingEvent.END)
        if was_begun:
            self._serving_log.ended(holding.term, reason)
        self._changed(holding.term.bundle)

    def forget(self, holding: Holding[W]) -> None:
        """Remove the holding of a term that has ended, unless a later holding of the bundle has replaced it. Before
        this call, the caller must have released the lock or record.
        """
        bundle = holding.term.bundle
        assert holding.state is HoldingState.ENDED, f"forget of bundle {bundle}, which is {holding.state.value}"
        if self._by_bundle.get(bundle) is holding:
            del self._by_bundle[bundle]
        self._changed(bundle)
