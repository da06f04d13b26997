"""A few brokers, one order of records, and nothing else: which brokers serve what as ownership changes.

Every step is chosen from outside: a broker reads one more record, does one duty, or requests a change; a published
record gets its position in the order, perhaps twice; a broker dies, joins, or is considered dead; a leader repairs.
`events` and `repairs` make the published records, `conflicts` decides which are kept, `duties` decides what has to be
done.

In the system topic every record gets a position, and each reader compares it with what it has. In the metadata store
only those records get one that replace the present record, and a reader sees the present record.

Two brokers may serve a bundle at once only where no broker could prevent it: one was considered dead and was alive.
Such a bundle is `excused` until all brokers know. A tombstone is delayed for longer than a record is in flight or
unread by a broker, and gets its position at once.
"""

import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.conflicts import Conflict, conflict
from pulsar_barycenter.load.service_units.duties import Duty, Held
from pulsar_barycenter.load.service_units.repairs import concerns, look_over, override, successor_of_orphan
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    next_version,
    state_of,
)
from support.ownership_broker import CHILDREN, PUBLISHING, Broker, Published, Term, View

S = ServiceUnitState
NAMES: Final = ("a", "b", "c")
LEAVES: Final = {"p": ("p0", "p1"), "p0": ("p0",), "p1": ("p1",), "q": ("q",)}
"""The parts of the key space that a bundle covers."""
MOST_ROUNDS: Final = 60
MOST_STEPS: Final = 2000


class Fault(enum.Enum):
    """Faults that may be planted, to see that they are found."""

    EQUAL_VERSIONS = "a record replaces one of its version"
    OLD_NUMBER = "a number that was taken for one transfer is used for another"
    OPEN_HAND_OVER = "a bundle is handed over before its topics are closed"
    EARLY_BEGIN = "a broker serves what it is assigned before it owns it"
    DEAF = "a broker serves on what is no longer its own"
    IDLE_LEADER = "nobody mends what a lost broker had begun"
    ANY_SUCCESSOR = "what a living broker has to give goes to anybody"


class ViolationError(AssertionError):
    """An invariant does not hold."""


Step = Callable[[], None]


class World:
    """`fault` is planted; None for none."""

    def __init__(self, storage: StorageType, fault: Fault | None = None) -> None:
        self.storage, self.fault = storage, fault
        self.brokers = {name: Broker(name, is_deaf=fault is Fault.DEAF) for name in NAMES}
        self.absent: set[str] = set()
        """Brokers that live and are thought dead."""
        self.log: list[Published] = []
        self.states: list[View] = [{}]
        """What there is after each of the records, by the rule."""
        self.late: list[Published] = []
        self.boundaries = {"p", "q"}
        self.epochs = 0
        self.now = 0
        self.fences = dict.fromkeys(("p0", "p1", "q"), 0)
        self.last_epochs: dict[str, int] = {}
        self.excused: dict[str, int] = {}
        """Bundles that two may serve, with the number of the record that everybody has to read first."""
        self.accepted = self.refused = self.served = 0

    # what happens

    def steps(self, kind: str) -> list[Step]:
        """Return the possible next steps of one of `KINDS`."""
        brokers = list(self.brokers.values())
        sending = [broker for broker in brokers if broker.outbox]
        match kind:
            case "read":
                return [partial(self.read, each) for each in brokers if each.position < len(self.log)]
            case "act":
                duties = [(each, name) for each in brokers for name in LEAVES if each.duty(name) is not Duty.NOTHING]
                return [partial(self.act, each, name) for each, name in duties]
            case "deliver":
                return [partial(self._deliver_next, each) for each in sending]
            case "twice":
                return [partial(self.late.append, each.outbox[0]) for each in sending]
            case "late":
                return [partial(self._deliver_late, at) for at in range(len(self.late))]
            case "order":
                return list(self._orders())
            case "mend":
                return list(self._repairs())
            case "forget":
                return list(self._tombstones())
            case "end":
                serving = [(each, name) for each in brokers for name in each.terms if each.held(name) is Held.SERVING]
                return [partial(self._end, each, name) for each, name in serving]
        return list(self._people())

    def _deliver_next(self, broker: Broker) -> None:
        self.deliver(broker.outbox.pop(0))

    def _deliver_late(self, at: int) -> None:
        self.deliver(self.late.pop(at))

    def read(self, broker: Broker) -> None:
        bundle, record, _ = self.log[broker.position]
        broker.position += 1
        if self.storage is StorageType.METADATA_STORE:
            _put(broker.view, bundle, self.states[-1].get(bundle))
        elif self.conflict(broker.view.get(bundle), record) is None:
            _put(broker.view, bundle, record)
        if self.fault is not Fault.OLD_NUMBER:
            broker.forget_number(bundle)
        if self.storage is StorageType.SYSTEM_TOPIC and broker.view != self.states[broker.position]:
            raise ViolationError(f"{broker.name} does not see what everybody sees who read as much")

    def act(self, broker: Broker, bundle: str) -> None:
        """Do one duty, as far as one step reaches."""
        record, duty = broker.view.get(bundle), broker.duty(bundle)
        if duty is Duty.LET_GO:
            del broker.terms[bundle]
            return
        assert record is not None
        if duty in PUBLISHING:
            broker.done[bundle] = record
        match duty:
            case Duty.BEGIN:
                assert record.epoch is not None
                self._begin(broker, bundle, record.epoch)
            case Duty.PREPARE:
                broker.prepared[bundle] = record, self._next_epoch()
            case Duty.CLAIM:
                _, epoch = broker.prepared.pop(bundle, (None, 0))
                epoch = epoch or self._next_epoch()
                if self.fault is Fault.EARLY_BEGIN:
                    self._begin(broker, bundle, epoch)
                self.publish(broker, bundle, events.owned(record, self.now, epoch))
            case Duty.CLAIM_AGAIN:
                claim = events.claimed(record, broker.name, self.now, self._next_epoch())
                broker.terms.pop(bundle, None)
                self.publish(broker, bundle, claim)
            case Duty.HAND_OVER:
                if bundle in broker.terms and self.fault is not Fault.OPEN_HAND_OVER:
                    broker.terms[bundle] = Term(Held.CLOSED)
                self.publish(broker, bundle, events.handed_over(record, self.now))
            case Duty.GIVE_UP:
                broker.terms.pop(bundle, None)
                self.publish(broker, bundle, events.freed(record, self.now))
            case Duty.SPLIT:
                self._split(broker, bundle, record)

    def _begin(self, broker: Broker, bundle: str, epoch: int) -> None:
        """Serve, unless a later term fenced the ledgers."""
        if any(self.fences[leaf] > epoch for leaf in LEAVES[bundle]):
            broker.terms[bundle] = Term(Held.ENDED, epoch)
            return
        self.fences.update(dict.fromkeys(LEAVES[bundle], epoch))
        broker.terms[bundle] = Term(Held.SERVING, epoch)
        self.served += 1

    def _split(self, broker: Broker, bundle: str, record: ServiceUnitStateData) -> None:
        """Claim the children first; when their records are there, write the boundaries and end it."""
        if broker.missing_children(bundle):
            for child in broker.unasked_children(bundle):
                broker.done[child] = record
                self.publish(broker, child, events.claimed(None, broker.name, self.now, self._next_epoch()))
        else:
            broker.done[bundle] = record
            if bundle in self.boundaries:
                self.boundaries = (self.boundaries - {bundle}) | set(CHILDREN.get(bundle, {bundle}))
                broker.terms.pop(bundle, None)
            self.publish(broker, bundle, events.deleted(record, self.now))

    def publish(
        self, broker: Broker, bundle: str, record: ServiceUnitStateData | None, presumed_dead: str | None = None
    ) -> None:
        broker.outbox.append(Published(bundle, record, presumed_dead))

    def deliver(self, sent: Published) -> None:
        """Give a record its position in the order."""
        bundle, record, presumed_dead = sent
        before = self.states[-1].get(bundle)
        if self.conflict(before, record) is not None:
            self.refused += 1
            if self.storage is StorageType.SYSTEM_TOPIC:
                self.log.append(sent)
                self.states.append(self.states[-1])
            return
        self.accepted += 1
        self.log.append(sent)
        self.states.append(dict(self.states[-1]))
        _put(self.states[-1], bundle, record)
        if record is None:
            self.last_epochs.pop(bundle, None)
            return
        if presumed_dead in self.brokers:
            self.excused[bundle] = len(self.log)
        if record.state is S.OWNED and record.epoch is not None:
            if record.epoch <= self.last_epochs.get(bundle, 0):
                raise ViolationError(f"{bundle}: epoch {record.epoch} follows {self.last_epochs[bundle]}")
            self.last_epochs[bundle] = record.epoch

    def conflict(self, earlier: ServiceUnitStateData | None, later: ServiceUnitStateData | None) -> Conflict | None:
        found = conflict(earlier, later, self.storage)
        if earlier is None or later is None:
            return found
        if self.fault is Fault.EQUAL_VERSIONS and earlier.version_id == later.version_id:
            return conflict(earlier, msgspec.structs.replace(later, version_id=next_version(earlier)), self.storage)
        return found

    def _next_epoch(self) -> int:
        self.epochs += 1
        return self.epochs

    def live(self) -> list[str]:
        """The brokers that are known to be alive."""
        return [name for name in self.brokers if name not in self.absent]

    def _orders(self) -> Iterator[Step]:
        """Return the changes that a broker may request of a bundle, by what it has read."""
        for broker in self.brokers.values():
            for bundle in sorted(self.boundaries):
                for record in self._wanted(bundle, broker.view.get(bundle)):
                    yield partial(self.publish, broker, bundle, record)

    def _wanted(self, bundle: str, record: ServiceUnitStateData | None) -> Iterator[ServiceUnitStateData]:
        if record is None or record.state is S.FREE:
            for name in self.live():
                yield events.assigning(record, name, self.now)
        elif record.state is S.OWNED:
            yield events.releasing(record, None, self.now)
            for name in self.live():
                if name != record.dst_broker:
                    yield events.releasing(record, name, self.now)
            if bundle in CHILDREN:
                yield events.splitting(record, CHILDREN[bundle], self.now)

    def _repairs(self) -> Iterator[Step]:
        """Return what a leader may repair, by what it has read; it may time out a change at any moment."""
        live = self.live()
        for leader in self.brokers.values():
            found = look_over(leader.view.items(), live, self.now, in_flight_ms=-1, tombstone_ms=-1)
            for bundle, record in leader.view.items():
                gone = [name for name in sorted(found.lost_brokers) if concerns(record, name)]
                if gone and self.fault is not Fault.IDLE_LEADER:
                    for successor in self._successors(record, live, gone[0]):
                        yield partial(self._override, leader, bundle, record, successor)
            for bundle, record in found.orphans.items():
                for successor in self._successors(record, live, record.dst_broker):
                    yield partial(self._override, leader, bundle, record, successor)

    def _tombstones(self) -> Iterator[Step]:
        busy = {each.bundle for each in [*self.on_their_way(), *self.log[self._read_by_all() :]]}
        for leader in self.brokers.values():
            found = look_over(leader.view.items(), self.live(), self.now, in_flight_ms=0, tombstone_ms=-1)
            for bundle in found.outlived:
                if bundle not in busy:
                    yield partial(self.deliver, Published(bundle, None))

    def _read_by_all(self) -> int:
        return min(broker.position for broker in self.brokers.values())

    def on_their_way(self) -> Iterator[Published]:
        """Yield the records without a position."""
        yield from self.late
        for broker in self.brokers.values():
            yield from broker.outbox

    def _successors(self, record: ServiceUnitStateData, live: list[str], without: str | None) -> list[str | None]:
        clear = successor_of_orphan(record, live)
        if clear is not None and self.fault is not Fault.ANY_SUCCESSOR:
            return [clear]
        return [*(name for name in live if name != without), None]

    def _override(self, leader: Broker, bundle: str, record: ServiceUnitStateData, successor: str | None) -> None:
        serving = record.dst_broker if record.state is S.OWNED else record.source_broker
        presumed_dead = None if serving in self.live() else serving
        self.publish(leader, bundle, override(record, successor, self.now, self._next_epoch()), presumed_dead)

    def _end(self, broker: Broker, bundle: str) -> None:
        broker.terms[bundle] = Term(Held.ENDED, broker.terms[bundle].epoch)

    def _people(self) -> Iterator[Step]:
        for name in NAMES:
            if name not in self.brokers:
                for horizon in (0, len(self.log) // 2, len(self.log)):
                    yield partial(self.join, name, horizon)
            elif name in self.absent:
                yield partial(self.absent.discard, name)
            elif len(self.live()) > 1:
                yield partial(self.crash, name, is_heard=False)
                yield partial(self.crash, name, is_heard=True)
                yield partial(self.absent.add, name)

    def crash(self, name: str, *, is_heard: bool) -> None:
        """A broker dies; its last record arrives late, if at all."""
        gone = self.brokers.pop(name)
        if is_heard:
            self.late += gone.outbox

    def join(self, name: str, horizon: int) -> None:
        """A broker starts: it reads what compaction left of the first `horizon` records, and all after them."""
        broker = Broker(name, position=len(self.log), is_deaf=self.fault is Fault.DEAF)
        if self.storage is StorageType.METADATA_STORE:
            broker.view = dict(self.states[-1])
        else:
            kept = [Published(bundle, record) for bundle, record in self.states[horizon].items()]
            for bundle, record, _ in [*kept, *self.log[horizon:]]:
                if self.conflict(broker.view.get(bundle), record) is None:
                    _put(broker.view, bundle, record)
            if broker.view != self.states[-1]:
                raise ViolationError("who reads the compacted records does not see what everybody sees")
        self.brokers[name] = broker

    # what has to hold

    def believers(self, leaf: str) -> list[str]:
        """Return the brokers that serve a part of the key space."""
        return [
            broker.name
            for broker in self.brokers.values()
            if any(leaf in LEAVES[bundle] and bundle in self.boundaries and broker.serves(bundle) for bundle in LEAVES)
        ]

    def check(self) -> None:
        """Raise ViolationError if two brokers serve one bundle though both could have known."""
        for bundle, number in list(self.excused.items()):
            everybody = self.brokers.values()
            if all(each.position >= number and each.held(bundle) is not Held.OUTDATED for each in everybody):
                del self.excused[bundle]
        excused = {leaf for bundle in self.excused for leaf in LEAVES[bundle]}
        for leaf in self.fences:
            if len(serving := self.believers(leaf)) > 1 and leaf not in excused:
                raise ViolationError(f"{leaf} is served by {serving}")

    def settle(self) -> None:
        """Let all brokers read everything and do their duties, and a leader repair, until nothing is left to do.

        Raises:
            ViolationError: it does not end, or a broker serves what another owns, or no broker serves an owned bundle.
        """
        self.absent.clear()
        for _ in range(MOST_ROUNDS):
            if not self._round():
                break
        else:
            raise ViolationError("it does not come to rest")
        if any(broker.view != self.states[-1] for broker in self.brokers.values()):
            raise ViolationError("the views differ")
        if self.excused:
            raise ViolationError(f"not everybody knows about {self.excused}")
        for bundle in LEAVES:
            self._check_at_rest(bundle)

    def _round(self) -> bool:
        """Let each broker do all that it can; the leader repairs when there is nothing else. Return whether there
        was anything."""
        self.now += 1
        is_busy = False
        for kind in ("deliver", "late", "read", "act"):
            for _ in range(MOST_STEPS):
                if not (steps := self.steps(kind)):
                    break
                steps[0]()
                self.check()
                is_busy = True
            else:
                raise ViolationError(f"there is always something more to {kind}")
        if is_busy:
            return True
        # the leader loses patience; it leaves old records alone
        leader = min(self.brokers)
        for bundle, record in list(self.brokers[leader].view.items()):
            found = look_over([(bundle, record)], self.live(), self.now + 1, in_flight_ms=0, tombstone_ms=1 << 40)
            gone = sorted(found.lost_brokers)
            if self.fault is not Fault.IDLE_LEADER and (gone or found.orphans):
                successor = self._successors(record, self.live(), gone[0] if gone else record.dst_broker)[0]
                self._override(self.brokers[leader], bundle, record, successor)
                is_busy = True
        return is_busy

    def _check_at_rest(self, bundle: str) -> None:
        record = self.states[-1].get(bundle)
        state = state_of(record)
        if state.is_in_flight:
            raise ViolationError(f"{bundle} is stuck: {record}")
        for broker in self.brokers.values():
            held, is_owner = broker.held(bundle), record is not None and record.owner == broker.name
            if held is not (Held.SERVING if is_owner else Held.NOTHING):
                raise ViolationError(f"{broker.name} holds {held} of {bundle}: {record}")
        if state is S.OWNED and record is not None and record.owner not in self.brokers:
            raise ViolationError(f"{bundle} is stuck with one who is gone: {record}")

    def assign_all(self) -> None:
        """Assign every unowned bundle, and settle again: then all are served."""
        leader = self.brokers[min(self.brokers)]
        for bundle in sorted(self.boundaries):
            record = leader.view.get(bundle)
            if state_of(record) is not S.OWNED:
                self.publish(leader, bundle, events.assigning(record, max(self.brokers), self.now))
        self.settle()
        for leaf in self.fences:
            if len(self.believers(leaf)) != 1:
                raise ViolationError(f"{leaf} is served by {self.believers(leaf)}")


def _put(view: View, bundle: str, record: ServiceUnitStateData | None) -> None:
    if record is None:
        view.pop(bundle, None)
    else:
        view[bundle] = record


KINDS: Final = (
    *("read",) * 8,
    *("act",) * 6,
    *("deliver",) * 6,
    *("order",) * 4,
    *("mend",) * 3,
    *("forget",) * 2,
    "late",
    "twice",
    "end",
    "people",
)


def play(world: World, choices: list[int]) -> None:
    """Do one step per choice, then settle.

    Raises:
        ViolationError: an invariant did not hold on the way, or does not at the end.
    """
    for choice in choices:
        kind, which = KINDS[choice % len(KINDS)], choice // len(KINDS)
        if steps := world.steps(kind):
            world.now += 1
            steps[which % len(steps)]()
            world.check()
    world.settle()
    world.assign_all()
