"""By what a snapshot is decided: configuration, load manager and strategies, and what a shedder remembers."""

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.config.broker_conf import (
    ConfigError,
    keys,
    load_broker_conf,
    read_conf_text,
    read_pairs,
    with_overrides,
)
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, in_its_place, short_name
from pulsar_barycenter.load.strategies import (
    APART,
    BOTH,
    PLACEMENT_KEY,
    SHEDDING_KEY,
    SHEDS_ALONE,
    AnyRow,
    Role,
    catalogue,
)
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile, SnapshotFileError

SIMPLE: Final = short_name(ManagerKind.SIMPLE.class_name)
"""What the simple load manager does is named after it; how it places, by a key."""

UNUSABLE: Final = (SnapshotFileError, ConfigError, StrategyError, OSError)
"""What is raised when what was given cannot be used, and the words were right."""


class WrongWordError(ValueError):
    """Something typed that there is not; the text says what there is."""


def is_splitter(name: str) -> bool:
    return any(row.role is Role.SPLITTING and row.name != SIMPLE for row in _named(short_name(name)))


def role_of(name: str) -> Role:
    """Return whether a strategy sheds or places; one that does both sheds.

    Raises:
        WrongWordError: there is none of that name.
    """
    roles = {row.role for row in _named(name)} - {Role.SPLITTING}
    if not roles:
        raise WrongWordError(f"there is no strategy {name!r}; {in_its_place(name, {row.name for row in catalogue()})}")
    return Role.SHEDDING if Role.SHEDDING in roles else Role.PLACEMENT


def _named(name: str) -> list[AnyRow]:
    """Return the strategies of a name, which what the simple load manager does by itself bears in any form."""
    return [row for row in catalogue() if name in (row.name, row.class_name) or short_name(name) == row.name == SIMPLE]


def configured(
    found: SnapshotFile,
    conf: Path | None = None,
    changes: Collection[str] = (),
    strategy: str | None = None,
    placement: str | None = None,
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
    texts |= texts_of(changes)
    if strategy is not None and not is_splitter(strategy) and short_name(strategy) != SIMPLE:
        if role_of(strategy) is Role.SHEDDING:
            texts[SHEDDING_KEY] = strategy
            if short_name(strategy) in BOTH:
                texts[PLACEMENT_KEY] = strategy
            elif short_name(with_overrides(BrokerConfig(), texts).load_balancer_load_placement_strategy) in BOTH:
                texts[PLACEMENT_KEY] = APART
        else:
            texts[PLACEMENT_KEY] = strategy
            if short_name(with_overrides(BrokerConfig(), texts).load_balancer_load_shedding_strategy) in BOTH:
                texts[SHEDDING_KEY] = SHEDS_ALONE  # only placement is asked, so there is no pair to warn of
    if placement is not None:
        role_of(placement)
        texts[PLACEMENT_KEY] = placement
    return with_overrides(BrokerConfig(), texts)


def texts_of(changes: Collection[str]) -> dict[str, str]:
    """Return the keys of broker.conf that `changes`, of the form key=value, set, with their texts.

    Raises:
        WrongWordError: there is no such key.
    """
    known, texts = keys(), {}
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator:
            raise WrongWordError(f"--set {change}: give key=value")
        if key.strip() not in known:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.6)
            mend = f"did you mean {' or '.join(near)}?" if near else "docs/configuration.md lists the keys"
            raise WrongWordError(f"--set {change}: there is no key {key.strip()}; {mend}")
        texts[key.strip()] = text
    return texts


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
