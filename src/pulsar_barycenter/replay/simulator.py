"""Simulates a cluster in virtual time: step by step, brokers report and their leader decides, as in a live cluster.

A step has these parts:

1. Events within the step happen, and settings change. 2. Bundles without an owner are assigned, as look-ups would
assign them. 3. Clients produce and consume the step's traffic. Brokers measure and report (`replay.reports`). 4. If a
round is due, the leader runs it on the reports: `load.rounds.round`, the code of a live leader. 5. The leader has
bundles split that are too large, with the configured strategy and algorithm.

Decisions of a step take effect in the next step; the usage of a step is by its own owners. The same arguments give the
same outcome.

The leader is not one of the simulated brokers, and stays when a broker leaves. It changes only with the event
`LeaderLost`, which clears the memory of the shedder. With the no-op load manager nothing moves, and a bundle without an
owner goes to the broker with the fewest bundles.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.load.decisions import Split
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.rounds.round import RoundOutcome, round_of, selection_of
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot
from pulsar_barycenter.load.splitting.splitter import Boundaries, no_boundaries
from pulsar_barycenter.load.strategies import splitter_of
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.bundles import NOBODY, Bundles, summed
from pulsar_barycenter.replay.capacity import KBIT, LIKE_MOST, Capacity, CapacityModel, limits
from pulsar_barycenter.replay.delivery import PERFECT, Delivery
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import (
    BrokerAdded,
    BrokerCrashed,
    BrokerRemoved,
    BrokerSlowed,
    Event,
    LeaderLost,
    ReportsLost,
    SettingChanged,
)
from pulsar_barycenter.replay.outcome import Divided, Moved, Outcome, Samples
from pulsar_barycenter.replay.references import ActualLoad, Reference, best_moves
from pulsar_barycenter.replay.reports import Measured, Reports

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

_CPU, _IN, _OUT = 0, 3, 4
"""The rows of usage that count. Memory does not count for balance."""
MINUTE_MS: Final = 60_000
MOST_BROKERS: Final = 10_000


@dataclass(frozen=True)
class Cluster:
    """The simulated cluster: its brokers at the start, and how they use resources and how long moves take.

    `gap_ms` is how long a bundle has no service when its owner changes. After a crash, a broker's bundles can be
    assigned to others only after `session_ms`. `failing` is the fraction (0 to 1) of unloads that fail: the bundle has
    no service for `gap_ms`, and then its old owner again.
    """

    brokers: Mapping[str, Capacity]
    model: CapacityModel = field(default_factory=CapacityModel)
    gap_ms: int = 1_000
    session_ms: int = 30_000
    failing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.failing <= 1:
            raise ReplayInputError(f"{self.failing:g} is not a valid share of unloads that fail; give 0 to 1")


def replay(
    demand: Demand,
    cluster: Cluster,
    config: "BrokerConfig",
    events: Iterable[Event] = (),
    *,
    seed: int = 0,
    reference: Reference | None = None,
    delivery: Delivery = PERFECT,
) -> Outcome:
    """Simulate a cluster with the load `demand` and the settings `config`, and return the outcome. If `reference` is
    given, it moves bundles instead of the leader's rounds.

    `delivery` says which load reports arrive late or not at all; a reference does not use reports. The same arguments
    give the same outcome.

    Raises:
        ReplayInputError: an event or an owner does not fit the cluster, or the cluster has no broker or too many.
        StrategyError: the configuration names strategies that do not exist, or that cannot be combined.
        ConfigError: an event sets a key to a value that is not allowed.
    """
    ordered = sorted(events, key=lambda event: event.at_ms)
    return _Run(demand, cluster, config, ordered, seed, reference, delivery).outcome()


class _Run:
    def __init__(
        self,
        demand: Demand,
        cluster: Cluster,
        config: "BrokerConfig",
        events: Sequence[Event],
        seed: int,
        reference: Reference | None,
        delivery: Delivery,
    ) -> None:
        self._demand, self._cluster, self._config = demand, cluster, config
        self._events, self._rng = list(events), random.Random(seed)
        self._failures = random.Random(f"failing {seed}")
        self._failed = 0
        self._led_from_ms = demand.start_ms
        self._reference = reference
        names = sorted({*cluster.brokers, *(each.broker for each in events if isinstance(each, BrokerAdded))})
        if not cluster.brokers or len(names) > MOST_BROKERS:
            raise ReplayInputError(f"the cluster has {count_of(len(names), 'broker')}; give 1 to {MOST_BROKERS}")
        self._names = names
        self._row = {name: row for row, name in enumerate(names)}
        self._live: Flags = np.array([name in cluster.brokers for name in names], bool)
        capacities = [cluster.brokers.get(name, LIKE_MOST) for name in names]
        self._limit = limits(capacities)
        self._slowdown: Floats = np.ones(len(names))
        self._muted_until = np.full(len(names), -1, np.int64)
        self._bundles = Bundles(demand)
        self._reports = Reports(names, self._bundles, delivery, seed=seed)
        self._free_at_ms: dict[str, int] = {}
        self._left: dict[str, tuple[str, int]] = {}
        self._moves: list[Moved] = []
        self._splits: list[Divided] = []
        self._unserved_topic_s = 0.0
        self._happened: list[int] = []
        self._round_at_ms = self._split_at_ms = demand.start_ms
        self._apply_settings(config)
        for bundle, owner in zip(demand.bundles, demand.owners, strict=True):
            if owner:
                if owner not in cluster.brokers:
                    raise ReplayInputError(
                        f"bundle {bundle} is on {owner}, which is not a broker of the cluster; correct"
                        " the owner, or add this broker"
                    )
                self._bundles.owner[self._bundles.row_of(bundle)] = self._row[owner]
        self._check_events()

    def _check_events(self) -> None:
        config = self._config
        for event in self._events:
            broker = getattr(event, "broker", None)
            if broker is not None and broker not in self._row:
                raise ReplayInputError(f"{event}: this broker does not exist; the brokers are {self._names}")
            if isinstance(event, BrokerSlowed) and not 0 < event.factor < 1e6:
                raise ReplayInputError(f"{event}: the factor must be more than 0 and less than 1,000,000")
            if isinstance(event, SettingChanged):
                config = with_overrides(config, {event.key: event.value})
                if (manager_in_force(config) is ManagerKind.EXTENSIBLE) != (self._kind is ManagerKind.EXTENSIBLE):
                    raise ReplayInputError(
                        f"{event}: a replay cannot change to or from the extensible load manager; leave this change out"
                    )

    def _apply_settings(self, config: "BrokerConfig") -> None:
        """Use the configuration `config` from now on. The memories of the shedder and the splitter are kept if the
        shedder is of the same class as before; otherwise they are emptied.
        """
        before: Any = getattr(self, "_round", None)
        self._config, self._kind = config, manager_in_force(config)
        self._round: Any = None
        if self._kind is not ManagerKind.NOOP:
            self._round = round_of(config, self._kind)
            self._splitter: Any = splitter_of(config, self._kind)
            if before is None or type(before.shedder) is not type(self._round.shedder):
                self._forget()

    def _forget(self) -> None:
        """Empty the memories of the shedder and the splitter, as if a new leader had been elected."""
        if self._kind is not ManagerKind.NOOP:
            self._memory: Any = self._round.start()
            self._split_memory: Any = self._splitter.start()

    # ---- the run ----

    def outcome(self) -> Outcome:
        demand, steps, count = self._demand, self._demand.steps, len(self._names)
        live = np.zeros((steps, count), bool)
        usage, cpu, rate, throughput = (np.zeros((steps, count)) for _ in range(4))
        unserved, floor = np.zeros(steps), np.zeros(steps)
        samples = Samples(steps, len(self._bundles))
        at_ms = demand.start_ms + np.arange(steps, dtype=np.int64) * demand.step_ms
        for step, now_ms in enumerate(at_ms.tolist()):
            self._happen(now_ms)
            self._bundles.advance(step)
            samples.take(step, self._bundles.names, self._bundles.figures[0] + self._bundles.figures[1])
            self._place_free(now_ms)
            figures, wanted = self._carried()
            share = wanted[[_CPU, _IN, _OUT]] / self._limit[[_CPU, _IN, _OUT]]
            live[step] = self._live
            usage[step] = np.where(self._live, share.max(axis=0), 0.0)
            cpu[step] = np.where(self._live, share[0], 0.0)
            rate[step], throughput[step] = figures[0] + figures[1], figures[2] + figures[3]
            nobody = self._bundles.owner == NOBODY
            unserved[step] = float(self._bundles.figures[:2, nobody].sum())
            floor[step] = self._floor()
            self._report(figures, wanted, now_ms)
            first = len(self._moves)
            self._lead(now_ms)
            self._judge(first)
        self._count_unplaced(demand.start_ms + steps * demand.step_ms)
        return Outcome(
            at_ms=at_ms,
            step_ms=demand.step_ms,
            brokers=tuple(self._names),
            live=live,
            usage=usage,
            cpu=cpu,
            rate=rate,
            throughput=throughput,
            unserved=unserved,
            floor=floor,
            moves=tuple(self._moves),
            splits=tuple(self._splits),
            unserved_topic_s=self._unserved_topic_s,
            event_ms=tuple(self._happened),
            failed_unloads=self._failed,
            bundles=len(self._bundles),
            overload_limit=self._config.load_balancer_broker_overloaded_threshold_percentage / 100,
            carried=samples.of(self._decided_upon()),
        )

    def _decided_upon(self) -> list[str]:
        """Return the names of the bundles that moved or were split, and of the parts of split ones. A bundle that was
        only assigned when it had no owner at the start is left out.
        """
        moved = [move.bundle for move in self._moves if move.source]
        return moved + [name for split in self._splits for name in (split.bundle, *split.parts)]

    def _count_unplaced(self, end_ms: int) -> None:
        """For each bundle without an owner at the end of the run (`end_ms`), add the time since it had one to the time
        without service.
        """
        for row in np.flatnonzero(self._bundles.owner == NOBODY).tolist():
            since_ms = self._left.get(self._bundles.names[row], ("", self._demand.start_ms))[1]
            self._unserved_topic_s += int(self._bundles.topics[row]) * (end_ms - since_ms) / 1000

    def _carried(self) -> tuple[Floats, Floats]:
        """Return two arrays with one column for each broker: the four rates (msg/s in and out, bytes/s in and out) of
        its bundles, and how much of each resource it would use if resources had no limits.
        """
        owner, count = self._bundles.owner, len(self._names)
        served = owner != NOBODY
        owners = owner[served]
        figures = np.array([summed(owners, each[served], count) for each in self._bundles.figures])
        sessions = summed(owners, self._bundles.sessions[served], count)
        return figures, self._cluster.model.wanted(figures, sessions, self._slowdown)

    def _floor(self) -> float:
        """Return a value that the usage of the most loaded broker cannot be below at this step, however the bundles are
        distributed. Only bundles that have an owner count.

        It is the greatest of these: the total load divided by the total capacity, for CPU and for bandwidth in each
        direction; and the usage that the strongest broker would have with only the largest load that no split can
        divide.
        """
        live, model = self._live, self._cluster.model
        if not live.any():
            return 0.0
        served = self._bundles.owner != NOBODY
        total = self._bundles.figures[:, served].sum(axis=1)
        strength = self._limit[_CPU, live] / self._slowdown[live]
        traffic = model.cpu_per_message * (total[0] + total[1]) + model.cpu_per_byte * (total[2] + total[3])
        cpu = (traffic + model.idle_cpu * int(live.sum())) / strength.sum()
        network = [float(total[2 + way]) / KBIT / self._limit[_IN + way, live].sum() for way in (0, 1)]
        return float(max(cpu, *network, self._indivisible(strength, served)))

    def _indivisible(self, strength: Floats, served: Flags) -> float:
        """Return the usage of the strongest broker if its only load were the largest one that no split can divide.
        `strength` has the CPU of each broker, `served` flags the bundles that have an owner.
        """
        model, bundles = self._cluster.model, self._bundles
        figures, share = bundles.figures[:, served], bundles.least_share()[served]
        cost = model.cpu_per_message * (figures[0] + figures[1]) + model.cpu_per_byte * (figures[2] + figures[3])
        return float((cost * share).max(initial=0.0) + model.idle_cpu) / float(strength.max())

    def _report(self, figures: Floats, wanted: Floats, now_ms: int) -> None:
        owner, count = self._bundles.owner, len(self._names)
        served = owner != NOBODY
        now = Measured(
            np.minimum(wanted, self._limit),
            self._limit,
            figures,
            summed(owner[served], self._bundles.topics[served], count).astype(np.int64),
            np.bincount(owner[served], minlength=count),
        )
        able = self._live & (self._muted_until <= now_ms)
        self._reports.measure(now, self._bundles, able, self._config, now_ms, self._kind)

    # ---- events ----

    def _happen(self, now_ms: int) -> None:
        while self._events and self._events[0].at_ms < now_ms + self._demand.step_ms:
            event = self._events.pop(0)
            if event.at_ms < self._demand.start_ms:
                raise ReplayInputError(
                    f"{event} is before the begin of the load at {self._demand.start_ms} (epoch ms); give a later time"
                )
            self._happened.append(event.at_ms)
            if isinstance(event, SettingChanged):
                self._apply_settings(with_overrides(self._config, {event.key: event.value}))
                continue
            if isinstance(event, LeaderLost):
                self._led_from_ms = event.until_ms
                self._forget()
                continue
            row = self._row[event.broker]
            match event:
                case BrokerAdded():
                    self._live = _with(self._live, row, True)
                    self._limit[:, row] = limits([event.capacity])[:, 0]
                    self._slowdown[row] = 1.0
                    self._reports.start(row, event.at_ms)
                case BrokerRemoved() | BrokerCrashed():
                    self._leave(row, event.at_ms, self._cluster.session_ms if isinstance(event, BrokerCrashed) else 0)
                case BrokerSlowed():
                    self._slowdown[row] = event.factor
                case ReportsLost():
                    self._muted_until[row] = event.until_ms

    def _leave(self, row: int, at_ms: int, wait_ms: int) -> None:
        self._live = _with(self._live, row, False)
        self._reports.forget(row)
        for bundle in np.flatnonzero(self._bundles.owner == row).tolist():
            name = self._bundles.names[bundle]
            self._left[name] = (self._names[row], at_ms)
            self._free_at_ms[name] = at_ms + wait_ms
            self._bundles.owner[bundle] = NOBODY

    # ---- placement ----

    def _place_free(self, now_ms: int) -> None:
        """Assign the bundles that have no owner to brokers. If their owner crashed, they must wait until its session
        has ended.
        """
        free = [
            name
            for row in np.flatnonzero(self._bundles.owner == NOBODY).tolist()
            if self._free_at_ms.get(name := self._bundles.names[row], 0) < now_ms + self._demand.step_ms
        ]
        if not free or not self._live.any():
            return
        for bundle, broker, why in self._chosen(free, now_ms):
            source, since_ms = self._left.pop(bundle, ("", 0))
            freed_ms = self._free_at_ms.pop(bundle, 0)
            gap_ms = freed_ms - since_ms + self._cluster.gap_ms if source else 0
            self._move("assign", bundle, source, broker, now_ms, gap_ms, why)

    def _chosen(self, bundles: Collection[str], now_ms: int) -> list[tuple[str, str, str]]:
        """Choose an owner for each of `bundles`, which have none. Return for each the names of the bundle and the
        broker, and the reason as a text. A bundle for which the strategy finds no broker is left out.
        """
        snapshot = self._snapshot(now_ms)
        if self._kind is ManagerKind.NOOP or not len(snapshot.brokers):
            counts = np.bincount(self._bundles.owner[self._bundles.owner != NOBODY], minlength=len(self._names))
            counts = np.where(self._live, counts, np.iinfo(np.int64).max)
            found = []
            for bundle in bundles:
                row = int(np.argmin(counts))
                counts[row] += 1
                found.append((bundle, self._names[row], "the broker with the fewest bundles: no load is known"))
            return found
        selection, memory = selection_of(self._config, self._kind), self._memory.selection
        placements = list(selection.place(snapshot, bundles, self._rng, memory))
        return [(each.bundle, each.broker, render(each.reason)) for each in placements if each.broker is not None]

    def _move(self, kind: str, bundle: str, source: str, broker: str, now_ms: int, gap_ms: int, why: str) -> None:
        bundles, row = self._bundles, self._bundles.row_of(bundle)
        to = self._row[broker]
        self._reports.moved(int(bundles.owner[row]), to)
        bundles.owner[row] = to
        topics, sessions = int(bundles.topics[row]), int(bundles.sessions[row])
        self._unserved_topic_s += topics * gap_ms / 1000
        rate = float(bundles.figures[0, row] + bundles.figures[1, row])
        self._moves.append(
            Moved(
                at_ms=now_ms,
                kind=kind,
                bundle=bundle,
                source=source,
                destination=broker,
                rate=rate,
                topics=topics,
                sessions=sessions if source else 0,
                gap_ms=gap_ms,
                why=why,
            )
        )

    def _judge(self, first: int) -> None:
        """Set `misplaced` in those moves from the index `first` on whose destination is above the mean usage, after all
        these moves.
        """
        if first == len(self._moves):
            return
        _, wanted = self._carried()
        usage = (wanted[[_CPU, _IN, _OUT]] / self._limit[[_CPU, _IN, _OUT]]).max(axis=0)
        mean = float(usage[self._live].mean())
        for place in range(first, len(self._moves)):
            move = self._moves[place]
            if usage[self._row[move.destination]] > mean * (1 + 1e-9):
                self._moves[place] = msgspec.structs.replace(move, misplaced=True)

    # ---- the leader ----

    def _snapshot(self, now_ms: int) -> LoadSnapshot:
        return self._reports.snapshot(self._bundles, self._live, self._config, now_ms, self._kind)

    def _lead(self, now_ms: int) -> None:
        config = self._config
        if self._kind is ManagerKind.NOOP or not config.load_balancer_enabled or int(self._live.sum()) < 2:
            return
        if now_ms < self._led_from_ms:
            return
        end_ms, known = now_ms + self._demand.step_ms, None
        if self._reference is not None:
            if self._round_at_ms < end_ms:
                self._round_at_ms = _next(self._round_at_ms, self._reference.every_ms / MINUTE_MS, end_ms)
                self._follow(self._reference, now_ms)
        elif config.load_balancer_shedding_enabled and self._round_at_ms < end_ms:
            self._round_at_ms = _next(self._round_at_ms, config.load_balancer_shedding_interval_minutes, end_ms)
            known = self._shed(now_ms)
        extensible = self._kind is ManagerKind.EXTENSIBLE
        minutes = (
            config.load_balancer_split_interval_minutes
            if extensible
            else config.load_balancer_shedding_interval_minutes
        )
        if config.load_balancer_auto_bundle_split_enabled and self._split_at_ms < end_ms:
            self._split_at_ms = _next(self._split_at_ms, minutes, end_ms)
            self._split(now_ms, known)

    def _follow(self, reference: Reference, now_ms: int) -> None:
        """Make the moves that the reference balancer `reference` chooses at `now_ms`."""
        bundles, model = self._bundles, self._cluster.model
        first = (now_ms - self._demand.start_ms) // self._demand.step_ms
        steps = reference.steps(first, self._demand.steps)
        idle = model.wanted(np.zeros((4, len(self._names))), np.zeros(len(self._names)), self._slowdown)
        alone = np.ones(len(bundles))
        wanted = [model.wanted(bundles.at(step), 0 * alone, alone)[[_CPU, _IN, _OUT]] for step in steps]
        limit = self._limit[[_CPU, _IN, _OUT]].copy()
        limit[0] /= self._slowdown
        base = np.zeros_like(limit)
        base[0] = idle[_CPU] / self._slowdown
        taken = np.array(wanted)
        if reference.mean_of > 1:
            taken = taken.mean(axis=0, keepdims=True)
        taken[:, 0] -= model.idle_cpu
        actual = ActualLoad(taken, limit, base, bundles.owner.astype(np.int64), self._live)
        resting = np.flatnonzero(self._reports.unloaded_at_ms > now_ms - reference.rest_ms).tolist()
        for row, broker in best_moves(actual, reference.at_once, resting):
            source, name = self._names[int(bundles.owner[row])], bundles.names[row]
            self._reports.unloaded_at_ms[row] = now_ms
            self._move("unload", name, source, self._names[broker], now_ms, self._cluster.gap_ms, reference.about)

    def _shed(self, now_ms: int) -> LoadSnapshot | None:
        """Run one shedding round of the leader at `now_ms`. If the round moved nothing, return its snapshot, which the
        caller can use for splits. Otherwise return None, because the snapshot is no longer valid.
        """
        snapshot, moves_before = self._snapshot(now_ms), len(self._moves)
        outcome: RoundOutcome
        outcome, self._memory = self._round.run(snapshot, self._memory, self._rng)
        for move in outcome.moves:
            row = self._bundles.row_of(move.bundle)
            if move.destination is None or int(self._bundles.owner[row]) != self._row[move.source]:
                continue  # the bundle has already left the broker, which has not reported this yet
            if self._cluster.failing and self._failures.random() < self._cluster.failing:
                self._failed += 1
                self._unserved_topic_s += int(self._bundles.topics[row]) * self._cluster.gap_ms / 1000
                continue
            self._reports.unloaded_at_ms[row] = now_ms
            why = render(move.reason)
            self._move("unload", move.bundle, move.source, move.destination, now_ms, self._cluster.gap_ms, why)
        return snapshot if len(self._moves) == moves_before else None

    def _split(self, now_ms: int, known: LoadSnapshot | None) -> None:
        config, extensible = self._config, self._kind is ManagerKind.EXTENSIBLE
        names, counts = self._bundles.namespaces, np.bincount(self._bundles.namespace)
        of_namespace = dict(zip(names, counts.tolist(), strict=True))
        boundaries: Boundaries = no_boundaries
        if extensible:
            snapshot = self._reports.own(self._bundles, self._live, config, now_ms)
            boundaries = lambda bundle: self._bundles.cuts(bundle, config)  # noqa: E731
        else:
            snapshot = self._snapshot(now_ms) if known is None else known
        plan, self._split_memory = self._splitter.decide(snapshot, of_namespace, boundaries, self._split_memory)
        for split in list(plan):
            self._carry_out_split(split, now_ms, unload=not extensible)

    def _carry_out_split(self, split: Split, now_ms: int, *, unload: bool) -> None:
        if not self._bundles.is_there(split.bundle):
            return
        cuts = (split.boundary,) if split.boundary is not None else self._bundles.cuts(split.bundle, self._config)
        row = self._bundles.row_of(split.bundle)
        if not cuts or self._bundles.owner[row] == NOBODY:
            return
        owner = self._names[int(self._bundles.owner[row])]
        children = self._bundles.split(split.bundle, cuts)
        self._reports.split(row, len(children))
        self._splits.append(
            Divided(at_ms=now_ms, bundle=split.bundle, broker=owner, parts=tuple(children), why=render(split.reason))
        )
        if unload and self._config.load_balancer_auto_unload_split_bundles_enabled:
            for bundle, broker, why in self._chosen(children, now_ms):
                self._move("split", bundle, owner, broker, now_ms, self._cluster.gap_ms, why)


def _next(at_ms: int, minutes: float, end_ms: int) -> int:
    """Return the first time after `at_ms`, and not before `end_ms`, of an action that is done every `minutes` minutes
    from `at_ms` on.
    """
    every = max(1, round(minutes * 60_000))
    return at_ms + max(1, -(-(end_ms - at_ms) // every)) * every


def _with(flags: Flags, row: int, value: bool) -> Flags:
    found = flags.copy()
    found[row] = value
    return found
