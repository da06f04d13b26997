"""Access modes of producers compared with an obvious model, and their admission with cancellations, losses and a bad
store."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pulsar_barycenter.broker.clients.producer import AccessMode, Producer, ProducerOptions
from pulsar_barycenter.broker.errors import ServiceError, TopicFencedError
from pulsar_barycenter.broker.topics.producer_access import (
    HIGHEST_BROUGHT,
    Action,
    Attach,
    Claim,
    Fence,
    ProducerAccess,
    Refuse,
    Situation,
)
from pulsar_barycenter.broker.topics.producer_admission import ProducerAdmission
from pulsar_barycenter.ledger.errors import LedgerUnavailableError
from pulsar_barycenter.naming.topic import TopicName
from support.recording_link import RecordingLink
from support.short_forms import examples
from support.two_brokers import turns

TOPIC = TopicName.parse("persistent://public/default/t")
MODES = st.sampled_from(AccessMode)
EXCLUSIVES = st.sampled_from([mode for mode in AccessMode if mode is not AccessMode.SHARED])
ANY = st.integers(0, 50)


@dataclass(eq=False)
class Someone:
    name: str
    access_mode: AccessMode
    brought: int | None = None
    had: int | None = None
    """The epoch under which it was attached exclusively."""


# ---- the state machine ----


class AccessMachine(RuleBasedStateMachine):
    """The model: a list of attached producers, one that has the claim, and a list of those in the line."""

    def __init__(self) -> None:
        super().__init__()
        self.access: ProducerAccess[Someone] = ProducerAccess(TOPIC)
        self.attached: list[Someone] = []
        self.claimant: Someone | None = None
        self.line: list[Someone] = []
        self.gone: list[Someone] = []
        self.stored: int | None = None
        """The epoch in the store: written before its producer is admitted, or by an attempt that failed."""
        self.known: int | None = None
        """The epoch of the topic: the last one that was admitted, or the stored one since the topic was loaded."""
        self.admitted: list[int] = []
        self.number = 0

    def someone(self, mode: AccessMode, brought: int | None) -> Someone:
        self.number += 1
        return Someone(f"p{self.number}", mode, brought)

    def apply(self, actions: list[Action[Someone]]) -> None:
        """Apply a decision to the model; each producer must be where the decision supposes it."""
        for action in actions:
            producer = action.producer
            assert producer not in self.gone, f"{producer.name} was gone, and is given {action}"
            match action:
                case Attach():
                    assert producer.access_mode is AccessMode.SHARED
                    self.attached.append(producer)
                case Claim():
                    assert not self.attached, "somebody is attached"
                    if self.claimant is not None:
                        assert producer.access_mode is AccessMode.EXCLUSIVE_WITH_FENCING, "another has the claim"
                        self.gone.append(self.claimant)
                    if producer in self.line:
                        assert self.line.pop(0) is producer, "another came before it"
                    self.claimant = producer
                case Refuse():
                    self.line = [each for each in self.line if each is not producer]
                    self.gone.append(producer)
                case Fence():
                    self.attached.remove(producer)
                    self.gone.append(producer)

    def epoch_of(self, brings: str, which: int) -> int | None:
        """Return the epoch that a producer presents: none, a former one, or one that never existed."""
        if brings == "never" or (brings == "had" and not self.admitted):
            return None
        return self.admitted[which % len(self.admitted)] if brings == "had" else which**9 % HIGHEST_BROUGHT

    @rule(mode=MODES, brings=st.sampled_from(["never", "had", "had", "made up"]), which=ANY)
    def arrive(self, mode: AccessMode, brings: str, which: int) -> None:
        brought = self.epoch_of(brings, which)
        newcomer = self.someone(mode, brought)
        before = [*self.attached, *self.line, *([self.claimant] if self.claimant else [])]
        actions = self.access.arrive(newcomer, brought)
        fences = any(isinstance(action, Claim) and action.producer is newcomer for action in actions)
        if fences and before:
            assert mode is AccessMode.EXCLUSIVE_WITH_FENCING
        self.apply(actions)
        if not actions:
            assert mode is AccessMode.WAIT_FOR_EXCLUSIVE
            assert before
            self.line.append(newcomer)
        if fences:
            assert not self.line
        current = self.admitted[-1] if self.admitted else -1
        if brought is not None and mode is not AccessMode.SHARED and brought < current:
            assert newcomer in self.gone, "it was displaced"
            assert all(each not in self.gone for each in before)

    @rule(which=ANY, mode=MODES, brings=st.booleans())
    def succeed(self, which: int, mode: AccessMode, brings: bool) -> None:
        if not self.attached:
            return
        former = self.attached[which % len(self.attached)]
        brought = former.had if brings else None
        newcomer = self.someone(mode, brought)
        was_exclusive = former.access_mode is not AccessMode.SHARED
        self.attached.remove(former)
        self.gone.append(former)
        actions = self.access.succeed(former, newcomer, brought)
        keeps = was_exclusive and mode is not AccessMode.SHARED
        if keeps:
            assert actions == [Claim(newcomer, brought)], "it lost its place"
        self.apply(actions)
        if all(action.producer is not newcomer for action in actions):
            self.line.append(newcomer)

    @precondition(lambda self: self.claimant is not None)
    @rule(is_written=st.booleans(), is_told=st.booleans())
    def store(self, is_written: bool, is_told: bool) -> None:
        """The claimant takes an epoch; the store writes it or not, and answers or not."""
        claimant = self.claimant
        assert claimant is not None
        epoch = self.access.take_epoch(claimant)
        assert epoch is not None
        if self.stored is not None:
            assert epoch > self.stored or (epoch == self.stored == claimant.brought == self.known)
        if is_written:
            self.stored = epoch
        if is_written and is_told:
            assert self.access.stored(claimant)
            claimant.had = epoch
            self.admitted.append(epoch)
            self.known = epoch
            self.attached.append(claimant)
            self.claimant = None
        else:
            self.gone.append(claimant)
            self.claimant = None
            self.apply(self.access.leave(claimant))

    @rule(which=ANY)
    def leave(self, which: int) -> None:
        everybody = [*self.attached, *self.line, *([self.claimant] if self.claimant else [])]
        if everybody:
            self._gone(everybody[which % len(everybody)])

    @precondition(lambda self: self.gone)
    @rule(which=ANY)
    def leave_again(self, which: int) -> None:
        """A producer that has left changes nothing, and takes no epoch."""
        gone = self.gone[which % len(self.gone)]
        assert self.access.leave(gone) == []
        assert self.access.take_epoch(gone) is None
        assert not self.access.stored(gone)

    def _gone(self, producer: Someone) -> None:
        self.attached = [each for each in self.attached if each is not producer]
        self.line = [each for each in self.line if each is not producer]
        self.claimant = None if self.claimant is producer else self.claimant
        self.gone.append(producer)
        self.apply(self.access.leave(producer))

    @rule()
    def unload(self) -> None:
        """The topic closes and is loaded again: only the content of the store remains."""
        self.apply(self.access.close())
        self.gone += self.attached
        self.gone += [self.claimant] if self.claimant else []
        self.attached, self.line, self.claimant = [], [], None
        assert self.access.situation is Situation.FREE
        self.access = ProducerAccess(TOPIC, epoch=self.stored)
        self.known = self.stored

    @invariant()
    def agrees(self) -> None:
        assert list(self.access.waiting) == self.line
        exclusive = [each for each in self.attached if each.access_mode is not AccessMode.SHARED]
        assert self.access.holder is (exclusive[0] if exclusive else None)
        assert not exclusive or len(self.attached) == 1, "an exclusive producer is not alone"
        if not self.attached and self.claimant is None:
            assert not self.line, "nobody has the topic, and somebody waits"

    @invariant()
    def epochs_rise(self) -> None:
        assert all(before <= after for before, after in pairwise(self.admitted))


AccessMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestAccessModes = AccessMachine.TestCase


# ---- the admission ----


@dataclass
class StoringTopic:
    """Stores an epoch on request; `refuses` makes it fail."""

    name: TopicName = TOPIC
    is_open: bool = True
    attached: dict[Producer, None] = field(default_factory=dict)
    storing: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)
    stored: int | None = None
    admission: ProducerAdmission = field(init=False)

    def __post_init__(self) -> None:
        self.admission = ProducerAdmission(self, epoch=None, attached=())

    def check_open(self) -> None:
        if not self.is_open:
            raise TopicFencedError(self.name, "it closes")

    async def store_producer_epoch(self, epoch: int) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.storing.append((epoch, answer))
        await answer
        assert self.stored is None or self.stored < epoch, "nobody brings one here"
        self.stored = epoch

    def close_producer(self, producer: Producer) -> None:
        self.forget(producer)

    def forget(self, producer: Producer) -> None:
        producer.closed = True
        self.attached.pop(producer, None)
        self.admission.left(producer)


@dataclass(eq=False)
class Client:
    """One connection: its producers attach in tasks, and all end with it."""

    tasks: dict[asyncio.Task[None], Producer] = field(default_factory=dict)


class AdmissionWorld:
    def __init__(self) -> None:
        self.topic = StoringTopic()
        self.clients = [Client() for _ in range(3)]
        self.live: dict[Producer, str] = {}
        """Those not withdrawn: "asks", "waits", "attached"."""
        self.order: list[Producer] = []
        """Those that wait, in the order in which they were told to."""
        self.number = 0

    async def do_arrive(self, which: int, mode: AccessMode) -> None:
        self.number += 1
        producer = Producer(
            RecordingLink(),
            self.number,
            None,
            ProducerOptions(f"p{self.number}", access_mode=mode),
            0,  # type: ignore[arg-type]
        )
        self.live[producer] = "asks"
        task = asyncio.create_task(self.attach(producer))
        self.clients[which % 3].tasks[task] = producer

    async def attach(self, producer: Producer) -> None:
        def queued() -> None:
            self.live[producer] = "waits"
            self.order.append(producer)

        try:
            await self.topic.admission.admit(producer, None, queued, None)
        except (ServiceError, LedgerUnavailableError):
            self.live.pop(producer, None)
            return
        assert producer in self.live, "it was withdrawn, and got the topic"
        if producer in self.order:
            earlier = self.order[: self.order.index(producer)]
            assert not [each for each in earlier if self.live.get(each) == "waits"], "others came before it"
        self.live[producer] = "attached"
        self.topic.attached[producer] = None

    async def do_withdraw(self, which: int, mode: AccessMode) -> None:
        """One request is cancelled, or its producer detached."""
        tasks = [(client, task) for client in self.clients for task in client.tasks]
        if tasks:
            client, task = tasks[which % len(tasks)]
            self.end(client, task)

    async def do_lose(self, which: int, mode: AccessMode) -> None:
        """A connection is lost: requests in flight are cancelled first, then producers are detached, all in one
        step."""
        client = self.clients[which % 3]
        for task in sorted(client.tasks, key=lambda each: each.done()):
            self.end(client, task)

    def end(self, client: Client, task: asyncio.Task[None]) -> None:
        producer = client.tasks.pop(task)
        self.live.pop(producer, None)
        task.cancel()
        if producer in self.topic.attached:
            self.topic.forget(producer)

    async def do_store(self, which: int, mode: AccessMode) -> None:
        if self.topic.storing:
            _, answer = self.topic.storing.pop(0)
            if not answer.done():
                answer.set_result(None)

    async def do_refuse(self, which: int, mode: AccessMode) -> None:
        if self.topic.storing:
            _, answer = self.topic.storing.pop(0)
            if not answer.done():
                answer.set_exception(LedgerUnavailableError("no"))

    async def do_turn(self, which: int, mode: AccessMode) -> None:
        await turns(1 + which % 3)

    async def settle(self) -> None:
        """The store answers all; only waiting producers have a request in flight."""
        for _ in range(200):
            await turns(3)
            if not self.topic.storing:
                return
            await self.do_store(0, AccessMode.SHARED)
        raise AssertionError("it does not come to rest")

    def check(self) -> None:
        for producer in list(self.live):
            if producer.closed:  # it was fenced
                del self.live[producer]
        attached = [each for each, state in self.live.items() if state == "attached"]
        waiting = [each for each, state in self.live.items() if state == "waits"]
        assert attached == list(self.topic.attached)
        assert len(attached) <= 1 or all(each.access_mode is AccessMode.SHARED for each in attached)
        assert self.topic.admission.waiting == len(waiting), "statistics do not agree"
        assert attached or not waiting, "nobody has the topic, and somebody waits"
        assert "asks" not in self.live.values()

    async def close(self) -> None:
        """The topic closes: no producer waits for ever."""
        self.topic.is_open = False
        self.topic.admission.close()
        for producer in list(self.topic.attached):
            self.topic.forget(producer)
        await self.settle()
        assert all(task.done() for client in self.clients for task in client.tasks)
        assert self.topic.admission.waiting == 0


STEPS = ["arrive"] * 5 + ["withdraw"] * 2 + ["lose"] * 2 + ["store", "refuse"] + ["turn"] * 3
scripts = st.lists(st.tuples(st.sampled_from(STEPS), ANY, EXCLUSIVES | MODES), max_size=40)


async def play(script: list[tuple[str, int, AccessMode]]) -> None:
    world = AdmissionWorld()
    for at, (step, which, mode) in enumerate(script):
        do: Callable[..., object] = getattr(world, f"do_{step}")
        await do(which, mode)  # type: ignore[misc]
        if at % 10 == 9:
            await world.settle()
            world.check()
    await world.settle()
    world.check()
    await world.close()


@settings(max_examples=examples(200), deadline=None)
@given(script=scripts)
def test_a_turn_is_never_lost(script: list[tuple[str, int, AccessMode]]) -> None:
    """Whatever is cancelled, lost or not stored, and when: no producer waits for a topic that no other has."""
    asyncio.run(play(script))
