"""One ledger, fake bookies, a fake metadata store, and clients whose every step a seed interleaves.

Requests and answers are in flight until they are drawn. They may be delivered in any order, late, twice or never; a
client takes one that it does not get as UNKNOWN, although it may be carried out afterwards. Bookies stop and start
again with what they stored, and some send damaged bytes. Clients stop at any step. Several recover the ledger at a time
while its writer goes on.

The world itself knows what was reported, and raises `BrokenRuleError` at the step that breaks a rule of
docs/decisions/0101: S1, S3, S4, S5 and S7 at the step itself, all others by what the ledger is in the end.
"""

import random
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from pulsar_barycenter.bookkeeper.errors import WriterStoppedError
from pulsar_barycenter.bookkeeper.machines.actions import (
    Action,
    Confirmed,
    Ended,
    Failed,
    ReadMetadata,
    SendAdds,
    SendRead,
    Stopped,
    StoredLedger,
    SwapMetadata,
    Verdict,
)
from pulsar_barycenter.bookkeeper.machines.placement import replace_failed
from pulsar_barycenter.bookkeeper.machines.recovery import Recovery
from pulsar_barycenter.bookkeeper.machines.writer import Writer
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment, decode, encode
from pulsar_barycenter.bookkeeper.wire.digests import LAST_ENTRY, Body, DigestType, EntryCodec

LEDGER: Final = 7
CODEC: Final = EntryCodec(LEDGER, DigestType.CRC32C, b"")
SHAPES: Final = ((1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2), (3, 2, 1), (3, 3, 2), (3, 3, 3), (4, 3, 2), (5, 3, 2))
"""Ensemble size, write quorum, ack quorum."""
_END_STEPS: Final = 20_000


class BrokenRuleError(AssertionError):
    """A safety rule does not hold."""


def data_of(entry: int) -> bytes:
    return b"%d:" % entry + b"x" * (entry * 7 % 11)


@dataclass(slots=True)
class FakeBookie:
    """Stores entries of the one ledger; ordinary adds are refused once it is fenced."""

    name: str
    entries: dict[int, bytes] = field(default_factory=dict)
    is_fenced: bool = False
    is_up: bool = True
    is_damaged: bool = False
    """Whether bytes that it sends may be damaged."""

    def add(self, entry: int, body: bytes, *, is_recovery: bool) -> Verdict:
        if self.is_fenced and not is_recovery:
            return Verdict.FENCED
        if body[CODEC.overhead :] != data_of(entry):
            raise BrokenRuleError(f"S7: {self.name} gets entry {entry} with other data than was appended")
        self.entries[entry] = body
        return Verdict.DONE

    def read(self, entry: int, *, is_fencing: bool) -> tuple[Verdict, bytes]:
        self.is_fenced = self.is_fenced or is_fencing
        number = max(self.entries, default=-1) if entry == LAST_ENTRY else entry
        body = self.entries.get(number)
        return (Verdict.ABSENT, b"") if body is None else (Verdict.DONE, body)


@dataclass(slots=True)
class FakeStore:
    """The key of the ledger: every change is by its version, and allowed by the rules."""

    value: bytes
    version: int = 0

    @property
    def stored(self) -> StoredLedger:
        return StoredLedger(decode(LEDGER, self.value), self.version)


@dataclass(slots=True, eq=False)
class Client:
    """A writer or a recoverer; `results` are the ends of the ledger that it took for true."""

    name: str
    machine: Writer | Recovery
    is_alive: bool = True
    results: list[LedgerMetadata] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)


@dataclass(slots=True)
class InFlight:
    """What is under way: delivering it, and what its sender takes instead if that never happens."""

    deliver: Callable[[], None]
    give_up: Callable[[], None]


class World:
    """One seed; `play` runs it to its end and checks the rules."""

    def __init__(self, seed: int, *, shape: tuple[int, int, int] | None = None) -> None:
        self.rng = random.Random(seed)
        self._runs = random.Random(f"runs of {seed}")
        self._longest_run = self._runs.choice((1, 4))
        """How many entries are appended at once, at the most. With 1, a history is as drawn from `rng` alone."""
        ensemble, write, ack = shape or self.rng.choice(SHAPES)
        names = [f"b{number}" for number in range(ensemble + self.rng.randrange(3))]
        self.bookies = {name: FakeBookie(name) for name in names}
        for bookie in self.rng.sample(names, self.rng.randrange(2)):
            self.bookies[bookie].is_damaged = True
        members = tuple(self.rng.sample(names, ensemble))
        self.store = FakeStore(encode(LedgerMetadata(ensemble, write, ack, (Segment(0, members),))))
        self.in_flight: list[InFlight] = []
        self.reported = -1
        machine = Writer(LEDGER, self.store.stored, CODEC, self._replace, max_data_bytes=1000)
        self.writer = Client("writer", machine)
        self.recoverers: list[Client] = []
        self.happened: Counter[str] = Counter()
        """How often what befell this world, for a test that it all happens."""
        self._trouble = self.rng.choice((0.02, 0.1, 0.3))

    def play(self, steps: int = 160) -> None:
        for _ in range(steps):
            self._step()
        self._end()

    # --- what befalls

    def _step(self) -> None:
        draw = self.rng.random()
        if draw < 0.62 and self.in_flight:
            self._deliver()
        elif draw < 0.85:
            self._append()
        elif draw < 0.85 + self._trouble / 3:
            self._befall()

    def _deliver(self) -> None:
        index = self.rng.randrange(len(self.in_flight)) if self.rng.random() < 0.5 else 0
        if self.rng.random() >= self._trouble / 2:
            self.in_flight.pop(index).deliver()
            return
        match self.rng.randrange(3):
            case 0:
                self.happened["lost"] += 1
                self.in_flight.pop(index).give_up()
            case 1:
                self.happened["late"] += 1
                self.in_flight[index].give_up()
            case _:
                self.happened["doubled"] += 1
                self.in_flight[index].deliver()

    def _append(self) -> None:
        writer = self.writer.machine
        assert isinstance(writer, Writer)
        if self.writer.is_alive and writer.next_entry - writer.last_confirmed < 12:
            first, count = writer.next_entry, self._runs.randint(1, self._longest_run)
            try:
                self._act(self.writer, writer.extend([data_of(first + number) for number in range(count)]))
            except WriterStoppedError:
                self.happened["refused append"] += 1

    def _befall(self) -> None:
        events: list[Callable[[], None]] = [self._toggle] * 5
        events += [self._rewrite, self._rewrite, self._recover, self._recover, self._kill, self._close]
        self.rng.choice(events)()

    def _toggle(self) -> None:
        bookie = self.rng.choice(list(self.bookies.values()))
        bookie.is_up = not bookie.is_up
        self.happened["bookie stopped or started"] += 1

    def _kill(self) -> None:
        client = self.rng.choice([self.writer, *self.recoverers])
        client.is_alive = False
        self.happened[f"killed {'writer' if client is self.writer else 'recoverer'}"] += 1

    def _close(self) -> None:
        if self.writer.is_alive:
            assert isinstance(self.writer.machine, Writer)
            self._act(self.writer, self.writer.machine.close())
            self.happened["close"] += 1

    def _recover(self) -> None:
        if len(self.recoverers) < 4:
            self._begin_recovery()

    def _begin_recovery(self) -> None:
        machine = Recovery(LEDGER, self.store.stored, CODEC, self._replace, read_ahead=self.rng.choice((1, 3, 32)))
        client = Client(f"recoverer {len(self.recoverers)}", machine)
        self.recoverers.append(client)
        self.happened["recovery"] += 1
        if any(other.is_alive for other in self.recoverers[:-1]):
            self.happened["racing recoveries"] += 1
        self._act(client, machine.start())

    def _rewrite(self) -> None:
        """Auto recovery copies what a member of an earlier segment has to another bookie."""
        metadata = self.store.stored.metadata
        if len(metadata.segments) < 2:
            return
        number = self.rng.randrange(len(metadata.segments) - 1)
        segment, stop = metadata.segments[number], metadata.segments[number + 1].first
        others = [name for name in self.bookies if name not in segment.members]
        if not others:
            return
        old, new = self.rng.choice(segment.members), self.rng.choice(others)
        for entry in range(segment.first, stop):
            if old in metadata.write_set(entry) and entry in self.bookies[old].entries:
                self.bookies[new].entries[entry] = self.bookies[old].entries[entry]
        members = tuple(new if member == old else member for member in segment.members)
        segments = (*metadata.segments[:number], Segment(segment.first, members), *metadata.segments[number + 1 :])
        self.store.value = encode(replace(metadata, segments=segments))
        self.store.version += 1
        self.happened["rewritten segment"] += 1

    # --- clients

    def _replace(self, ensemble: tuple[str, ...], failed: AbstractSet[str]) -> tuple[str, ...]:
        names = [name for name, bookie in self.bookies.items() if bookie.is_up or self.rng.random() < 0.1]
        self.rng.shuffle(names)
        self.happened["ensemble change"] += 1
        return replace_failed(ensemble, failed, names, {})

    def _act(self, client: Client, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SendAdds():
                    self._send_adds(client, action)
                case SendRead():
                    self._send_read(client, action)
                case SwapMetadata():
                    self._send_swap(client, action)
                case ReadMetadata():
                    self._send_get(client)
                case Confirmed(last):
                    self._check_report(last)
                case Stopped(error) | Failed(error):
                    client.failures.append(error)
                    self.happened[f"{type(client.machine).__name__}: {type(error).__name__}"] += 1
                case Ended(stored):
                    client.results.append(stored.metadata)
                    self.happened[f"{type(client.machine).__name__} ended"] += 1

    def _fly(self, deliver: Callable[[], None], give_up: Callable[[], None]) -> None:
        self.in_flight.append(InFlight(deliver, give_up))

    def _tell(self, client: Client, told: Callable[[], list[Action]]) -> None:
        if client.is_alive:
            self._act(client, told())

    def _send_adds(self, client: Client, adds: SendAdds) -> None:
        """Send the entries one by one, or as one run that a bookie answers at once."""
        cuts = [adds.entries] if self._runs.random() < 0.5 else [[entry] for entry in adds.entries]
        bodies = dict(zip(adds.entries, adds.bodies, strict=True))
        for entries in cuts:
            self._send_run(client, adds.bookie, {entry: bodies[entry] for entry in entries}, adds.is_recovery)

    def _send_run(self, client: Client, name: str, run: dict[int, Body], is_recovery: bool) -> None:
        machine, entries = client.machine, list(run)

        def answered(verdict: Verdict) -> None:
            self._tell(client, lambda: machine.adds_answered(name, entries, verdict))

        def deliver() -> None:
            bookie = self.bookies[name]
            verdict = Verdict.UNKNOWN
            for entry, body in run.items() if bookie.is_up else ():
                verdict = bookie.add(entry, b"".join(body), is_recovery=is_recovery)
            self._fly(lambda: answered(verdict), lambda: answered(Verdict.UNKNOWN))

        self._fly(deliver, lambda: answered(Verdict.UNKNOWN))

    def _send_read(self, client: Client, read: SendRead) -> None:
        machine = client.machine
        assert isinstance(machine, Recovery)

        def answered(verdict: Verdict, body: bytes) -> None:
            self._tell(client, lambda: machine.read_answered(read.bookie, read.entry, verdict, body))

        def deliver() -> None:
            bookie = self.bookies[read.bookie]
            verdict, body = (
                bookie.read(read.entry, is_fencing=read.is_fencing) if bookie.is_up else (Verdict.UNKNOWN, b"")
            )
            if bookie.is_damaged and body:
                body = body[:-1] + bytes([body[-1] ^ 1])
                self.happened["damaged bytes"] += 1
            self._fly(lambda: answered(verdict, body), lambda: answered(Verdict.UNKNOWN, b""))

        self._fly(deliver, lambda: answered(Verdict.UNKNOWN, b""))

    def _send_swap(self, client: Client, swap: SwapMetadata) -> None:
        machine = client.machine
        told: list[int] = []  # a driver reports each request of the store once, though it may take effect afterwards

        def tell(answer: Callable[[], list[Action]]) -> None:
            if not told:
                told.append(1)
                self._tell(client, answer)

        def failed() -> None:
            tell(machine.swap_failed)

        def deliver() -> None:
            if self.store.version != swap.version:
                self.happened["lost compare-and-set"] += 1
                self._fly(failed, failed)
                return
            self._check_change(swap.metadata)
            self.store.value = encode(swap.metadata)
            self.store.version += 1
            version = self.store.version
            self._fly(lambda: tell(lambda: machine.swapped(version)), failed)

        self._fly(deliver, failed)

    def _send_get(self, client: Client) -> None:
        machine = client.machine
        told: list[int] = []

        def deliver() -> None:
            stored = self.store.stored

            def answer() -> None:
                if not told:
                    told.append(1)
                    self._tell(client, lambda: machine.metadata_read(stored))

            self._fly(answer, answer)

        self._fly(deliver, deliver)

    # --- rules

    def _check_report(self, last: int) -> None:
        if self.reported >= last:
            raise BrokenRuleError(f"S1: entry {last} is reported again")
        metadata = self.store.stored.metadata
        for entry in range(self.reported + 1, last + 1):
            expected = data_of(entry)
            holders = [
                name
                for name in set(metadata.write_set(entry))
                if self.bookies[name].entries.get(entry, b"")[CODEC.overhead :] == expected
            ]
            if len(holders) < metadata.ack_quorum:
                raise BrokenRuleError(f"S1: entry {entry} is reported, and of its segment only {holders} have it")
        self.reported = last
        if metadata.state is LedgerState.CLOSED and metadata.last_entry < last:
            raise BrokenRuleError(f"S3: entry {last} is reported of a ledger that ends at {metadata.last_entry}")

    def _check_change(self, new: LedgerMetadata) -> None:
        old = self.store.stored.metadata
        if old.state is LedgerState.CLOSED or new.state.value < old.state.value:
            raise BrokenRuleError(f"S5: the ledger goes from {old.state} to {new.state}")
        if new.state is LedgerState.CLOSED and new.last_entry < self.reported:
            raise BrokenRuleError(f"S3: the ledger is closed at {new.last_entry}, reported is {self.reported}")
        if new.segments[: len(old.segments) - 1] != old.segments[:-1]:
            raise BrokenRuleError(f"S5: earlier segments change from {old.segments} to {new.segments}")
        for segment in new.segments:
            if segment not in old.segments and segment.first <= self.reported and new.state is LedgerState.OPEN:
                raise BrokenRuleError(f"S4: a segment begins at {segment.first}, reported is {self.reported}")

    def _end(self) -> None:
        """Let all bookies run and nothing be lost: a recovery must come to an end, and all must agree with it."""
        for bookie in self.bookies.values():
            bookie.is_up = True
            bookie.is_damaged = False
        self._trouble = 0
        for _ in range(6):
            self._drain()
            if self.store.stored.metadata.state is LedgerState.CLOSED:
                break
            self._begin_recovery()
        metadata = self.store.stored.metadata
        if metadata.state is not LedgerState.CLOSED:
            failures = [str(client.failures[-1]) for client in self.recoverers if client.failures]
            raise BrokenRuleError(f"the ledger cannot be recovered: {failures}")
        self._check_ledger(metadata)
        for client in [self.writer, *self.recoverers]:
            for result in client.results:
                if (result.last_entry, result.length) != (metadata.last_entry, metadata.length):
                    raise BrokenRuleError(f"S3: {client.name} takes {result} for the end, stored is {metadata}")

    def _drain(self) -> None:
        for _ in range(_END_STEPS):
            if not self.in_flight:
                return
            self.in_flight.pop(self.rng.randrange(len(self.in_flight))).deliver()
        raise BrokenRuleError("the clients do not come to an end")

    def _check_ledger(self, metadata: LedgerMetadata) -> None:
        if metadata.last_entry < self.reported:
            raise BrokenRuleError(f"S3: the ledger ends at {metadata.last_entry}, reported is {self.reported}")
        for entry in range(metadata.last_entry + 1):
            found = [self.bookies[name].entries.get(entry) for name in set(metadata.write_set(entry))]
            having = [body for body in found if body is not None]
            if len(having) < metadata.ack_quorum:
                raise BrokenRuleError(f"S6: entry {entry} of the closed ledger is on {len(having)} bookies")
        length = sum(len(data_of(entry)) for entry in range(metadata.last_entry + 1))
        if metadata.length != length:
            raise BrokenRuleError(f"S3: the ledger has length {metadata.length}, its data {length}")
