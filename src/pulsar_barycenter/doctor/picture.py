"""A plain value with the state of a cluster: each broker's answers, the leader's load data, the metadata store.

None means that a part could not be read; an empty collection means that it was read and is empty.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pulsar_barycenter.config.broker_conf import ConfigError, keys, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.sources import NotedChange
from pulsar_barycenter.doctor.finding import Unseen
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_kind
from pulsar_barycenter.load.policies import DRAINED_KEY, drained_names
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound, is_system_namespace

MANAGER_KEY: Final = "loadManagerClassName"
PLACE_KEY: Final = "loadManagerServiceUnitStateTableViewClassName"
LEADER: Final = "/loadbalance/leader"
CHANNEL_LEADER: Final = "/loadbalance/extension/leader"
"""The election path of brokers with the extensible load manager; LEADER is that of the other load managers."""
OWN_KEY: Final = "barycenterPulsarCompatibility"
"""Only brokers of Barycenter have this key."""


class Part(enum.Enum):
    """A part of the picture (all that the doctor read of a cluster) that a check may need; the value is the part's name
    in messages.
    """

    BROKERS = "the brokers"
    NAMESPACES = "the namespaces"
    SETTINGS = "the settings of the brokers"
    SNAPSHOT = "the leader's load data"
    WRITTEN_OWNERS = "the locks or records of owners"
    STORE = "the metadata store"
    LEDGERS = "the ledger folder"
    FILE = "broker.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """What one broker answered to the doctor's requests. If `failure` is not blank, the broker did not answer, and
    `failure` says why. A field is None if the broker did not return it.

    `clock_ms` is by how much the broker's clock is ahead of the doctor's, as the least and the greatest possible value.
    `leader` is the broker that this broker names as the leader, "" if it names none; `leads` is whether it acts as the
    leader itself. `owned` maps each bundle that it owns to whether it serves the bundle at present. `boundaries` and
    `policies` are those in its cache, by namespace. `report` is its own load report, which is only read from brokers of
    Apache Pulsar, whose leader returns no snapshot.
    """

    broker: str
    failure: str = ""
    version: str | None = None
    report: LocalBrokerData | None = None
    clock_ms: tuple[int, int] | None = None
    registered: frozenset[str] | None = None
    leader: str | None = None
    leads: bool | None = None
    owned: Mapping[str, bool] | None = None
    settings: Mapping[str, str] | None = None
    overrides: Mapping[str, str] | None = None
    dynamic_keys: frozenset[str] | None = None
    setting_changes: Mapping[str, NotedChange] | None = None
    boundaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        return not self.failure

    @property
    def owns_by_records(self) -> bool:
        """Whether the broker runs the extensible load manager, which has records of owners, not locks."""
        return self.settings is not None and is_extensible(self.settings.get(MANAGER_KEY, ""))


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """The boundaries of a namespace in the store; `failure` says why they are not known.

    `topics` is the number of persistent topics of each bundle that has topics; None if this was not queried.
    """

    name: str
    boundaries: tuple[str, ...] = ()
    failure: str = ""
    topics: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock of a bundle: the broker id of its holder, and whether the holder serves the bundle at present."""

    broker: str
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreView:
    """The content of the metadata store that the checks need.

    `brokers` maps each registered broker to its registration, None if that cannot be read. `leaders` maps each election
    path to the broker that is recorded there. `boundaries` are the boundaries of each namespace's bundles, `copies` the
    copies of them in the policies. `ledgers_folder` is the identity of the folder in which the brokers store ledgers.
    `unreadable` maps the path of each key that cannot be read to the reason.
    """

    url: str = ""
    brokers: Mapping[str, LocalBrokerData | None] = field(default_factory=dict)
    leaders: Mapping[str, str] = field(default_factory=dict)
    locks: Mapping[str, Lock] = field(default_factory=dict)
    records: Mapping[str, ServiceUnitStateData] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    overrides: Mapping[str, str] | None = None
    ledgers_folder: str = ""
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgersView:
    """The folder of ledgers as this machine sees it. `identity` is the text in the folder that distinguishes it from
    other folders, "" if it has none. `problems` are pairs of a problem and its repair.
    """

    folder: str
    identity: str = ""
    problems: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BookiesView:
    """The bookies on which the brokers keep messages: how many accept writes, each topic that lacks a ledger as
    (topic, ledger, reason), and the ledgers that no topic lists. `foreign` are the topics that only Java brokers can
    serve, as (topic, reason), `unreadable` those whose list of ledgers cannot be decoded, as (topic, reason). If
    `failure` is not blank, it says why the rest could not be read.
    """

    writable: int = 0
    lacking: tuple[tuple[str, int, str], ...] = ()
    unlisted: tuple[int, ...] = ()
    failure: str = ""
    foreign: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FileView:
    """The broker.conf of a broker: the keys that this version does not have, or why the file cannot be read."""

    file: str
    other_keys: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Picture:
    """The state of a cluster, as the doctor read it. `now_ms` is the time by the doctor's clock.

    `brokers` is None if no broker was queried, `namespaces` if they could not be listed. `pipeline_lag_s` comes from
    the leader's metrics; it is None unless the leader decides without the pipeline's windows. `pipeline_silent_s` is
    how long ago (s) the pipeline last looked for reports, by the leader's metrics: 0 if this is not known, for example
    because no pipeline ever ran; None if no leader returned it, or the leader is not to use a pipeline.
    """

    now_ms: int
    brokers: tuple[BrokerView, ...] | None = None
    namespaces: tuple[NamespaceView, ...] | None = None
    snapshot: SnapshotDocument | None = None
    pipeline_lag_s: float | None = None
    pipeline_silent_s: float | None = None
    store: StoreView | None = None
    ledgers: LedgersView | None = None
    bookies: BookiesView | None = None
    file: FileView | None = None
    unseen: tuple[Unseen, ...] = ()

    def has(self, part: Part) -> bool:
        match part:
            case Part.BROKERS:
                return self.brokers is not None
            case Part.NAMESPACES:
                return self.namespaces is not None or self.store is not None
            case Part.SETTINGS:
                return any(broker.settings is not None for broker in self.answering)
            case Part.SNAPSHOT:
                return self.snapshot is not None
            case Part.WRITTEN_OWNERS:
                by_leader = self.snapshot is not None and self.snapshot.extensible is not None
                return self.store is not None or by_leader
            case Part.STORE:
                return self.store is not None
            case Part.LEDGERS:
                return self.ledgers is not None
            case Part.FILE:
                return self.file is not None

    @cached_property
    def drained(self) -> tuple[str, ...]:
        """The drained brokers, by the setting in force on the first broker that returns it."""
        texts = ((broker.settings or {}).get(DRAINED_KEY) for broker in self.answering)
        return drained_names(next((text for text in texts if text is not None), ""))

    @property
    def drained_by(self) -> NotedChange | None:
        """The last change of the list of drained brokers, if it led to the present list; else None."""
        for broker in self.answering:
            change = (broker.setting_changes or {}).get(DRAINED_KEY)
            if change is not None and change.is_of(DRAINED_KEY, (broker.overrides or {}).get(DRAINED_KEY)):
                return change
        return None

    @cached_property
    def answering(self) -> tuple[BrokerView, ...]:
        return tuple(broker for broker in self.brokers or () if broker.answers)

    @cached_property
    def registered(self) -> frozenset[str]:
        """The registered brokers: those in the store; if it was not read, all that at least one broker names."""
        if self.store is not None:
            return frozenset(self.store.brokers)
        return frozenset().union(*(broker.registered or () for broker in self.answering))

    @cached_property
    def known_boundaries(self) -> Mapping[str, tuple[str, ...]]:
        """The boundaries of every namespace that has boundaries: from the store, else from the brokers."""
        if self.store is not None:
            return {**self.store.copies, **self.store.boundaries}
        return {namespace.name: namespace.boundaries for namespace in self.namespaces or () if not namespace.failure}

    @cached_property
    def bundles(self) -> Mapping[str, frozenset[str]]:
        """The bundles of each namespace whose boundaries cover the hash range without gaps and overlaps."""
        made = {}
        for name, boundaries in self.known_boundaries.items():
            try:
                bundles = NamespaceBundles.from_boundaries(NamespaceName.parse(name), boundaries)
            except (InvalidNameError, InvalidBundlesError):
                continue
            made[name] = frozenset(map(str, bundles.bundles))
        return made

    @cached_property
    def holders(self) -> Mapping[str, tuple[str, ...]]:
        """The brokers that say that they serve a bundle, sorted, by bundle."""
        holders: dict[str, list[str]] = {}
        for broker in self.answering:
            for bundle, serves in (broker.owned or {}).items():
                if serves:
                    holders.setdefault(bundle, []).append(broker.broker)
        return {bundle: tuple(sorted(brokers)) for bundle, brokers in holders.items()}

    @cached_property
    def written_owners(self) -> Mapping[str, tuple[str, str]]:
        """The recorded owner of each bundle, and where it is recorded: a lock, or a record of the ownership channel."""
        written: dict[str, tuple[str, str]] = {}
        if self.snapshot is not None and self.snapshot.extensible is not None:
            written.update((bundle, (broker, "record")) for bundle, broker in self.snapshot.extensible.owners.items())
        if self.store is not None:
            for bundle, record in self.store.records.items():
                if record.owner:
                    written[bundle] = (record.owner, "record")
            written.update((bundle, (lock.broker, "lock")) for bundle, lock in self.store.locks.items())
        return written

    def configurations(self) -> Iterator[tuple[str, BrokerConfig]]:
        """Yield the configuration in force on each broker of Barycenter that returned it.

        A configuration that does not parse is left out; `unparsed_settings` reports it.
        """
        for broker in self.answering:
            if broker.settings is not None and OWN_KEY in broker.settings:
                try:
                    yield broker.broker, configuration_of(broker.settings)
                except ConfigError:
                    continue


def configuration_of(settings: Mapping[str, str]) -> BrokerConfig:
    """Return the configuration of a broker from the texts of its settings; unknown keys are ignored.

    Raises:
        ConfigError: a value is not allowed.
    """
    return with_overrides(BrokerConfig(), {key: text for key, text in settings.items() if key in keys()})


def is_extensible(class_name: str) -> bool:
    try:
        return manager_kind(class_name) is ManagerKind.EXTENSIBLE
    except StrategyError:
        return False


def namespace_of(bundle: str) -> str:
    return bundle.rpartition("/")[0]


def is_users(namespace: str) -> bool:
    """Return whether a namespace is neither a broker's own nor the system's (such namespaces exist without
    policies).
    """
    try:
        name = NamespaceName.parse(namespace)
    except InvalidNameError:
        return True
    return not (is_broker_bound(name) or is_system_namespace(name))
