"""The public interface for strategies of other packages: to write, to try and to ship them.

A shedding strategy chooses the bundles that leave their brokers, a placement strategy chooses the owner of a bundle.
Both are values of their settings that decide by their arguments alone: a `LoadSnapshot`, a memory, random numbers. So
the same strategy works in a live cluster, in `barycenter decide`, in `replay`, `advise` and `balance-bench`, and a test
calls it as a function.

A package offers a strategy by an entry point (docs/strategy-plugins.md); a configuration names it by its name.
`catalogue` lists all strategies that are installed, `read_snapshot` reads a snapshot, `run_round` shows what a leader
would do with it, `settings_of` reads a strategy's own settings, `strategy_page` documents them.
`pulsar_barycenter.replay` tries a strategy over time.

A shedder returns a plan. `ListedPlan` makes it from a list of `Shed` values, each with a sentence. Reasons of such
strategies have the codes `Code.SHEDS_BY_STRATEGY`, `MOVES_BY_STRATEGY`, `KEPT_BY_STRATEGY` and `CHOSEN_BY_STRATEGY`,
and the sentence in `detail`, so that every reader of a log understands them without the package.

What this module exports is public: it changes only with the major version.
"""

import random
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from pulsar_barycenter.config.broker_conf import ConfigError, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Placement, Refusal, Unload
from pulsar_barycenter.load.managers import ManagerKind, StrategyError
from pulsar_barycenter.load.placement.placer import Figures, PlacementChoice, Placer
from pulsar_barycenter.load.reasons import Alternative, Code, Compared, Reason, render
from pulsar_barycenter.load.rounds.round import RoundMemory, RoundOutcome, round_of
from pulsar_barycenter.load.shedding.listed_plan import ListedPlan, Shed
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, BundleTable, LoadSnapshot, MessageColumns
from pulsar_barycenter.load.strategies import Role, catalogue
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.load.strategy_page import strategy_page
from pulsar_barycenter.load.strategy_plugins import PluginError, settings_of
from pulsar_barycenter.snapshots.settings_in_force import read_with_settings
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFileError

__all__ = [
    "Alternative",
    "BrokerConfig",
    "BrokerTable",
    "BundleTable",
    "Code",
    "Compared",
    "ConfigError",
    "Figures",
    "ListedPlan",
    "LoadSnapshot",
    "ManagerKind",
    "MemoryDocument",
    "MessageColumns",
    "Placement",
    "PlacementChoice",
    "Placer",
    "PluginError",
    "Reason",
    "Refusal",
    "Role",
    "RoundMemory",
    "RoundOutcome",
    "Shed",
    "Shedder",
    "SheddingPlan",
    "SnapshotFileError",
    "StrategyError",
    "Unload",
    "catalogue",
    "config_of",
    "read_snapshot",
    "render",
    "run_round",
    "settings_of",
    "strategy_page",
]


def config_of(**keys: object) -> BrokerConfig:
    """Return the default configuration with these keys of broker.conf, given as `key=value`.

    Raises:
        ConfigError: a key is unknown, or a value is not allowed.

    >>> config_of(loadBalancerBrokerThresholdShedderPercentage=20).load_balancer_broker_threshold_shedder_percentage
    20
    """
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in keys.items()}
    return with_overrides(BrokerConfig(), texts)


def read_snapshot(path: str | PathLike[str], *, at: datetime | None = None) -> LoadSnapshot:
    """Return the load in a file or folder, as `barycenter decide` reads it.

    Args:
        path: A file of `barycenter snapshot`, a load report, a folder of load reports, or a data folder.
        at: The time of the state, for a data folder, with an offset from UTC. None: the newest.

    Raises:
        SnapshotFileError: the content has no known form, or is not valid.
        ConfigError: a broker.conf in a data folder is not valid.
        ValueError: `at` has no offset from UTC.
        OSError: a file cannot be read.

    >>> read_snapshot("docs/examples/snapshot.json").brokers.names[0]
    'broker-1:8080'
    """
    if at is not None and at.tzinfo is None:
        raise ValueError(f"{at} has no offset from UTC: give datetime(…, tzinfo=UTC)")
    return read_with_settings(Path(path), None if at is None else round(at.timestamp() * 1000)).snapshot


def run_round(
    snapshot: LoadSnapshot,
    config: BrokerConfig,
    *,
    manager: ManagerKind = ManagerKind.MODULAR,
    memory: RoundMemory[Any] | None = None,
    seed: int = 0,
) -> tuple[RoundOutcome, RoundMemory[Any]]:
    """Return what a leader would do with a snapshot if every unload succeeds, and the memory for the next round.

    The same arguments give the same result.

    Args:
        snapshot: The load on which the leader decides.
        config: The configuration, of `config_of`.
        manager: The load manager of the leader.
        memory: The memory that the call for the round before returned. None for the first round.
        seed: The seed of random choices.

    Raises:
        StrategyError: the configuration names a strategy that is not installed, or two that cannot be combined.

    >>> snapshot = read_snapshot("docs/examples/snapshot.json")
    >>> outcome, memory = run_round(snapshot, config_of(loadBalancerLoadSheddingStrategy="ThresholdShedder"))
    >>> outcome.moves[0].source
    'broker-1:8080'
    """
    leader = round_of(config, manager)
    return leader.run(snapshot, leader.start() if memory is None else memory, random.Random(seed))
