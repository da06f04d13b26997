"""What `barycenter decide` and `barycenter explain` do with a snapshot: configure, decide, and tell it line by line."""

import difflib
import random
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
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
from barycenter.load.cycle.round import Cycle, CycleMemory, CycleOutcome, Selection, place
from barycenter.load.cycle.shedding_memory import memory_document, shedding_memory
from barycenter.load.cycle.simple_round import SimpleCycle
from barycenter.load.reasons import render
from barycenter.load.reports.weights import resource_weights
from barycenter.load.selection.modular_selection import SelectionMemory
from barycenter.load.simple import splitting as simple_splitting
from barycenter.load.snapshot.document import MemoryDocument
from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.splitting import bundle_splitter, default_split_strategy
from barycenter.load.splitting.bundle_splitter import SplitPlan
from barycenter.load.strategies import BOTH, PLACEMENT_KEY, SHEDDING_KEY, STRATEGIES, Role, placer_name, shedder_name
from barycenter.load.managers import ManagerKind, StrategyError, in_its_place, short_name
from barycenter.naming.bundle import Bundle
from barycenter.naming.errors import InvalidNameError
from barycenter.snapshots.decided import Decided, Figures
from barycenter.snapshots.snapshot_file import SnapshotFile, SnapshotFileError

_SPLITTER_OF: Final = {
    ManagerKind.MODULAR: bundle_splitter.NAME,
    ManagerKind.EXTENSIBLE: default_split_strategy.NAME,
    ManagerKind.SIMPLE: simple_splitting.NAME,
}
_SPLITTERS: Final = frozenset({bundle_splitter.NAME, default_split_strategy.NAME})
SIMPLE: Final = simple_splitting.NAME
"""What the simple load manager does is named after it; how it places, by a key."""


UNUSABLE: Final = (SnapshotFileError, ConfigError, StrategyError, OSError)
"""What is raised when what was given cannot be used, and the words were right."""


class WrongWordError(ValueError):
    """Something typed that there is not; the text says what there is."""


# ---- what was asked for ----


def is_splitter(name: str) -> bool:
    return short_name(name) in _SPLITTERS


def role_of(name: str) -> Role:
    """Return whether a strategy sheds or places; one that does both sheds.

    Raises:
        WrongWordError: there is none of that name.
    """
    if short_name(name) == SIMPLE:
        return Role.SHEDDING
    roles = {each.role for each in STRATEGIES if name in (each.name, each.class_name)}
    if not roles:
        known = {each.name for each in STRATEGIES} | _SPLITTERS | {SIMPLE}
        raise WrongWordError(f"there is no strategy {name!r}; {in_its_place(name, known)}")
    return Role.SHEDDING if Role.SHEDDING in roles else Role.PLACEMENT


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
    if strategy is not None and is_splitter(strategy):
        return next(kind for kind, name in _SPLITTER_OF.items() if name == short_name(strategy))
    if strategy is not None and short_name(strategy) == SIMPLE:
        return ManagerKind.SIMPLE
    if strategy is None and found.is_simple:
        return ManagerKind.SIMPLE
    if strategy is None:
        return ManagerKind.MODULAR if found.snapshot.extensible is None else ManagerKind.EXTENSIBLE
    known = {each.manager for each in STRATEGIES if strategy in (each.name, each.class_name)}
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
    return f"{_SPLITTER_OF[manager]} splits"


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
    cycle: Cycle | SimpleCycle = SimpleCycle.of(config) if manager is ManagerKind.SIMPLE else Cycle.of(config, manager)
    rng = random.Random(seed)
    remembered = CycleMemory(shedding_memory(memory, shedder_name(config, manager)))
    rounds = []
    for number in range(1, cycles + 1):
        outcome, remembered = cycle.run(snapshot, remembered, rng)
        rounds.append(list(_lines_of(outcome, config, number)))
        snapshot = outcome.snapshot
    return rounds, memory_document(remembered.shedding)


def _lines_of(outcome: CycleOutcome, config: BrokerConfig, number: int) -> Iterator[Decided]:
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
    rng = random.Random(seed)
    if manager is ManagerKind.SIMPLE:
        placements = SimpleCycle.of(config).place(snapshot, bundles, rng)
    else:
        placements, _, _ = place(snapshot, bundles, Selection.of(config, manager), rng, SelectionMemory())
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
    hits: Mapping[str, int] = {}
    rounds = []
    for number in range(1, cycles + 1):
        if manager is ManagerKind.EXTENSIBLE:
            limits = default_split_strategy.DefaultSplitSettings.of(config)
            plan, hits = default_split_strategy.default_split_strategy(snapshot, limits, hits, {}, _middle)
        else:
            settings = bundle_splitter.BundleSplitterSettings.of(config)
            check = simple_splitting.simple_splits if manager is ManagerKind.SIMPLE else bundle_splitter.bundle_splitter
            plan = check(snapshot, settings, {})
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
