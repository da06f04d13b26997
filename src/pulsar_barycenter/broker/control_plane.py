"""The part of a broker that coordinates: everything but topics, sockets and REST, wired together.

Order of life: `start` (reads the store), `set_identity` (the ports are known), `join` (elects, owns its own
namespaces, registers: from now on it is given bundles), `leave` (hands everything over), `close`.
Source: the order of Pulsar's `PulsarService.start` and `closeAsync`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.configuration_warnings import ConfigurationWarnings
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder, DynamicConfiguration
from pulsar_barycenter.broker.cluster.leader_writes import LeaderWrites
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH, Duty, Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.cluster.writing_modes import refuse_direct_writers, refuse_leader_writers
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import ChoosesSuccessors, LoadManager, LoadManagerFactory
from pulsar_barycenter.broker.load_manager.switch import LoadManagerSwitch
from pulsar_barycenter.broker.lookup.channel_search import ChannelSearch
from pulsar_barycenter.broker.lookup.load_manager_migration import LoadManagerMigration
from pulsar_barycenter.broker.lookup.namespace_service import NamespaceService
from pulsar_barycenter.broker.lookup.owner_search import Affinities, OwnerSearch, Search
from pulsar_barycenter.broker.lookup.refusing_brokers import RefusingBrokers, refuses_connections
from pulsar_barycenter.broker.lookup.service import ClusterLookup, TopicDirectory
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.namespaces.cluster_policies import ClusterPolicyWatch
from pulsar_barycenter.broker.ownership.bundle_owner import Topics
from pulsar_barycenter.broker.ownership.cache import OwnershipCache
from pulsar_barycenter.broker.ownership.channel.ownership_channel import OwnershipChannel
from pulsar_barycenter.broker.ownership.contract import Ownership
from pulsar_barycenter.broker.ownership.mixed_ownership import BY_LOCKS, refuse_mixed_ownership
from pulsar_barycenter.broker.ownership.own_namespaces import OwnNamespaces
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.periodic import PeriodicTasks
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.request import TopicLoad, TrafficLimits
from pulsar_barycenter.load.strategies import check_change
from pulsar_barycenter.logs.audit_log import AuditLog
from pulsar_barycenter.logs.decision_log import DecisionLog
from pulsar_barycenter.metadata.coordination.epochs import Epoch, EpochGate, Predecessor
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import heartbeat_namespaces

log = structlog.get_logger(__name__)

_SEE_OFF_S: Final = 15.0
"""How long a leader that leaves goes on to lead for others that leave."""
_SEE_OFF_PAUSE_S: Final = 0.05
_STORE_ANSWERS_S: Final = 15.0
"""For so long a broker that starts asks a store that does not answer."""


class ControlPlane:
    def __init__(
        self,
        config: ConfigHolder,
        env: Environment,
        *,
        directory: TopicDirectory,
        load_manager: LoadManagerFactory,
        administration: MetadataStore | None = None,
        election: MetadataStore | None = None,
        leader_writes: LeaderWrites | None = None,
    ) -> None:
        """`administration` is the store for what administrators change, `election` that in which a leader is elected;
        that of `env` unless given. `leader_writes` is there where the leader writes for all."""
        self.config = config
        self.env = env
        self.incarnation = f"{env.random.getrandbits(64):016x}"
        self.started_at_ms = env.clock.now_ms()
        self._bundle_stats: Callable[[], Mapping[str, NamespaceBundleStats]] = dict
        self._topic_loads: Callable[[Bundle], Iterable[TopicLoad]] = lambda _bundle: ()
        session_timeout_s = config.current.metadata_store_session_timeout_millis / 1000
        former_session_s = lease_s = session_timeout_s
        store = env.store
        self._election = election or store
        self.leader_writes = leader_writes
        if leader_writes is not None:  # a former life may have led: its key goes first, its session then
            former_session_s, lease_s = session_timeout_s * 2, leader_writes.times.lease_s
        self.dynamic_configuration = DynamicConfiguration(administration or store, config)
        self._warnings = ConfigurationWarnings(config)
        self.bundles = BundleCache(store, default_bundles=lambda: config.current.default_number_of_namespace_bundles)
        self.serving_log = ServingLog(env.clock, self.incarnation)
        refresh_after_s = config.current.metadata_store_cache_expiry_seconds
        self.registration = Registration(
            store, session_timeout_s=former_session_s, source=env.random, refresh_after_s=refresh_after_s
        )
        self.policies = ClusterPolicyWatch(
            store, config.current.cluster_name, drained=lambda: config.current.barycenter_drained_brokers
        )
        self._switch = LoadManagerSwitch(config, self.registration, load_manager)
        config.add_check(check_change)
        uses_channel = manager_in_force(config.current) is ManagerKind.EXTENSIBLE
        self.leadership = Leadership(
            self._election,
            CHANNEL_LEADER_PATH if uses_channel else LEADER_PATH,
            writes=election and store,
            refresh_after_s=refresh_after_s,
            source=env.random,
        )
        self.leadership.on_begin(self._tell_elected)
        if leader_writes is not None:
            leader_writes.attach(self.leadership)
        self.channel: OwnershipChannel | None = None
        self.ownership: Ownership
        self.search: Search
        affinities = Affinities()
        migration = LoadManagerMigration(
            config, self.registration, env.random, lambda: "" if self.urls is None else self.urls.broker_id
        )
        if uses_channel:
            self.channel = OwnershipChannel(
                config,
                env,
                self.bundles,
                self.registration,
                self.leadership,
                self.serving_log,
                self.incarnation,
                self._choose_successor,
            )
            self.ownership = self.channel.ownership
            self.search = ChannelSearch(
                self.channel.ownership, lambda: self.load_manager, elsewhere=migration.candidate
            )
        else:
            cache = OwnershipCache(
                store,
                self.bundles,
                clock=env.clock,
                serving_log=self.serving_log,
                incarnation=self.incarnation,
                session_timeout_s=lease_s,
                unload_timeout_s=lambda: config.current.namespace_bundle_unloading_timeout_ms / 1000,
            )
            self.ownership = cache
            self.search = OwnerSearch(
                cache,
                self.registration,
                self.leadership,
                lambda: self.load_manager,
                affinities,
                elsewhere=migration.candidate,
            )
        self.ownership.handovers.observe = env.instruments.handed_over
        self.own_namespaces = OwnNamespaces(store, self.ownership, session_timeout_s=former_session_s)
        self.lookup = ClusterLookup(
            config,
            self.bundles,
            self.ownership,
            self.registration,
            self.search,
            directory,
            migration,
            RefusingBrokers(refuses_connections, longest_s=former_session_s * 1.2 + 2),
            leaders_topics=None if self.channel is None else self.channel.leaders_topics,
        )
        self.namespaces = NamespaceService(
            store,
            self.bundles,
            self.ownership,
            directory,
            affinities,
            lambda: self.load_manager,
            EpochGate(store, LEADER_PATH),
            topic_loads=lambda bundle: self._topic_loads(bundle),
            traffic_limits=lambda: TrafficLimits.of(config.current),
        )
        self.urls: ServiceUrls | None = None
        self.audit: AuditLog | None = None
        """What administrators change by this broker; there once it has an identity."""
        self._periodic = PeriodicTasks()
        self._brokers_changed = asyncio.Event()
        self.registration.on_change(self._brokers_changed.set)

    @property
    def load_manager(self) -> LoadManager:
        """The load manager of now; another one after `loadManagerClassName` changed."""
        return self._switch.current

    def attach(
        self,
        topics: Topics,
        bundle_stats: Callable[[], Mapping[str, NamespaceBundleStats]],
        topic_loads: Callable[[Bundle], Iterable[TopicLoad]],
    ) -> None:
        """Give the loaded topics to ownership, and their figures to the load manager and to whoever splits."""
        self.ownership.attach_topics(topics)
        self._bundle_stats = bundle_stats
        self._topic_loads = topic_loads

    async def start(self) -> None:
        """Read what the store says: dynamic configuration, registered brokers, policies of the cluster."""
        await self.dynamic_configuration.start()
        self._warnings.start()
        await self.registration.start()
        await self.policies.start()

    def set_identity(self, urls: ServiceUrls) -> None:
        """Say under which URLs this broker is reached; makes the load manager, which is not started yet."""
        self.urls = urls
        self.serving_log.broker_id = urls.broker_id
        data = Path(self.config.current.barycenter_data_dir)
        self.audit = AuditLog(urls.broker_id, data / "audit")
        self._switch.make(
            LoadManagerContext(
                config=self.config,
                env=self.env,
                urls=urls,
                incarnation=self.incarnation,
                started_at_ms=self.started_at_ms,
                registration=self.registration,
                bundles=self.bundles,
                bundle_stats=lambda: self._bundle_stats(),
                owned_bundles=self.ownership.owned_bundles,
                is_leader=self.leadership.may_act,
                leader_epoch=self.leadership.epoch,
                leader_store=self.leadership.store,
                boundaries=self._boundaries,
                channel=None if self.channel is None else self.channel.ownership,
                system_topics=None if self.channel is None else self.channel.topics,
                decisions=DecisionLog(urls.broker_id, data / "decisions"),
                policies=self.policies,
            )
        )
        self.search.set_identity(urls)
        self.ownership.set_identity(urls)

    async def elect(self) -> None:
        """Where the leader writes for all, find one, perhaps this broker: before that nothing can be written.

        Raises:
            MixedWritersError: brokers run that write themselves.
            MetadataError: nobody led for long, or the store did not answer.
        """
        if self.leader_writes is not None:
            assert self.urls is not None
            await self._lead()
            await self.leader_writes.open(self.urls.broker_id)
            await refuse_direct_writers(
                self._election, self.leadership.path, within_s=self.leader_writes.times.timeout_s * 1.2 + 2
            )

    async def join(self) -> None:
        """Become a member of the cluster; registered, so given bundles, only at the end.

        Raises:
            BrokerIdInUseError: another live process has this broker's id.
            RecordsElsewhereError: the ownership records are in another place than this broker is told.
            MixedOwnershipError: brokers run that keep ownership so that this one may not run beside them.
            MixedWritersError: brokers run that have the leader write, which this one does not.
            OwnNamespaceError: a heartbeat namespace could not be owned.
            MetadataError: the store did not answer.
        """
        assert self.urls is not None
        await self._refuse_mixed_writers()
        await self.registration.await_id_free(self.urls.broker_id)
        await self._refuse_mixed_ownership()
        if self.channel is not None:  # whoever owns by records has to be registered before
            await self._switch.start()
            await self._refuse_mixed_ownership()
        if not self.leadership.is_started:
            await self._lead()
        config = self.config.current
        await self.own_namespaces.own(
            heartbeat_namespaces(config.cluster_name, self.urls.broker_id), config.bootstrap_namespaces
        )
        if self.channel is None:
            await self._switch.start()
            await self._refuse_mixed_ownership()
        await self._refuse_mixed_writers()
        self.ownership.joined()
        self._warnings.learn_network(self.load_manager.load_report().bandwidth_in.limit)
        self._periodic.start(
            "load report",
            self._write_report,
            lambda: self.config.current.load_balancer_report_update_min_interval_millis / 1000,
        )

    async def leave(self, *, reason: str, max_per_second: float = 0) -> int:
        """Hand everything over: no new bundles, another leader, then one bundle after the other; return how many."""
        await self.own_namespaces.close()
        self.ownership.refuse_acquisitions("this broker is leaving the cluster")
        await self._switch.settle()
        tell = partial(self._tell_handed_over, reason)
        if self.channel is not None:  # it has to be known until the last bundle has another owner
            self.leadership.decline()  # it accepts no connections any more, so could not serve the internal topics
            if self._switch.is_made and isinstance(self.load_manager, ChoosesSuccessors):
                await self.load_manager.announce_leaving()
            handed_over = await self.namespaces.hand_over_all(reason=reason, max_per_second=max_per_second, tell=tell)
            if self.leadership.is_leader():
                await self._see_others_off()
            if self.leader_writes is None:  # else it goes on to write until nothing is left to be written
                await self.leadership.resign()
            await self._disable()
            return handed_over
        await self._disable()
        if self.leader_writes is None:
            await self.leadership.resign()
        return await self.namespaces.hand_over_all(reason=reason, max_per_second=max_per_second, tell=tell)

    async def _see_others_off(self) -> None:
        """Serve the ownership channel until others that are leaving, too, have handed over by it, or for a while.

        Another leader would have to be one of those that stay, and there may be none: a whole cluster is being stopped.
        """
        assert self.channel is not None
        assert self.urls is not None
        manager = self.load_manager
        with suppress(TimeoutError, MetadataError):
            async with asyncio.timeout(_SEE_OFF_S):
                while isinstance(manager, ChoosesSuccessors):
                    others = await manager.leaving_brokers() - {self.urls.broker_id}
                    if others.isdisjoint(self.channel.ownership.concerned()):
                        return
                    await asyncio.sleep(_SEE_OFF_PAUSE_S)

    async def _disable(self) -> None:
        if self._switch.is_made:
            with suppress(MetadataError):
                await self.load_manager.disable()

    def _tell_handed_over(self, why: str, bundle: Bundle) -> None:
        """Keep it among the decisions, if the load manager keeps any: `explain` tells where a bundle went and why."""
        decisions = getattr(self.load_manager, "decisions", None) if self._switch.is_made else None
        if isinstance(decisions, DecisionLog) and self.urls is not None:
            reason = Reason(code=Code.BROKER_LEAVES, subject=str(bundle), detail=why)
            at_ms = self.env.clock.now_ms()
            manager = manager_in_force(self.config.current)
            self.env.instruments.decided("unload", reason.code)
            decisions.record(at_ms, "unload", reason, bundle=str(bundle), source=self.urls.broker_id, manager=manager)

    def _tell_elected(self, epoch: Epoch) -> None:
        """Keep it among the decisions that this broker leads from now on, and what became of who did before."""
        decisions = getattr(self.load_manager, "decisions", None) if self._switch.is_made else None
        if isinstance(decisions, DecisionLog) and self.urls is not None:
            me, before = self.urls.broker_id, epoch.before
            reason = Reason(code=_why_elected(me, before), subject=me, detail=f"leader epoch {epoch.number}")
            decisions.record(
                self.env.clock.now_ms(),
                "elect",
                reason,
                source="" if before is None else before.broker_id,
                destination=me,
                manager=manager_in_force(self.config.current),
                epoch=epoch.number,
            )

    async def close(self) -> None:
        """End everything that is left, without handing over. Idempotent."""
        self.ownership.refuse_acquisitions("this broker is stopped")
        await self.own_namespaces.close()
        await self._periodic.close()
        if self.leader_writes is None:
            await self.leadership.resign()
        else:
            self.leader_writes.store.be_brief()
        await self.lookup.close()
        await self.namespaces.close()
        await self._switch.settle()
        if self._switch.is_made:
            with suppress(MetadataError):
                await self.load_manager.stop()
        await (self.ownership if self.channel is None else self.channel).close()
        await self.registration.close()
        if self.leader_writes is not None:
            await self.leader_writes.close()
        await self.leadership.close()
        self.bundles.close()
        await self.policies.close()
        await self.dynamic_configuration.close()

    def _leader_duties(self) -> tuple[Duty, ...]:
        def current_minutes(key: str) -> Callable[[], float]:
            return lambda: float(getattr(self.config.current, key)) * 60

        shedding_s = current_minutes("load_balancer_shedding_interval_minutes")
        if self.channel is not None:
            return (
                Duty("load shedding", self._shed, shedding_s),
                self.channel.monitor_duty(),
                self.channel.syncer_duty(),
            )
        quotas_s = current_minutes("load_balancer_resource_quota_update_interval_minutes")
        return (
            Duty("load shedding", self._shed, shedding_s),
            Duty("split check", self._check_splits, shedding_s, wake=self._brokers_changed),
            Duty("resource quotas", self._write_quotas, quotas_s),
        )

    async def _lead(self) -> None:
        """Take part in the election."""
        assert self.urls is not None
        web_url = self.urls.web_url or self.urls.web_url_tls
        await self.leadership.start(self.urls.broker_id, web_url, self._leader_duties())

    async def _refuse_mixed_writers(self) -> None:
        if self.leader_writes is None:
            await refuse_leader_writers(self.env.store, within_s=_STORE_ANSWERS_S)

    async def _refuse_mixed_ownership(self) -> None:
        assert self.urls is not None
        mine = BY_LOCKS if self.channel is None else self.channel.mode
        class_name = manager_in_force(self.config.current).class_name
        await refuse_mixed_ownership(
            self.env.store,
            self.registration,
            mine,
            self.urls.broker_id,
            class_name,
            is_synced=self.config.current.load_balancer_service_unit_table_view_syncer != "None",
        )

    async def _choose_successor(self, bundle: Bundle, without: Collection[str]) -> str | None:
        """Return who shall own a bundle, other than some brokers; None: nobody can.

        Raises:
            BundleNotAcquiredError: the choice failed.
        """
        manager = self.load_manager
        assert isinstance(manager, ChoosesSuccessors), f"{type(manager).__name__} chooses no successors"
        try:
            placement = await manager.select_successor(bundle, without)
        except MetadataError:
            raise
        except Exception as error:
            log.exception("placement_failed", bundle=str(bundle))
            raise BundleNotAcquiredError(bundle, f"no broker could be chosen: {error}") from error
        return None if placement is None else placement.broker

    async def _boundaries(self, bundle: str) -> Sequence[int]:
        algorithm = self.config.current.default_namespace_bundle_split_algorithm
        return await self.namespaces.boundaries_of(Bundle.parse(bundle), algorithm)

    async def _shed(self) -> None:
        if self.config.current.load_balancer_enabled:
            with self.env.instruments.round("shed"):
                await self.load_manager.shed()

    async def _check_splits(self) -> None:
        if self.config.current.load_balancer_enabled:
            await self.load_manager.check_splits()

    async def _write_quotas(self) -> None:
        if self.config.current.load_balancer_enabled:
            with self.env.instruments.round("quotas"):
                await self.load_manager.write_resource_quotas()

    async def _write_report(self) -> None:
        if self.config.current.load_balancer_enabled:
            await self.load_manager.write_report()


def _why_elected(broker_id: str, before: Predecessor | None) -> Code:
    if before is None:
        return Code.FIRST_LEADER
    if before.has_released:
        return Code.LEADER_RELEASED
    return Code.LEADS_AGAIN if before.broker_id == broker_id else Code.LEADER_GONE
