"""Chooses the configuration, the load manager and the strategies for a decision, and reads a shedder's memory."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.config.broker_conf import (
    ConfigError,
    keys,
    load_broker_conf,
    read_conf_text,
    read_pairs,
    similar_keys,
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
"""The strategies of the simple load manager have its name; a key selects how it places."""

UNUSABLE: Final = (SnapshotFileError, ConfigError, StrategyError, OSError)
"""Errors in the content of files and values; a wrong name in the command line is a `WrongWordError`."""


class WrongWordError(ValueError):
    """The command line has the name of a strategy, setting or load manager that does not exist; the text lists the
    names that exist.
    """


def is_splitter(name: str) -> bool:
    return any(row.role is Role.SPLITTING and row.name != SIMPLE for row in _named(short_name(name)))


def role_of(name: str) -> Role:
    """Return the role of a strategy, SHEDDING or PLACEMENT; SHEDDING for a strategy that both sheds and places.

    Raises:
        WrongWordError: there is no shedding or placement strategy of that name.
    """
    roles = {row.role for row in _named(name)} - {Role.SPLITTING}
    if not roles:
        raise WrongWordError(f"there is no strategy {name!r}; {in_its_place(name, {row.name for row in catalogue()})}")
    return Role.SHEDDING if Role.SHEDDING in roles else Role.PLACEMENT


def _named(name: str) -> list[AnyRow]:
    """Return the strategies with this name or class name. For the simple load manager, its name with or without the
    package matches its strategies.
    """
    return [row for row in catalogue() if name in (row.name, row.class_name) or short_name(name) == row.name == SIMPLE]


def configured(
    found: SnapshotFile,
    conf: Path | None = None,
    changes: Collection[str] = (),
    strategy: str | None = None,
    placement: str | None = None,
) -> BrokerConfig:
    """Return the configuration for a decision on a snapshot: the result of `configuration_of` for the configuration
    that came with the snapshot `found` and the other arguments. Raises what `configuration_of` does.
    """
    return configuration_of(found.configuration, conf, changes, strategy, placement)


def configuration_of(
    configuration: Mapping[str, str],
    conf: Path | None = None,
    changes: Collection[str] = (),
    strategy: str | None = None,
    placement: str | None = None,
) -> BrokerConfig:
    """Return the configuration with which a decision is made, from several sources.

    It starts with `configuration`, of which unknown keys are ignored. `conf` overrides it, then `changes` (key=value),
    then the strategies that `strategy` and `placement` name.

    Raises:
        WrongWordError: a key or a strategy does not exist.
        ConfigError: a value is not allowed, or `conf` is not a valid broker.conf.
        OSError: the file cannot be read.
    """
    known = keys()
    texts = {key: text for key, text in configuration.items() if key in known}
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
                texts[SHEDDING_KEY] = SHEDS_ALONE  # only placement runs, so a warning about the pair would mislead
    if placement is not None:
        role_of(placement)
        texts[PLACEMENT_KEY] = placement
    return with_overrides(BrokerConfig(), texts)


def texts_of(changes: Collection[str]) -> dict[str, str]:
    """Return the keys of broker.conf that `changes` (key=value) set, with their texts.

    Raises:
        WrongWordError: a key does not exist, or a change has no `=`.
    """
    known, texts = keys(), {}
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator:
            raise WrongWordError(f"--set {change}: give key=value")
        if key.strip() not in known:
            raise WrongWordError(f"--set {change}: there is no key {key.strip()}; {similar_keys(key.strip())}")
        texts[key.strip()] = text
    return texts


def read_memory(file: Path) -> MemoryDocument:
    """Return the memory of a shedder from a file: what the shedder keeps from one round for the next, such as former
    usages.

    Raises:
        SnapshotFileError: the file does not contain a memory, or the memory is empty.
        OSError: the file cannot be read.
    """
    accepted = 'give a file of --save-history: {"usage": {"<broker>": <fraction>}, "lowHits": {…}, "highHits": {…}}'
    try:
        memory = decode_json(file.read_bytes(), MemoryDocument)
    except msgspec.DecodeError as error:
        raise SnapshotFileError(file, str(error), accepted) from error
    if memory == MemoryDocument():
        raise SnapshotFileError(
            file, "the memory of the shedder in this file is empty, so there is nothing to use", accepted
        )
    return memory


def manager_of(found: SnapshotFile, strategy: str | None) -> ManagerKind:
    """Return the load manager that decides on the snapshot `found`: the load manager to which `strategy` belongs; None:
    the one that the brokers run.

    The modular and the simple load manager can decide on any snapshot.

    Raises:
        WrongWordError: the strategy needs data of the extensible load manager, which the snapshot lacks.
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
        f"{short_name(strategy)} needs load data of the extensible load manager; {found.source} has none. Choose a"
        " strategy of the modular load manager, or a snapshot of brokers with the extensible load manager"
    )
