"""What `barycenter decide` and `barycenter explain` do with a snapshot: configure, decide, and tell it line by line."""

import difflib
import random
from bisect import bisect_left
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from barycenter.config.broker_conf import (
    ConfigError,
    keys,
    load_broker_conf,
    read_conf_text,
    read_pairs,
    with_overrides,
)
from barycenter.config.broker_config import BrokerConfig
from barycenter.load.cycle.round import RoundOutcome, round_of, selection_of
from barycenter.load.managers import ManagerKind, StrategyError, in_its_place, short_name
from barycenter.load.reasons import render
from barycenter.load.reports.weights import resource_weights
from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.splitting.split_plan import SplitPlan
from barycenter.load.strategies import (
    BOTH,
    PLACEMENT_KEY,
    SHEDDING_KEY,
    STRATEGIES,
    Role,
    StrategyRow,
    placer_name,
    shedder_name,
    splitter_name,
    splitter_of,
)
from barycenter.load.strategy import MemoryDocument
from barycenter.naming.bundle import Bundle
from barycenter.naming.errors import InvalidNameError
from barycenter.snapshots.decided import Decided, Figures
from barycenter.snapshots.snapshot_file import SnapshotFile, SnapshotFileError

SIMPLE: Final = short_name(ManagerKind.SIMPLE.class_name)
"""What the simple load manager does is named after it; how it places, by a key."""


UNUSABLE: Final = (SnapshotFileError, ConfigError, StrategyError, OSError)
"""What is raised when what was given cannot be used, and the words were right."""


class WrongWordError(ValueError):
    """Something typed that there is not; the text says what there is."""


# ---- what was asked for ----


def is_splitter(name: str) -> bool:
    return any(row.role is Role.SPLITTING and row.name != SIMPLE for row in _named(short_name(name)))


def role_of(name: str) -> Role:
    """Return whether a strategy sheds or places; one that does both sheds.

    Raises:
        WrongWordError: there is none of that name.
    """
    roles = {row.role for row in _named(name)} - {Role.SPLITTING}
    if not roles:
        raise WrongWordError(f"there is no strategy {name!r}; {in_its_place(name, {row.name for row in STRATEGIES})}")
    return Role.SHEDDING if Role.SHEDDING in roles else Role.PLACEMENT


def _named(name: str) -> list[StrategyRow]:
    """Return the strategies of a name, which what the simple load manager does by itself bears in any form."""
    return [row for row in STRATEGIES if name in (row.name, row.class_name) or short_name(name) == row.name == SIMPLE]


def configured(
    found: SnapshotFile, conf: Path | None, changes: Collection[str], strategy: str | None, placement: str | None
) -> BrokerConfig:
    """Return the configuration to decide by: what came with the snapshot, changed by `conf`, then by `changes`.

    `changes` are of the form key=value. `strategy` and `placement` name strategies, and count last.

    Raises:
        WrongWordError: there is no such key or strategy.
        ConfigError: a value is not allowed, or the file is no broker.conf.
        OSError: the file cannot be read.
    """
    known = keys()
    texts = {key: text for key, text in found.configuration.items() if key in known}
    if conf is not None:
        load_broker_conf(conf)
        texts |= {key: text for key, text in read_pairs(read_conf_text(conf), str(conf)).items() if key in known}
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator:
            raise WrongWordError(f"--set {change}: give key=value")
        if key.strip() not in known:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.6)
            mend = f"did you mean {' or '.join(near)}?" if near else "docs/configuration.md lists the keys"
            raise WrongWordError(f"--set {change}: there is no key {key.strip()}; {mend}")
        texts[key.strip()] = text
    if strategy is not None and not is_splitter(strategy) and short_name(strategy) != SIMPLE:
        if role_of(strategy) is Role.SHEDDING:
            texts[SHEDDING_KEY] = strategy
            if short_name(strategy) in BOTH:
                texts[PLACEMENT_KEY] = strategy
            elif short_name(texts.get(PLACEMENT_KEY, "")) in BOTH:
                texts[PLACEMENT_KEY] = ""
        else:
            texts[PLACEMENT_KEY] = strategy
    if placement is not None:
        role_of(placement)
        texts[PLACEMENT_KEY] = placement
    return with_overrides(BrokerConfig(), texts)


def read_memory(file: Path) -> MemoryDocument:
    """Return what a shedder remembers, from a file.

    Raises:
        SnapshotFileError: it holds something else.
        OSError: it cannot be read.
    """
    accepted = 'what --save-history wrote: {"usage": {"<broker>": <fraction>}, "lowHits": {…}, "highHits": {…}}'
    try:
        memory = msgspec.json.decode(file.read_bytes(), type=MemoryDocument)
    except msgspec.DecodeError as error:
        raise SnapshotFileError(file, str(error), accepted) from error
    if memory == MemoryDocument():
        raise SnapshotFileError(file, "nothing is remembered in it", accepted)
    return memory


# ---- deciding ----


def manager_of(found: SnapshotFile, strategy: str | None) -> ManagerKind:
    """Return whose strategies are asked: unless one is named, those of the load manager that the brokers run.

    The modular and the simple manager can be asked about any snapshot.

    Raises:
        WrongWordError: the strategy needs what other brokers report.
    """
    if strategy is None and found.is_simple:
        return ManagerKind.SIMPLE
    if strategy is None:
        return ManagerKind.MODULAR if found.snapshot.extensible is None else ManagerKind.EXTENSIBLE
    known = {row.manager for row in _named(short_name(strategy) if is_splitter(strategy) else strategy)}
    if is_splitter(strategy) or known == {ManagerKind.SIMPLE}:
        return known.pop()
    if ManagerKind.EXTENSIBLE not in known:
        return ManagerKind.MODULAR
    if found.snapshot.extensible is not None:
        return ManagerKind.EXTENSIBLE
    if ManagerKind.MODULAR in known:
        return ManagerKind.MODULAR
    raise WrongWordError(
        f"{short_name(strategy)} decides upon what brokers of the extensible load manager report; {found.source} has "
        "nothing of it"
    )


def shedding_by(config: BrokerConfig, manager: ManagerKind) -> str:
    """Return the names of the strategies of a round."""
    return f"{shedder_name(config, manager)} sheds, {placer_name(config, manager)} places"


def splitting_by(manager: ManagerKind) -> str:
    """Return the name of the split check."""
    return f"{splitter_name(manager)} splits"


def placing_by(config: BrokerConfig, manager: ManagerKind) -> str:
    """Return the name of the placement strategy."""
    return f"{placer_name(config, manager)} places"


def headline(found: SnapshotFile, by: str) -> str:
    """Return what is decided upon, and by what."""
    snapshot = found.snapshot
    taken = ""
    if snapshot.taken_at_ms:
        taken = f", as of {datetime.fromtimestamp(snapshot.taken_at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    sizes = f"{len(snapshot.brokers):,} brokers, {len(snapshot.bundles):,} bundles"
    return f"{found.source}: {sizes}{taken}; {by}"


def shedding_rounds(
    snapshot: LoadSnapshot,
    config: BrokerConfig,
    memory: MemoryDocument,
    cycles: int,
    seed: int,
    manager: ManagerKind = ManagerKind.MODULAR,
) -> tuple[list[list[Decided]], MemoryDocument]:
    """Return what is decided in each round, and what the shedder remembers after the last.

    Brokers report nothing between the rounds: figures stay, and what was moved is on its way.

    Raises:
        StrategyError: the configuration names strategies that there are not, or that do not go together.
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
        yield Decided(
            cycle=number,
            kind="unload",
            bundle=move.bundle,
            source=move.source,
            destination=move.destination or "",
            figures=_figures_of(snapshot, move.bundle),
            reason=move.reason,
            sentence=render(move.reason),
            placement=None if placement.reason == move.reason else placement.reason,
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
    """Tell where bundles would go, one after the other.

    Raises:
        StrategyError: the configuration names a placement strategy that there is not.
        WrongWordError: a name is not that of a bundle.
    """
    for bundle in bundles:
        try:
            Bundle.parse(bundle)
        except InvalidNameError as error:
            raise WrongWordError(f"--place {bundle}: {error}") from error
    placements = selection_of(config, manager).place(snapshot, bundles, random.Random(seed))
    for placement in placements:
        yield Decided(
            cycle=1,
            kind="refuse" if placement.broker is None else "assign",
            refused="assign" if placement.broker is None else "",
            bundle=placement.bundle,
            destination=placement.broker or "",
            reason=placement.reason,
            sentence=render(placement.reason),
        )


def split_rounds(
    snapshot: LoadSnapshot, config: BrokerConfig, cycles: int, manager: ManagerKind = ManagerKind.MODULAR
) -> list[list[Decided]]:
    """Tell which bundles are too large; each namespace is taken to have the bundles that are reported.

    The extensible load manager splits what was too large several times running, here in the middle of its range.
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
