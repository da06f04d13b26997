"""The coordinating part of a broker: everything except topics, sockets and REST.

Order: `start` reads the store. `elect` takes part in the election first, if the leader writes all metadata.
`set_identity` follows when the ports are known. `join` takes part in the election, owns the broker's own namespaces and
registers the broker; from then on it gets bundles. `leave` hands all bundles over, and `close` ends everything.
`control` makes the parts for one way to own bundles and one mode of writing metadata. Source: the order of Pulsar's
`PulsarService.start` and `closeAsync`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.control.ownership_way import Departure
from pulsar_barycenter.broker.control.parts import ControlParts
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import LoadManager
from pulsar_barycenter.broker.ownership.bundle_topics import Topics
from pulsar_barycenter.broker.ownership.mixed_ownership import refuse_mixed_ownership
from pulsar_barycenter.broker.periodic import PeriodicTasks
from pulsar_barycenter.cluster_logs.audit_log import AuditLog
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.managers import manager_in_force
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.request import TopicLoad
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import heartbeat_namespaces


class ControlPlane:
    def __init__(self, parts: ControlParts) -> None:
        self._parts = parts
        self.config = parts.config
        self.env = parts.env
        self.incarnation = parts.incarnation
        self.writing = parts.writing
        self.dynamic_configuration = parts.dynamic_configuration
        self.bundles = parts.bundles
        self.registration = parts.registration
        self.policies = parts.policies
        self.leadership = parts.leadership
        self.way = parts.way
        self.rounds = parts.rounds
        self.ownership = parts.way.ownership
        self.lookup = parts.lookup
        self.namespaces = parts.namespaces
        self.urls: ServiceUrls | None = None
        self.audit: AuditLog | None = None
        """The log of administrators' changes on this broker; None until it has an identity."""
        self._started_at_ms = parts.env.clock.now_ms()
        self._switch = parts.switch
        self._periodic = PeriodicTasks()
        parts.leadership.on_begin(lambda epoch: parts.decisions.elected(epoch, parts.serving_log.broker_id))

    @property
    def load_manager(self) -> LoadManager:
        """The present load manager. Do not store it, because it is replaced when `loadManagerClassName` changes."""
        return self._switch.current

    def attach(
        self,
        topics: Topics,
        bundle_stats: Callable[[], Mapping[str, NamespaceBundleStats]],
        topic_loads: Callable[[Bundle], Iterable[TopicLoad]],
    ) -> None:
        """Give the control plane the loaded topics of this broker: ownership closes and opens `topics`, the load
        manager reads `bundle_stats`, and the split algorithms read `topic_loads`.
        """
        self.ownership.attach_topics(topics)
        self._parts.topic_stats.of_bundles = bundle_stats
        self._parts.topic_stats.of_topics = topic_loads

    # ---- start ----

    async def start(self) -> None:
        """Read dynamic configuration, registered brokers and policies of the cluster from the store, and follow their
        changes. This does not register the broker.
        """
        await self.dynamic_configuration.start()
        self._parts.warnings.start()
        await self.registration.start()
        await self.policies.start()

    async def elect(self, urls: ServiceUrls) -> None:
        """If the leader writes all metadata, set the identity, take part in the election and wait for a leader, which
        may be this broker. Before this returns, nothing can be written. If each broker writes for itself, do nothing.

        Raises:
            MixedWritersError: brokers that write metadata themselves are running.
            MetadataError: there was no leader for a long time, or the store did not answer.
        """

        async def lead() -> None:
            self.set_identity(urls)
            await self._lead(urls)

        await self.writing.open(urls.broker_id, lead)

    def set_identity(self, urls: ServiceUrls) -> None:
        """Give all parts the id and URLs of this broker, and create the load manager, which is not started.
        Idempotent.
        """
        if self.urls is not None:
            return
        self.urls = urls
        self._parts.serving_log.broker_id = urls.broker_id
        data = Path(self.config.current.barycenter_data_dir)
        self.audit = AuditLog(urls.broker_id, data / "audit")
        self._switch.make(
            LoadManagerContext(
                config=self.config,
                env=self.env,
                urls=urls,
                incarnation=self.incarnation,
                started_at_ms=self._started_at_ms,
                registration=self.registration,
                bundles=self.bundles,
                bundle_stats=lambda: self._parts.topic_stats.of_bundles(),
                owned_bundles=self.ownership.owned_bundles,
                is_leader=self.leadership.may_act,
                leader_epoch=self.leadership.epoch,
                leader_store=self.leadership.store,
                boundaries=self._boundaries,
                ownership=self.way.changes,
                decisions=DecisionLog(urls.broker_id, data / "decisions"),
                policies=self.policies,
                balances=self._parts.balances,
            )
        )
        self.way.search.set_identity(urls)
        self.ownership.set_identity(urls)

    async def join(self) -> None:
        """Join the cluster. Only at the end is the broker registered, so that it gets bundles.

        Raises:
            BrokerIdInUseError: another live process has this broker's id.
            RecordsElsewhereError: this broker's configuration does not name the store in which the ownership records
                are.
            MixedOwnershipError: a registered broker owns bundles in another way (locks or records), so this broker may
                not run together with it.
            MixedWritersError: brokers that use the other mode of writing metadata are running.
            OwnNamespaceError: a heartbeat namespace could not be owned.
            MetadataError: the store did not answer.
        """
        urls = self._identity()
        await self.writing.refuse_others()
        await self.registration.await_id_free(urls.broker_id)
        await self._refuse_mixed_ownership()
        await self.way.join(self._register, self._own_namespaces)
        await self.writing.refuse_others()
        self.ownership.joined()
        self._parts.warnings.learn_network(self.load_manager.load_report().bandwidth_in.limit)
        self._periodic.start(
            "load report",
            self.rounds.write_report,
            lambda: self.config.current.load_balancer_report_update_min_interval_millis / 1000,
        )

    async def _register(self) -> None:
        """Start the load manager, which registers this broker. Then check once more that no registered broker owns
        bundles in another way, which would exclude this one.

        Because of this second check, of two brokers that start at the same time, at least one finds the other.
        """
        await self._switch.start()
        await self._refuse_mixed_ownership()

    async def _own_namespaces(self) -> None:
        """Own the namespaces that belong to this broker alone. If this broker does not take part in the leader election
        yet, let it take part first, because the leader assigns bundles.
        """
        urls, config = self._identity(), self.config.current
        if not self.leadership.is_started:
            await self._lead(urls)
        await self._parts.own_namespaces.own(
            heartbeat_namespaces(config.cluster_name, urls.broker_id), config.bootstrap_namespaces
        )

    async def _lead(self, urls: ServiceUrls) -> None:
        """Let this broker take part in the leader election, if and when its `Candidacy` decides so. While it leads, it
        does the leader's duties.
        """
        await self._parts.candidacy.start(urls.broker_id)
        duties = self.way.leader_duties(self.rounds)
        await self.leadership.start(urls.broker_id, urls.web_url or urls.web_url_tls, duties)

    async def _refuse_mixed_ownership(self) -> None:
        await refuse_mixed_ownership(
            self.env.store,
            self.registration,
            self.way.mode,
            self._identity().broker_id,
            manager_in_force(self.config.current).class_name,
            is_synced=self.config.current.load_balancer_service_unit_table_view_syncer != "None",
        )

    # ---- end ----

    async def leave(self, *, reason: str, max_per_second: float = 0) -> int:
        """Leave the cluster: accept no more bundles, resign as leader, and release every bundle; the `OwnershipWay`
        decides the order. Return the number of released bundles. `max_per_second` limits how fast bundles are released;
        0: no limit.
        """
        await self._parts.own_namespaces.close()
        await self._parts.candidacy.close()
        self.ownership.refuse_acquisitions("this broker is leaving the cluster")
        await self._switch.settle()
        me = self._identity().broker_id
        hand_over = partial(
            self.namespaces.hand_over_all,
            reason=reason,
            max_per_second=max_per_second,
            on_handed_over=lambda bundle: self._parts.decisions.handed_over(bundle, me, reason),
        )
        return await self.way.leave(Departure(hand_over, self._unregister, self.writing.resign))

    async def _unregister(self) -> None:
        with suppress(MetadataError):
            await self.load_manager.disable()

    async def close(self) -> None:
        """End all tasks, and the ownership of all bundles, without handing over bundles. Idempotent."""
        self.ownership.refuse_acquisitions("this broker is stopped")
        await self._parts.own_namespaces.close()
        await self._parts.candidacy.close()
        await self._periodic.close()
        await self.writing.step_down()
        await self.lookup.close()
        await self.namespaces.close()
        await self._switch.settle()
        if self._switch.is_made:
            with suppress(MetadataError):
                await self.load_manager.stop()
        await self.way.close()
        await self.registration.close()
        await self.writing.close()
        await self.leadership.close()
        self.bundles.close()
        await self.policies.close()
        await self.dynamic_configuration.close()

    # ---- this broker ----

    def _identity(self) -> ServiceUrls:
        assert self.urls is not None, "the ports of this broker are not known yet"
        return self.urls

    async def _boundaries(self, bundle: str) -> Sequence[int]:
        algorithm = self.config.current.default_namespace_bundle_split_algorithm
        return await self.namespaces.boundaries_of(Bundle.parse(bundle), algorithm)
