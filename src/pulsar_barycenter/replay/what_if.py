"""Forecasts: a replay that starts from the snapshot of a cluster, with fewer or more brokers, or other load.

Each bundle keeps the traffic that the snapshot has for it, times the requested scale; each broker keeps its reported
ratio of CPU to traffic. The brokers report for two steps. Then the requested change happens: brokers leave or join, or
the load grows. From then on the leader runs its rounds, and the brokers report the results of its moves; a single round
on the snapshot would not show these.

The past of the cluster is ignored: a shedder starts with an empty memory, and no bundle counts as moved recently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from pulsar_barycenter.load.reports.load_report import RESOURCES
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, Floats, LoadSnapshot
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel, fit
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import BrokerAdded, BrokerRemoved, BrokerSlowed, Event
from pulsar_barycenter.replay.outcome import Divided, Outcome
from pulsar_barycenter.replay.simulator import Cluster, replay

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

STEP_MS: Final = 60_000
SETTLED: Final = 2
"""The requested change happens after this many steps."""
MOST_ADDED: Final = 1_000
LONGEST_MINUTES: Final = 24 * 60
_CPU, _MEMORY, _IN, _OUT = (RESOURCES.index(name) for name in ("cpu", "memory", "bandwidth_in", "bandwidth_out"))
_FEW: Final = 8
"""With at least this many brokers, CPU is fitted to traffic; with fewer, it is proportional to traffic."""
_MOST_UNLIKE: Final = 100.0
"""A broker takes at most this many times the CPU of the others for the same traffic, and at least the inverse."""
_LEAST, _MOST = 1e-6, 1e15
"""The bounds of limits, usages (percent of one core, kbit/s) and traffic (msg/s, bytes/s)."""
_SLIGHT: Final = 0.25
"""The CPU of a broker with less than this part of the mean traffic is not used to estimate the CPU of traffic."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The change whose effect is forecast: the brokers `without` leave, `added` brokers join, and the load is
    multiplied by `scale`. `minutes` is how far ahead the forecast goes after the change.
    """

    without: tuple[str, ...] = ()
    added: int = 0
    scale: float = 1.0
    minutes: int = 30


class PlannedMove(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A forecast move: a bundle that has another broker at the end than at the begin of the forecast, or its part.
    `minute` is the minute of its last move, `times` the number of its moves.

    `kind` is "part" if the bundle is created by a split, otherwise "assign" if it has no owner at the begin, otherwise
    "unload".
    """

    kind: str
    bundle: str
    source: str
    destination: str
    minute: int
    times: int
    msg_rate: float
    sentence: str


class BrokerForecast(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The load of a broker at the begin and at the end of the forecast: usage as a fraction, rate in msg/s in + out.
    None: the broker is not in the cluster at that time.
    """

    broker: str
    usage_before: float | None
    usage_after: float | None
    rate_before: float | None
    rate_after: float | None


@dataclass(frozen=True)
class Forecast:
    """The result of a forecast: its brokers, moves and splits. `limit` is the usage (a fraction) above which a broker
    counts as overloaded. `unserved_topic_s` is the time without service, as the sum over topics in seconds.
    """

    brokers: tuple[BrokerForecast, ...]
    moves: tuple[PlannedMove, ...]
    splits: tuple[Divided, ...]
    limit: float
    unserved_topic_s: float


def forecast(snapshot: LoadSnapshot, config: "BrokerConfig", question: Question, *, seed: int = 0) -> Forecast:
    """Return what happens in the cluster of `snapshot` under the configuration `config` after the change in `question`.

    Raises:
        ReplayInputError: no broker of the snapshot has bundles, or the question has an unknown broker or a wrong value.
        StrategyError: the configuration names strategies that do not exist, or that cannot be combined.
    """
    start = start_of(snapshot, question)
    return _told(replay(start.demand, start.cluster, config, start.events, seed=seed), start.demand)


@dataclass(frozen=True)
class Start:
    """The input of a replay that starts from a snapshot. `events` are the requested change, and for each broker how its
    use of CPU differs from the model.
    """

    demand: Demand
    cluster: Cluster
    events: tuple[Event, ...]


def start_of(snapshot: LoadSnapshot, question: Question) -> Start:
    """Return the input of the replay that shows the effect of the change in `question`, which starts from `snapshot`.

    Raises:
        ReplayInputError: no broker of the snapshot has bundles, or the question has an unknown broker or a wrong value.
    """
    _check(snapshot, question)
    cluster, factors = _cluster(snapshot.brokers)
    demand = _demand(snapshot, question)
    happens: list[Event] = [BrokerSlowed(demand.start_ms, name, factor) for name, factor in factors]
    at_ms = demand.start_ms + SETTLED * STEP_MS
    happens += [BrokerRemoved(at_ms, name) for name in question.without]
    like = _median(list(cluster.brokers.values()))
    happens += [BrokerAdded(at_ms, f"added-{number:04d}:8080", like) for number in range(1, question.added + 1)]
    return Start(demand, cluster, tuple(happens))


def _check(snapshot: LoadSnapshot, question: Question) -> None:
    names = snapshot.brokers.names
    if not names or snapshot.bundles.broker_bound.all():
        raise ReplayInputError(
            "the snapshot has no broker, or no bundle that can move, so there is nothing to forecast; give another"
            " snapshot"
        )
    unknown = [name for name in question.without if name not in snapshot.brokers.index]
    if unknown:
        raise ReplayInputError(f"{unknown[0]} is not a registered broker; the brokers are {', '.join(names[:20])}")
    if len(set(question.without)) == len(names) and not question.added:
        raise ReplayInputError("no broker would be left in the cluster; add brokers, or let one stay")
    if not (0 < question.scale <= 1000 and 0 <= question.added <= MOST_ADDED):
        raise ReplayInputError(
            f"the load can be scaled by more than 0 and at most 1000, and at most {MOST_ADDED} brokers can be added"
        )
    if not 1 <= question.minutes <= LONGEST_MINUTES:
        raise ReplayInputError(
            f"a forecast for {question.minutes} minutes is not possible; give 1 to {LONGEST_MINUTES}"
        )


def _cluster(brokers: BrokerTable) -> tuple[Cluster, list[tuple[str, float]]]:
    """Return the simulated cluster, in which brokers have the limits that they report, and one model of CPU for all
    brokers. For each broker whose report shows it, also return the factor by which its CPU differs from the model.
    """
    usual = Capacity()
    limits = _bounded(brokers.limit)
    capacities = {
        name: Capacity(
            limits[_CPU, row] / 100 or usual.cores,
            limits[_MEMORY, row] or usual.memory_mib,
            min(limits[_IN, row], limits[_OUT, row]) or usual.network_kbits,
        )
        for row, name in enumerate(brokers.names)
    }
    cpu, rate, throughput = map(_bounded, (brokers.usage[_CPU], brokers.latest.rate, brokers.latest.throughput))
    model = _model(cpu, rate, throughput)
    expected = model.idle_cpu + model.cpu_per_message * rate + model.cpu_per_byte * throughput
    telling = (cpu > 0) & (expected > 0) & (throughput >= _SLIGHT * throughput.mean())
    factors = [
        (brokers.names[row], min(max(float(cpu[row] / expected[row]), 1 / _MOST_UNLIKE), _MOST_UNLIKE))
        for row in np.flatnonzero(telling).tolist()
    ]
    return Cluster(capacities, model), factors


def _bounded(figures: Floats) -> Floats:
    """Return the values limited to a greatest one, so that calculations with them stay finite. Values that are
    negative, not finite, or too small to be measured become 0.
    """
    found: Floats = np.where(np.isfinite(figures) & (figures >= _LEAST), np.minimum(figures, _MOST), 0.0)
    return found


def _model(cpu: Floats, rate: Floats, throughput: Floats) -> CapacityModel:
    usual = CapacityModel()
    if len(cpu) >= _FEW:
        found = fit(cpu, rate, throughput)
        if found.determination >= 0.5:
            return found.model
    carried = float(rate.sum())
    beyond_idle = float(np.maximum(cpu - usual.idle_cpu, 0.0).sum())
    if carried <= 0 or beyond_idle <= 0:
        return usual
    return CapacityModel(usual.idle_cpu, beyond_idle / carried, 0.0)


def _median(capacities: Sequence[Capacity]) -> Capacity:
    return sorted(capacities, key=lambda each: (each.cores, each.network_kbits))[len(capacities) // 2]


def _demand(snapshot: LoadSnapshot, question: Question) -> Demand:
    """Return the load of the snapshot for all steps of the forecast. It is constant until the requested change, and
    multiplied by `question.scale` from then on.
    """
    bundles = snapshot.bundles
    # a moving bundle has two rows, and the later one counts; a bundle that belongs to its broker never moves
    movable = np.flatnonzero(~bundles.broker_bound).tolist()
    rows = np.array(list({bundles.names[row]: row for row in movable}.values()), np.int64)
    steps = SETTLED + question.minutes
    growth = np.where(np.arange(steps) < SETTLED, 1.0, question.scale)[:, None]
    sampled = bundles.sampled[rows]

    def figure(name: str) -> Floats:
        known = np.where(sampled, getattr(bundles.latest, name)[rows], getattr(bundles.short, name)[rows])
        found: Floats = _bounded(known)[None, :] * growth
        return found

    return Demand.of_bundles(
        snapshot.taken_at_ms // STEP_MS * STEP_MS,
        STEP_MS,
        tuple(bundles.names[row] for row in rows.tolist()),
        figure("rate_in"),
        rate_out=figure("rate_out"),
        throughput_in=figure("throughput_in"),
        throughput_out=figure("throughput_out"),
        sessions=np.maximum(bundles.sessions[rows], 0),
        topics=np.maximum(bundles.topics[rows], 0),
        owners=tuple(snapshot.brokers.names[row] for row in bundles.owner[rows].tolist()),
    )


def _told(outcome: Outcome, demand: Demand) -> Forecast:
    brokers = tuple(
        BrokerForecast(
            broker=name,
            usage_before=_at(outcome, outcome.usage, 0, column),
            usage_after=_at(outcome, outcome.usage, -1, column),
            rate_before=_at(outcome, outcome.rate, 0, column),
            rate_after=_at(outcome, outcome.rate, -1, column),
        )
        for column, name in enumerate(outcome.brokers)
    )
    return Forecast(
        brokers, _net_moves(outcome, demand), outcome.splits, outcome.overload_limit, outcome.unserved_topic_s
    )


def _at(outcome: Outcome, figures: Floats, step: int, column: int) -> float | None:
    return float(figures[step, column]) if outcome.live[step, column] else None


def _net_moves(outcome: Outcome, demand: Demand) -> tuple[PlannedMove, ...]:
    """Return one move for each bundle that has another broker at the end than at the begin, in the order of their last
    moves.
    """
    known, begun = frozenset(demand.bundles), int(outcome.at_ms[0])
    found: dict[str, PlannedMove] = {}
    for move in outcome.moves:
        earlier = found.pop(move.bundle, None)
        source = earlier.source if earlier else move.source
        found[move.bundle] = PlannedMove(
            kind="part" if move.bundle not in known else "unload" if source else "assign",
            bundle=move.bundle,
            source=source,
            destination=move.destination,
            minute=(move.at_ms - begun) // STEP_MS,
            times=1 + (earlier.times if earlier else 0),
            msg_rate=move.rate,
            sentence=move.why,
        )
    return tuple(each for each in found.values() if each.source != each.destination)
