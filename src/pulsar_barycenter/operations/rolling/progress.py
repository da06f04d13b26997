"""The progress of a roll: entries of its journal, the state that they add up to, and the next action.

The journal has what was done, and before each restart what is about to be done. The state is a fold of the entries, and
the next action follows from the state alone, so a killed roll goes on where it was. Every action may be repeated: moves
are planned anew from the present owners, and whether a broker has restarted shows in its identity.

All functions are pure.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.own_balancing import Remembered


class RollEvent(enum.StrEnum):
    BEGUN = "begun"
    """The order and the settings from before are in this entry. Nothing in the cluster has been changed yet."""
    PAUSED = "paused"
    """Shedding and splitting are off on all brokers."""
    REORDERED = "reordered"
    """Another broker is the leader now; the remaining steps have the order in this entry."""
    STARTED = "started"
    """A broker of the second pool is in service."""
    EMPTIED = "emptied"
    RESTARTING = "restarting"
    """The roll is about to request the restart of a broker; `identity` is that of the process before the restart."""
    RESTARTED = "restarted"
    """The restart was requested: the hook's command has ended without an error, or the operator was asked to restart
    the broker.
    """
    BACK = "back"
    """The broker is listed, healthy and resolvable after its restart; with a second pool: the old broker is not listed
    any more.
    """
    SETTLED = "settled"
    """The reports of the step's brokers and receivers have arrived; `detail` says how that is known."""
    ROLLED_BACK = "rolling back"
    """The roll goes backwards from here on, in the order of this entry."""
    REFILLED = "refilled"
    SHOWN = "canaries shown"
    """The canary brokers have restarted and have their bundles; the roll waits for the operator's next command."""
    RESTORED = "restored"
    """The settings of shedding and splitting have their values from before the roll."""
    FINISHED = "finished"
    ABORTED = "aborted"
    """An operator ended the roll; the settings are restored. The brokers are neither restarted nor emptied any more,
    and bundles stay where they are.
    """
    STOPPED = "stopped"
    """The command ended before the roll did; the same command, given again, continues the roll."""


class RollOrder(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The order of a roll: which brokers restart, and in which batches.

    The `batches` restart one after the other; the brokers of a batch restart together. `ready` brokers need no restart
    and receive bundles first. If there is a second pool, `pool` are its brokers, which start in this order, and the
    brokers of the batches end instead of restarting. With `refills` the brokers that restart last get bundles again at
    the end of the roll. `canary` brokers restart first, and then the roll stops once, so that a person can look at
    them. `addresses` are the web addresses of brokers, for requests when the given broker does not answer.
    """

    cluster: str
    batches: tuple[tuple[str, ...], ...]
    ready: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    refills: bool = True
    canary: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(broker for batch in self.batches for broker in batch)


NO_ORDER: Final = RollOrder(cluster="", batches=())


class RollEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A line of the journal of a roll: an event. `at` is epoch ms, `by` the user who ran the command; which other
    fields are set depends on the event.

    `reported_at` is the time in the newest report of a broker before its restart, epoch ms by the broker's clock.
    """

    at: int
    by: str
    event: RollEvent
    brokers: tuple[str, ...] = ()
    identity: str = ""
    reported_at: int = 0
    detail: str = ""
    order: RollOrder = NO_ORDER
    before: tuple[Remembered, ...] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    pass


@dataclass(frozen=True, slots=True)
class Start:
    """An action of a roll: start a broker of the second pool, and wait until it is in service."""

    broker: str


@dataclass(frozen=True, slots=True)
class Empty:
    """An action of a roll: move all bundles away from the brokers `brokers`, before they restart."""

    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """An action of a roll: request the restart of a broker, or with a second pool its end, unless the restart has
    happened already. `identity` is that of the broker's process before an earlier request of this roll, blank if there
    was none. If the broker has another identity now, the restart has happened.
    """

    broker: str
    identity: str


@dataclass(frozen=True, slots=True)
class AwaitBack:
    """An action of a roll: wait until the broker is back in service; `identity` is that of its process before the
    restart.
    """

    broker: str
    identity: str


@dataclass(frozen=True, slots=True)
class AwaitReports:
    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refill:
    """An action of a roll: move bundles to the brokers of the last batch, which are empty since they restarted."""

    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Show:
    """An action of a roll: stop once, so that a person can look at the canary brokers `brokers`, which have restarted
    and have bundles again.
    """

    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    pass


@dataclass(frozen=True, slots=True)
class Finish:
    pass


@dataclass(frozen=True, slots=True)
class Nothing:
    """No action is left: the roll has ended."""


Action: TypeAlias = (
    Pause | Start | Empty | Restart | AwaitBack | AwaitReports | Refill | Show | Restore | Finish | Nothing
)


class RollState(enum.StrEnum):
    NOT_BEGUN = "not begun"
    UNDER_WAY = "under way"
    FINISHED = "finished"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a roll. `settled` are the brokers whose steps are complete. For the brokers of the present step
    whose restart was requested, `restarting` has the identity before the restart, and `reported_at` the time of the
    last report before it (epoch ms).
    """

    state: RollState = RollState.NOT_BEGUN
    order: RollOrder = NO_ORDER
    before: tuple[Remembered, ...] = ()
    is_paused: bool = False
    is_rollback: bool = False
    settled: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    is_emptied: bool = False
    restarting: tuple[tuple[str, str], ...] = ()
    reported_at: tuple[tuple[str, int], ...] = ()
    restarted: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    is_refilled: bool = False
    is_shown: bool = False
    is_restored: bool = False

    @property
    def batch(self) -> tuple[str, ...]:
        """The brokers of the present step of the roll; no brokers if all steps are complete."""
        return next((batch for batch in self.order.batches if not set(batch) <= set(self.settled)), ())

    @property
    def step(self) -> int:
        """The number of steps of the roll that are complete."""
        return sum(set(batch) <= set(self.settled) for batch in self.order.batches)

    @property
    def canaries(self) -> tuple[str, ...]:
        """The canary brokers that have restarted, if the roll is to stop now so that a person can look at them; no
        brokers if it is not to stop now.
        """
        done = tuple(broker for broker in self.order.canary if broker in self.settled)
        is_over = self.batch and not set(self.batch) & set(self.order.canary)
        return done if is_over and not self.is_shown else ()

    @property
    def ready(self) -> tuple[str, ...]:
        """The brokers that receive bundles first, because they do not restart any more in this roll."""
        pool = self.started if self.order.pool else self.settled
        return tuple(dict.fromkeys((*self.order.ready, *pool)))

    @property
    def waiting(self) -> tuple[str, ...]:
        """The brokers that restart in later steps; until their own step they may receive bundles. Empty with a second
        pool.
        """
        if self.order.pool:
            return ()
        return tuple(name for name in self.order.brokers if name not in (*self.batch, *self.settled))


def progress_of(entries: Iterable[RollEntry]) -> Progress:
    """Return the state of a roll after all entries of its journal."""
    progress = Progress()
    for entry in entries:
        progress = after(progress, entry)
    return progress


def after(now: Progress, entry: RollEntry) -> Progress:
    """Return the state of a roll after one more entry of its journal; `now` is the state before."""
    changes: dict[RollEvent, dict[str, object]] = {
        RollEvent.BEGUN: {"state": RollState.UNDER_WAY, "order": entry.order, "before": entry.before},
        RollEvent.PAUSED: {"is_paused": True},
        RollEvent.REORDERED: {"order": entry.order, **_NEW_STEP},
        RollEvent.STARTED: {"started": (*now.started, *entry.brokers)},
        RollEvent.EMPTIED: {"is_emptied": True},
        RollEvent.RESTARTING: {
            "restarting": (*now.restarting, *((name, entry.identity) for name in entry.brokers)),
            "reported_at": (*now.reported_at, *((name, entry.reported_at) for name in entry.brokers)),
        },
        RollEvent.RESTARTED: {"restarted": (*now.restarted, *entry.brokers)},
        RollEvent.BACK: {"back": (*now.back, *entry.brokers)},
        RollEvent.SETTLED: {"settled": (*now.settled, *entry.brokers), **_NEW_STEP},
        RollEvent.ROLLED_BACK: {"order": entry.order, "is_rollback": True, "settled": (), "started": (), **_NEW_STEP}
        | {"state": RollState.UNDER_WAY, "is_refilled": False, "is_restored": False}
        | ({"is_paused": False, "before": entry.before} if entry.before else {}),
        RollEvent.REFILLED: {"is_refilled": True},
        RollEvent.SHOWN: {"is_shown": True, "is_refilled": False},
        RollEvent.RESTORED: {"is_restored": True},
        RollEvent.FINISHED: {"state": RollState.FINISHED},
        RollEvent.ABORTED: {"state": RollState.ABORTED},
        RollEvent.STOPPED: {},
    }
    return replace(now, **changes[entry.event])  # type: ignore[arg-type]


_NEW_STEP: Final[dict[str, object]] = {
    "is_emptied": False,
    "restarting": (),
    "reported_at": (),
    "restarted": (),
    "back": (),
}


def next_action(now: Progress) -> Action:
    """Return the action of a roll that is to be done next, in the state `now`."""
    if now.state is not RollState.UNDER_WAY:
        return Nothing()
    if not now.is_paused:
        return Pause()
    if canaries := now.canaries:
        return Refill(canaries) if now.order.refills and not now.is_refilled else Show(canaries)
    if now.batch:
        return _in_step(now)
    if now.order.refills and not now.order.pool and not now.is_refilled:
        return Refill(now.order.batches[-1])
    return Finish() if now.is_restored else Restore()


def _in_step(now: Progress) -> Action:
    for broker in _to_start(now):
        return Start(broker)
    if not now.is_emptied:
        return Empty(now.batch)
    identities = dict(now.restarting)
    for broker in now.batch:
        if broker not in now.restarted:
            return Restart(broker, identities.get(broker, ""))
    for broker in now.batch:
        if broker not in now.back:
            return AwaitBack(broker, identities.get(broker, ""))
    return AwaitReports(now.batch)


def _to_start(now: Progress) -> tuple[str, ...]:
    """Return the brokers of the second pool that have to run in the present step, and have not been seen in service
    yet.
    """
    pool = now.order.pool
    wanted = pool if now.step == len(now.order.batches) - 1 else pool[: now.step + 1]
    return tuple(broker for broker in wanted if broker not in now.started)


def with_leader_last(now: Progress, leader: str) -> RollOrder:
    """Return the order changed so that a leader which is in the present step restarts in the last step instead.

    The order is unchanged if the leader is not in the present step, if that step is the last one, or if a restart of
    the present step was requested already.
    """
    left = [batch for batch in now.order.batches if not set(batch) <= set(now.settled)]
    if leader not in now.batch or len(left) < 2 or now.restarting:
        return now.order
    done = tuple(batch for batch in now.order.batches if set(batch) <= set(now.settled))
    others = [tuple(broker for broker in batch if broker != leader) for batch in left]
    *early, last = [batch for batch in others if batch]
    full = len(last) >= max(map(len, left))
    ends = (last, (leader,)) if full else ((*last, leader),)
    return msgspec.structs.replace(now.order, batches=(*done, *early, *ends))


def backwards(now: Progress) -> RollOrder:
    """Return the order that rolls back what has been done: the brokers that have restarted, or may have restarted,
    restart again, the last one first. With a second pool, the old brokers that have ended start again, and the new
    brokers end.

    The brokers that have not restarted receive bundles first.
    """
    touched = [*now.settled, *(broker for broker, _ in now.restarting)]
    again = tuple(reversed(dict.fromkeys(touched)))
    if not now.order.pool:
        size = max(map(len, now.order.batches), default=1)
        batches = tuple(again[at : at + size] for at in range(0, len(again), size))
        ready = tuple(broker for broker in (*now.order.ready, *now.order.brokers) if broker not in again)
        return msgspec.structs.replace(now.order, batches=batches, ready=ready, canary=())
    old = tuple(broker for broker in now.order.brokers if broker not in again)
    new = tuple(reversed(now.started))
    return msgspec.structs.replace(
        now.order, batches=tuple((broker,) for broker in new), ready=(*now.order.ready, *old), pool=again
    )


def condition(now: Progress) -> str:
    """Return a text for an operator that says what the roll has done to the cluster so far, such as which brokers are
    empty or have restarted.
    """
    if now.state is not RollState.UNDER_WAY:
        return f"the roll is {now.state}"
    if not now.is_paused:
        return "nothing has been moved or restarted; shedding and splitting may be off already"
    words = ["shedding and splitting are off"] if not now.is_restored else ["shedding and splitting are restored"]
    done = len(now.settled)
    words.append(f"done with {done:,} of {count_of(len(now.order.brokers), 'broker')}")
    for broker in now.batch:
        if broker in now.back:
            words.append(f"{broker} is back")
        elif broker in now.restarted:
            words.append(f"the restart of {broker} was requested, and it has not been seen in service since")
        elif broker in dict(now.restarting):
            words.append(f"the restart of {broker} was about to be requested, and may have been")
        elif now.is_emptied:
            words.append(f"{broker} is empty")
    return "; ".join(words)
