"""Rounds on a snapshot as its leader would run them: which bundles are shed, placed or split, as lines."""

import random
from bisect import bisect_left
from collections.abc import Collection, Iterator

import numpy as np

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.rounds.decided import Decided, Figures
from pulsar_barycenter.load.rounds.round import RoundOutcome, round_of, selection_of
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.split_plan import SplitPlan
from pulsar_barycenter.load.strategies import splitter_of
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.naming.bundle import Bundle


def shedding_rounds(
    snapshot: LoadSnapshot,
    config: BrokerConfig,
    memory: MemoryDocument,
    cycles: int,
    seed: int,
    manager: ManagerKind = ManagerKind.MODULAR,
) -> tuple[list[list[Decided]], MemoryDocument]:
    """Return the decisions of `cycles` shedding rounds on one snapshot, one list for each round, and the memory of the
    shedder after the last round. `memory` is its memory before the first round.

    Brokers report nothing between the rounds: loads stay the same, and bundles that were moved count as on their way.

    Raises:
        StrategyError: the configuration names strategies that do not exist, or that cannot be combined.
    """
    cycle, rng = round_of(config, manager), random.Random(seed)
    remembered = cycle.start(memory)
    rounds = []
    for number in range(1, cycles + 1):
        outcome, remembered = cycle.run(snapshot, remembered, rng)
        rounds.append(list(_lines_of(outcome, config, number)))
        snapshot = outcome.snapshot
    return rounds, cycle.document(remembered)


def _lines_of(outcome: RoundOutcome, config: BrokerConfig, number: int) -> Iterator[Decided]:
    plan, snapshot = outcome.plan, outcome.plan.snapshot
    usage = snapshot.brokers.weighted_usage(resource_weights(config))
    latest = snapshot.brokers.latest
    counts = np.bincount(snapshot.bundles.owner[plan.rows], minlength=len(snapshot.brokers)).tolist()
    for row, broker in enumerate(snapshot.brokers.names):
        reason = plan.broker_reason(row)
        figures = Figures(
            msg_rate=float(latest.rate[row]),
            msg_throughput=float(latest.throughput[row]),
            usage=float(usage[row]),
            bundles=int(snapshot.brokers.bundle_count[row]),
        )
        yield Decided(
            cycle=number,
            kind="verdict",
            broker=broker,
            figures=figures,
            unloads=counts[row],
            reason=reason,
            sentence=render(reason),
        )
    yield Decided(cycle=number, kind="shed", reason=plan.reason, sentence=render(plan.reason))
    for move, placement in zip(outcome.moves, outcome.placements, strict=True):
        why = placement.reason
        yield Decided(
            cycle=number,
            kind="unload",
            bundle=move.bundle,
            source=move.source,
            destination=move.destination or "",
            figures=_figures_of(snapshot, move.bundle),
            reason=move.reason,
            sentence=render(move.reason),
            placement=None if why == move.reason else why,
        )
    for refusal in outcome.refused:
        yield Decided(
            cycle=number,
            kind="refuse",
            refused=refusal.action,
            bundle=refusal.subject,
            figures=_figures_of(snapshot, refusal.subject),
            reason=refusal.reason,
            sentence=render(refusal.reason),
        )


def _figures_of(snapshot: LoadSnapshot, bundle: str) -> Figures:
    bundles = snapshot.bundles
    row = bisect_left(bundles.names, bundle)
    return Figures(msg_rate=float(bundles.short.rate[row]), msg_throughput=float(bundles.short.throughput[row]))


def placement_lines(
    snapshot: LoadSnapshot,
    config: BrokerConfig,
    bundles: Collection[str],
    seed: int,
    manager: ManagerKind = ManagerKind.MODULAR,
) -> Iterator[Decided]:
    """Yield for each of these bundles the broker that would own it. A bundle counts as load of its broker when the next
    one is placed.

    Raises:
        StrategyError: the configuration names a placement strategy that does not exist.
    """
    placements = selection_of(config, manager).place(snapshot, bundles, random.Random(seed))
    for placement in placements:
        reason = placement.reason
        yield Decided(
            cycle=1,
            kind="refuse" if placement.broker is None else "assign",
            refused="assign" if placement.broker is None else "",
            bundle=placement.bundle,
            destination=placement.broker or "",
            reason=reason,
            sentence=render(reason),
        )


def split_rounds(
    snapshot: LoadSnapshot, config: BrokerConfig, cycles: int, manager: ManagerKind = ManagerKind.MODULAR
) -> list[list[Decided]]:
    """Return the result of `cycles` runs of the split strategy on the same snapshot, one list for each run: which
    bundles are split, and which are too large but not split.

    The number of bundles of a namespace is the number that the snapshot has; splits of earlier runs do not change it.
    The extensible load manager splits a bundle when it was too large in several runs in a row; here it splits in the
    middle of the bundle's hash range.
    """
    splitter = splitter_of(config, manager)
    memory = splitter.start()
    rounds = []
    for number in range(1, cycles + 1):
        plan, memory = splitter.decide(snapshot, {}, _middle, memory)
        rounds.append(list(_split_lines(plan, number)))
    return rounds


def _middle(bundle: str) -> tuple[int, ...]:
    found = Bundle.parse(bundle).range
    return (found.lower + (found.upper - found.lower) // 2,)


def _split_lines(plan: SplitPlan, number: int) -> Iterator[Decided]:
    for split in plan:
        yield Decided(
            cycle=number,
            kind="split",
            bundle=split.bundle,
            source=split.broker,
            reason=split.reason,
            sentence=render(split.reason),
        )
    for refusal in plan.refusals():
        yield Decided(
            cycle=number,
            kind="refuse",
            refused=refusal.action,
            bundle=refusal.subject,
            reason=refusal.reason,
            sentence=render(refusal.reason),
        )
