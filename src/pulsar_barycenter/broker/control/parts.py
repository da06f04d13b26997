"""Creates the parts of a control plane, for one way to own bundles and one mode of writing metadata.

Only this module asks which load manager is configured and whether the leader writes all metadata. The result has the
same types in each case.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.broker.cluster.candidacy import AlwaysCandidate, Candidacy, CandidateOfLastResort
from pulsar_barycenter.broker.cluster.configuration_warnings import ConfigurationWarnings
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder, DynamicConfiguration
from pulsar_barycenter.broker.cluster.leader_writes import LeaderWrites
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH, Leadership
from pulsar_barycenter.broker.cluster.metadata_writing import EachBrokerWrites, MetadataWriting
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.control.leader_rounds import LeaderRounds
from pulsar_barycenter.broker.control.lock_way import LockWay
from pulsar_barycenter.broker.control.membership_decisions import MembershipDecisions
from pulsar_barycenter.broker.control.ownership_way import OwnershipWay
from pulsar_barycenter.broker.control.record_way import RecordWay, SuccessorChoice
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.contract import LoadManagerFactory
from pulsar_barycenter.broker.load_manager.switch import LoadManagerSwitch
from pulsar_barycenter.broker.lookup.channel_search import ChannelSearch
from pulsar_barycenter.broker.lookup.load_manager_migration import LoadManagerMigration
from pulsar_barycenter.broker.lookup.namespace_service import NamespaceService
from pulsar_barycenter.broker.lookup.owner_search import Affinities, OwnerSearch
from pulsar_barycenter.broker.lookup.refusing_brokers import RefusingBrokers, refuses_connections
from pulsar_barycenter.broker.lookup.service import ClusterLookup, TopicDirectory
from pulsar_barycenter.broker.lookup.shared_searches import SharedSearches
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.namespaces.cluster_policies import ClusterPolicyWatch
from pulsar_barycenter.broker.ownership.bundle_owner import BundleOwner
from pulsar_barycenter.broker.ownership.by_locks.lock_ownership import LockOwnership
from pulsar_barycenter.broker.ownership.channel.ownership_channel import OwnershipChannel
from pulsar_barycenter.broker.ownership.contract import NoLeadersTerm
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.broker.ownership.locks import BundleLock
from pulsar_barycenter.broker.ownership.own_namespaces import OwnNamespaces
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.installed import can_balance
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.request import TopicLoad, TrafficLimits
from pulsar_barycenter.load.strategies import check_change
from pulsar_barycenter.metadata.coordination.epochs import EpochGate
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle


class TopicStats:
    """The stats of the topics that this broker has loaded. They are empty until the registry of loaded topics is
    attached, after the broker's parts have been created.
    """

    def __init__(self) -> None:
        self.of_bundles: Callable[[], Mapping[str, NamespaceBundleStats]] = dict
        self.of_topics: Callable[[Bundle], Iterable[TopicLoad]] = lambda _bundle: ()


@dataclass(frozen=True, slots=True)
class ControlParts:
    config: ConfigHolder
    env: Environment
    incarnation: str
    writing: MetadataWriting
    dynamic_configuration: DynamicConfiguration
    warnings: ConfigurationWarnings
    bundles: BundleCache
    serving_log: ServingLog
    registration: Registration
    policies: ClusterPolicyWatch
    switch: LoadManagerSwitch
    leadership: Leadership
    balances: bool
    """Whether this broker can shed and split, see `load.installed`."""
    candidacy: Candidacy
    way: OwnershipWay
    own_namespaces: OwnNamespaces
    lookup: ClusterLookup
    namespaces: NamespaceService
    rounds: LeaderRounds
    decisions: MembershipDecisions
    topic_stats: TopicStats


@dataclass(frozen=True, slots=True)
class _WayBase:
    """The parts of the control plane that every `OwnershipWay`, by locks or by records, is created from."""

    config: ConfigHolder
    env: Environment
    incarnation: str
    bundles: BundleCache
    registration: Registration
    switch: LoadManagerSwitch
    lease_s: float
    leadership: Leadership
    serving_log: ServingLog
    affinities: Affinities
    migration: LoadManagerMigration


def metadata_writing(config: BrokerConfig, env: Environment) -> MetadataWriting:
    """Return the configured mode of writing metadata, on the store of `env`."""
    session_timeout_s = config.metadata_store_session_timeout_millis / 1000
    if config.leader_only_metadata_writes == "true":
        write = env.peers.write_by_leader
        return LeaderWrites(env.store, env.random, write, session_timeout_s=session_timeout_s)
    return EachBrokerWrites(env.store, session_timeout_s=session_timeout_s)


def control_parts(
    config: ConfigHolder,
    env: Environment,
    *,
    directory: TopicDirectory,
    load_manager: LoadManagerFactory,
    administration: MetadataStore,
    writing: MetadataWriting,
) -> ControlParts:
    """Create the parts of a control plane and return them.

    `config` has the broker's configuration. `env` gives clock, randomness and the metadata store, which must be the
    store of `writing`. `directory` finds topics, `load_manager` creates the load manager that the configuration names,
    and `administration` is the store for changes that administrators request.
    """
    store = env.store
    incarnation = f"{env.random.getrandbits(64):016x}"
    dynamic_configuration = DynamicConfiguration(administration, config)
    warnings = ConfigurationWarnings(config)
    bundles = BundleCache(store, default_bundles=lambda: config.current.default_number_of_namespace_bundles)
    refresh_after_s = config.current.metadata_store_cache_expiry_seconds
    registration = Registration(
        store, session_timeout_s=writing.former_session_s, source=env.random, refresh_after_s=refresh_after_s
    )
    policies = ClusterPolicyWatch(
        store, config.current.cluster_name, drained=lambda: config.current.barycenter_drained_brokers
    )
    switch = LoadManagerSwitch(config, registration, load_manager)
    config.add_check(check_change)
    serving_log = ServingLog(env.clock, incarnation)
    kind = _WAYS[manager_in_force(config.current)]
    base = _WayBase(
        config=config,
        env=env,
        incarnation=incarnation,
        bundles=bundles,
        registration=registration,
        switch=switch,
        lease_s=writing.lease_s,
        leadership=writing.leadership(kind.leader_path, refresh_after_s=refresh_after_s, source=env.random),
        serving_log=serving_log,
        affinities=Affinities(),
        migration=LoadManagerMigration(config, registration, env.random, lambda: serving_log.broker_id),
    )
    way = kind.make(base)
    way.ownership.handovers.observe = env.instruments.handed_over
    topic_stats = TopicStats()
    refusing_brokers = RefusingBrokers(refuses_connections, longest_s=writing.former_session_s * 1.2 + 2)
    balances = can_balance()
    return ControlParts(
        config=config,
        env=env,
        incarnation=incarnation,
        writing=writing,
        dynamic_configuration=dynamic_configuration,
        warnings=warnings,
        bundles=bundles,
        serving_log=serving_log,
        registration=registration,
        policies=policies,
        switch=switch,
        leadership=base.leadership,
        balances=balances,
        candidacy=AlwaysCandidate()
        if balances
        else CandidateOfLastResort(
            registration, base.leadership, by_records=manager_in_force(config.current) is ManagerKind.EXTENSIBLE
        ),
        way=way,
        own_namespaces=OwnNamespaces(store, way.ownership, session_timeout_s=writing.former_session_s),
        lookup=ClusterLookup(
            config,
            bundles,
            way.ownership,
            SharedSearches(bundles.require, way.search, way.ownership, registration, refusing_brokers),
            directory,
            base.migration,
            leaders_term=way.leaders_term,
        ),
        namespaces=NamespaceService(
            store,
            bundles,
            way.ownership,
            directory,
            base.affinities,
            lambda: switch.current,
            EpochGate(store, LEADER_PATH),
            topic_loads=lambda bundle: topic_stats.of_topics(bundle),
            traffic_limits=lambda: TrafficLimits.of(config.current),
        ),
        rounds=LeaderRounds(config, switch, registration, env.instruments),
        decisions=MembershipDecisions(config, env, switch),
        topic_stats=topic_stats,
    )


def _lock_way(base: _WayBase) -> OwnershipWay:
    config, store = base.config, base.env.store
    terms: LocalTerms[BundleLock] = LocalTerms(
        store,
        base.bundles,
        clock=base.env.clock,
        serving_log=base.serving_log,
        session_timeout_s=base.lease_s,
        unload_timeout_s=lambda: config.current.namespace_bundle_unloading_timeout_ms / 1000,
    )
    machine = LockOwnership(store, terms, incarnation=base.incarnation)
    machine.on_created(base.affinities.drop)
    leaders_term = NoLeadersTerm()
    ownership = BundleOwner(terms, machine, leaders_term)
    search = OwnerSearch(
        ownership,
        base.registration,
        base.leadership,
        lambda: base.switch.current,
        base.affinities,
        elsewhere=base.migration.candidate,
    )
    return LockWay(ownership, search, leaders_term)


def _record_way(base: _WayBase) -> OwnershipWay:
    channel = OwnershipChannel(
        base.config,
        base.env,
        base.bundles,
        base.registration,
        base.leadership,
        base.serving_log,
        base.incarnation,
        SuccessorChoice(base.switch).choose,
    )
    search = ChannelSearch(channel.ownership, lambda: base.switch.current, elsewhere=base.migration.candidate)
    return RecordWay(channel, search, base.leadership, base.switch, lambda: base.serving_log.broker_id)


@dataclass(frozen=True, slots=True)
class _WayKind:
    leader_path: str
    """The path of the leader election that brokers with this way of owning bundles hold."""
    make: Callable[[_WayBase], OwnershipWay]


_BY_LOCKS: Final = _WayKind(LEADER_PATH, _lock_way)
_WAYS: Final[Mapping[ManagerKind, _WayKind]] = {
    ManagerKind.NOOP: _BY_LOCKS,
    ManagerKind.MODULAR: _BY_LOCKS,
    ManagerKind.SIMPLE: _BY_LOCKS,
    ManagerKind.EXTENSIBLE: _WayKind(CHANNEL_LEADER_PATH, _record_way),
}
"""For each kind of load manager: how brokers with it own bundles."""
