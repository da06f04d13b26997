"""A broker: connects all parts, and starts and stops them in order.

Start: read the store, open the ports, derive the broker's id from them, write the first records of a new cluster, take
part in the election, own the heartbeat namespaces, register. Other brokers assign bundles only after the registration,
which is last; earlier requests are answered that the broker is not ready. Stop: accept no new clients and bundles,
resign as leader, hand the bundles over, and give clients a moment to move; all of this takes at most
`brokerShutdownTimeoutMs`. Then close everything.

The caller opens and closes the store, the ledger storage and everything else in the environment; it closes them after
`stop`. Source: Pulsar's `PulsarService`.
"""

import asyncio
import dataclasses
import enum
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import structlog

from pulsar_barycenter.broker.access.authentication import Authentication
from pulsar_barycenter.broker.access.broker_credentials import broker_credentials
from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.received_credentials import Credentials
from pulsar_barycenter.broker.access.tls_ports import TlsPort, own_tls, tls_context
from pulsar_barycenter.broker.authorization.authorizer import Authorizer
from pulsar_barycenter.broker.authorization.needs import SuperUser
from pulsar_barycenter.broker.changes import StoreWatch
from pulsar_barycenter.broker.cluster.administration import administered
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls, between_brokers
from pulsar_barycenter.broker.control.parts import control_parts, metadata_writing
from pulsar_barycenter.broker.control_plane import ControlPlane
from pulsar_barycenter.broker.data_watch import DataWatch
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.contract import LoadManager, LoadManagerFactory
from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.broker.namespaces.cluster_metadata import initialize_cluster
from pulsar_barycenter.broker.namespaces.resources import RESOURCE_GROUPS, Resources
from pulsar_barycenter.broker.ownership.channel.topic_records import keeps_earlier
from pulsar_barycenter.broker.partition_changes.coordinator import SWEEP_S, ChangeCoordinator
from pulsar_barycenter.broker.partition_changes.partition_owner import PartitionOwner
from pulsar_barycenter.broker.periodic import PeriodicTasks
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.topic_policies.policy_views import PolicyViews, is_events_path
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.broker.wire.server import WireServer
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.errors import NoTokenError
from pulsar_barycenter.metadata.store import SessionEvent
from pulsar_barycenter.metadata.timed_store import TimedStore
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

DRAIN_S: Final = 0.5
"""The number of seconds that clients have, after the last bundle left this broker, to look up its new owner."""
_POLICIES_S: Final = 60.0
"""The interval in seconds at which the policies of namespaces are applied to loaded topics, even without a notification
of a change.
"""
_OWN_CREDENTIALS_S: Final = 15.0
"""The number of seconds that the start of a broker waits for a token issuer. Without an answer the broker starts
anyway.
"""
_CLOSE_S: Final = 5.0
"""The number of seconds that closing one part of the broker may take; then the next part is closed."""


class BrokerState(enum.Enum):
    INIT = "init"
    STARTING = "starting"
    STARTED = "started"
    CLOSING = "closing"
    CLOSED = "closed"


class WebServer(Protocol):
    """The REST server of a broker. It is listening when this object is created."""

    @property
    def port(self) -> int | None: ...
    @property
    def tls_port(self) -> int | None: ...

    async def close(self) -> None: ...


StartWeb: TypeAlias = Callable[["Broker", str, int | None, TlsPort | None], Awaitable[WebServer]]
"""A function that starts the REST server of a broker at a host, a port and a TLS port (0: a free port, None: no
port).
"""


class WebPortInUseError(OSError):
    def __init__(self, host: str, port: int | str) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"{host}:{port} is in use: stop the other process, or set another webServicePort or webServicePortTls",
        )
        self.host = host
        self.port = port


class Broker:
    """A broker with all its parts. `web` starts the REST server; None: no HTTP is served, and the broker id contains
    the configured webServicePort.

    `on_fatal` is called with a reason when the process has to end: the data files were lost (see `DataWatch`), or the
    session was lost and `zookeeperSessionExpiredPolicy` is `shutdown`.

    Raises:
        ConfigError, CredentialsError: the configured authentication cannot work.
    """

    def __init__(
        self,
        config: BrokerConfig,
        env: Environment,
        *,
        web: StartWeb | None = None,
        load_manager: LoadManagerFactory | None = None,
        on_fatal: Callable[[str], None] | None = None,
    ) -> None:
        self.config = ConfigHolder(config)
        self.env = env
        env = dataclasses.replace(env, store=TimedStore(env.store, env.instruments.store_operation))
        writing = metadata_writing(config, env)
        env = dataclasses.replace(env, store=writing.store)
        self.state = BrokerState.INIT
        self._start_web = web
        self._on_fatal = on_fatal
        self._data = DataWatch(env.data_checks, self._data_lost)
        self.authentication = Authentication.of(config, env.clock)
        administration = administered(env.store, lambda epoch: self.control.leadership.superseded(epoch))
        self.resources = Resources(administration, self.config)
        self.authorizer = Authorizer(self.config, self.resources, env.clock)
        self.control = ControlPlane(
            control_parts(
                self.config,
                env,
                directory=self.resources,
                load_manager=load_manager or configured_load_manager,
                administration=administration,
                writing=writing,
            )
        )
        self.ownership = self.control.ownership
        self.lookup = self.control.lookup
        self.namespaces = self.control.namespaces
        self.leadership = self.control.leadership
        self.registration = self.control.registration
        self.registry = TopicRegistry(
            config,
            env,
            self.ownership,
            self.resources,
            compaction_strategies={TopicName.parse(SERVICE_UNIT_STATE_TOPIC): keeps_earlier},
        )
        self.partition_owner = PartitionOwner(self.registry, self.resources)
        self.changes = ChangeCoordinator(
            self.resources,
            self._ask_partition_owner,
            broker=lambda: self.broker_id,
            registered=lambda: self.registration.brokers,
            new_id=lambda: f"{env.random.getrandbits(64):016x}",
            forget_schemas=self._forget_partitioned,
        )
        self.registry.on_change_seen = self.changes.look_at
        self.sweeps: list[Callable[[], Awaitable[object]]] = []
        """Further periodic duties of the leader that complete abandoned changes, in addition to those of `changes`."""
        self.wire = WireServer(config, env, self.registry, self.lookup, self.authentication, self.authorizer)
        self.web: WebServer | None = None
        self.topic_policies = PolicyViews(
            env.store,
            config.cluster_name,
            self._policies_client,
            self.registry.apply_policies,
            is_enabled=lambda: self.config.current.topic_level_policies_enabled,
        )
        self.resources.attach_own_policies(self.topic_policies)
        self.control.attach(self.registry, self.registry.bundle_stats, self.registry.topic_loads)
        self.resources.attach_loaded_topics(lambda: (topic.name for topic in self.registry.loaded()))
        self.config.on_any_change(self._reconfigure)
        self.upkeep = TopicUpkeep(self.registry)
        self._periodic = PeriodicTasks()
        self._policies = StoreWatch(
            env.store,
            name="namespace policies",
            concerns=lambda path: path.startswith((f"{self.resources.namespaces.root}/", f"{RESOURCE_GROUPS}/")),
            read=lambda _was_notified: self._apply_policies(),
            interval_s=_POLICIES_S,
            failure="namespace_policies_not_read",
        )
        self._topic_policies_watch = StoreWatch(
            env.store,
            name="policies of topics",
            concerns=is_events_path,
            read=lambda _was_notified: self._refresh_topic_policies(),
            interval_s=_POLICIES_S,
            failure="topic_policies_not_looked_for",
        )
        self._stopping: asyncio.Task[None] | None = None
        self._stop_listening = env.store.add_session_listener(self._on_session_event)

    @property
    def urls(self) -> ServiceUrls:
        """The id and the URLs of this broker. They can be read only after the ports have been opened."""
        assert self.control.urls is not None, "the broker was not started"
        return self.control.urls

    @property
    def broker_id(self) -> str:
        return self.urls.broker_id

    @property
    def load_manager(self) -> LoadManager:
        return self.control.load_manager

    @property
    def ready(self) -> bool:
        """Whether the broker serves clients: it has started, is registered, has its data files, and is not stopping."""
        return self.state is BrokerState.STARTED and not self.data_fault

    @property
    def data_fault(self) -> str:
        """What the last check found wrong with the broker's data files, as text; "" if nothing."""
        return self._data.fault

    async def start(self) -> None:
        """Join the cluster; when this returns, the broker serves clients. If the start fails, everything that was
        opened is closed again.

        Raises:
            PortInUseError, WebPortInUseError: a port is in use; the text says which, and what to do.
            ConfigError, KeyMaterialError: no port is configured, or a TLS file cannot be used.
            BrokerIdInUseError: another running process has this broker's id.
            OwnNamespaceError: a heartbeat namespace could not be owned.
            MetadataError: the store did not answer.
        """
        assert self.state is BrokerState.INIT, "a broker is started once"
        self.state = BrokerState.STARTING
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise
        self.state = BrokerState.STARTED
        log.info("broker_started", broker=self.broker_id, incarnation=self.control.incarnation)

    async def stop(self, *, reason: str = "broker stops", max_unloads_per_second: float = 0) -> None:
        """Leave the cluster: unload every bundle, then close everything. When `brokerShutdownTimeoutMs` has passed, the
        bundles that are left are not handed over, and everything is closed.

        `max_unloads_per_second` limits how fast bundles are unloaded; 0: no limit. A second call waits for the end of
        the first, and does nothing else.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(reason, max_unloads_per_second), name="stop broker")
        await asyncio.shield(self._stopping)

    async def _start(self) -> None:
        self._data.start(self._periodic)
        await self.control.start()
        config = self.config.current
        address = config.effective_advertised_address or socket.gethostname()
        tls, host = tls_context(config, asyncio.get_running_loop().time), config.bind_address
        ports = [
            None if port is None else await self.wire.listen(host, port, context)
            for port, context in ((config.broker_service_port, None), (config.broker_service_port_tls, tls))
        ]
        web_port, web_port_tls = config.web_service_port, config.web_service_port_tls
        if self._start_web is not None:
            secured = None if web_port_tls is None or tls is None else TlsPort(web_port_tls, tls)
            self.web = await self._listen_web(self._start_web, host, web_port, secured)
            web_port, web_port_tls = self.web.port, self.web.tls_port
        urls = ServiceUrls.of_ports(
            address,
            ports[0],
            web_port,
            config.advertised_listeners,
            broker_port_tls=ports[1],
            web_port_tls=web_port_tls,
            internal_listener=config.internal_listener_name,
        )
        await self._check_own_credentials(config)
        await self.control.elect(urls)
        await initialize_cluster(self.resources, config, urls)  # before any request, because all need these records
        self.control.set_identity(urls)
        await self._policies.start(self._apply_policies)
        await self._topic_policies_watch.start(self._refresh_topic_policies)
        await self.control.join()
        self._periodic.start(
            "statistics", self._update_rates, lambda: float(self.config.current.stats_update_frequency_in_secs)
        )
        self._start_upkeep()

    def _start_upkeep(self) -> None:
        current = self.config
        for name, run, interval_s in (
            (
                "inactive topics",
                self._delete_inactive_topics,
                lambda: current.current.broker_delete_inactive_topics_frequency_seconds,
            ),
            ("retention", self.upkeep.trim, lambda: current.current.retention_check_interval_in_seconds),
            (
                "message expiry",
                lambda: self.upkeep.expire_messages(self.env.clock.now_ms()),
                lambda: current.current.message_expiry_check_interval_in_minutes * 60,
            ),
            (
                "subscription expiry",
                lambda: self.upkeep.expire_subscriptions(self.env.clock.now_ms()),
                lambda: current.current.subscription_expiry_check_interval_in_minutes * 60,
            ),
            (
                "backlog quotas",
                self._check_backlogs,
                lambda: current.current.backlog_quota_check_interval_in_seconds,
            ),
            (
                "compaction",
                self.upkeep.compact_due,
                lambda: current.current.broker_service_compaction_monitor_interval_in_seconds,
            ),
            (
                "deduplication of producers that left",
                self.upkeep.forget_producers,
                lambda: current.current.broker_deduplication_producer_inactivity_timeout_minutes * 60 / 3,
            ),
        ):
            self._periodic.start(name, run, interval_s)
        self._periodic.start("partitioned changes", self._sweep_changes, lambda: SWEEP_S)
        snapshots_s = current.current.broker_deduplication_snapshot_frequency_in_seconds
        if snapshots_s > 0:
            self._periodic.start("deduplication", self.upkeep.snapshot_deduplication, lambda: snapshots_s)

    async def _check_own_credentials(self, config: BrokerConfig) -> None:
        """Check this broker's own credentials as other brokers with the same configuration would. If they would refuse
        the credentials or the role, log an error; no error is raised.
        """
        shows = broker_credentials(config)
        if not self.authentication.enabled or shows.method == "tls":  # a certificate is only checked in a connection
            return
        try:
            async with asyncio.timeout(_OWN_CREDENTIALS_S):
                await shows.renew()
                session = await self.authentication.of_connection(Credentials(shows.method, shows.auth_data() or b""))
        except (NoTokenError, TimeoutError) as error:
            mend = "make sure that the token issuer answers; until then this broker reaches no other broker"
            log.error(
                "own_proof_not_obtained", reason=str(error) or "the token issuer takes too long to answer", mend=mend
            )
            return
        except AuthenticationError as error:
            mend = "correct brokerClientAuthenticationParameters; until then this broker reaches no other broker"
            log.error("own_proof_not_believed", reason=str(error), mend=mend)
            return
        verdict = await self.authorizer.verdict(session.principal, SuperUser())
        if config.authorization_enabled and not verdict.allowed:
            mend = "add the role to superUserRoles; until then other brokers refuse this broker's commands"
            log.error("own_role_is_no_super_user", role=str(session.principal), mend=mend)

    async def _listen_web(self, start_web: StartWeb, host: str, port: int | None, tls: TlsPort | None) -> WebServer:
        try:
            return await start_web(self, host, port, tls)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                ports = [used for used in (port, None if tls is None else tls.port) if used]
                raise WebPortInUseError(host, ports[0] if len(ports) == 1 else " or ".join(map(str, ports))) from error
            raise

    async def _stop(self, reason: str, max_unloads_per_second: float) -> None:
        was_started = self.state is BrokerState.STARTED
        self.state = BrokerState.CLOSING
        budget_s = self.config.current.broker_shutdown_timeout_ms / 1000
        log.info("broker_stopping", reason=reason, budget_s=budget_s)
        if was_started and budget_s > 0:
            try:
                async with asyncio.timeout(budget_s):
                    await self._leave(reason, max_unloads_per_second, budget_s)
            except TimeoutError:
                log.warning("broker_stop_timed_out", still_held=len(self.ownership.held_bundles()))
            except Exception:
                log.exception("broker_did_not_leave_in_order")
        await self._close()
        log.info("broker_stopped", reason=reason)

    async def _leave(self, reason: str, max_unloads_per_second: float, budget_s: float) -> None:
        self.wire.stop_accepting()
        handed_over = await self.control.leave(reason=reason, max_per_second=max_unloads_per_second)
        await self.topic_policies.close()
        left = await self.wire.drain(min(DRAIN_S, budget_s / 4))
        log.info("broker_left", bundles_handed_over=handed_over, connections_left=left)

    async def _close(self) -> None:
        """Close all parts that are open, also if the broker was started or stopped only in part. If closing one part
        fails, the others are still closed.
        """
        self.state = BrokerState.CLOSING
        self._stop_listening()
        await self._periodic.close()
        await self._policies.close()
        await self._topic_policies_watch.close()
        steps: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("partitioned changes", self.changes.close),
            ("policies of topics", self.topic_policies.close),
            ("topics", self.registry.close),
            ("wire server", self.wire.close),
            ("web server", self._close_web),
            ("control plane", self.control.close),
            ("peers", self.env.peers.close),
            ("authentication", self.authentication.close),
        ]
        for name, close in steps:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await close()
            except TimeoutError:
                log.warning("close_timed_out", part=name)
            except Exception:
                log.exception("close_failed", part=name)
        self.resources.close()
        self.state = BrokerState.CLOSED

    async def _close_web(self) -> None:
        if self.web is not None:
            await self.web.close()

    def _reconfigure(self, config: BrokerConfig) -> None:
        self.registry.reconfigure(config)
        self._policies.look()
        self._topic_policies_watch.look()
        self.wire.reconfigure(config)

    async def _apply_policies(self) -> None:
        await self.wire.apply_grants()
        await self.registry.apply_policies()

    async def _refresh_topic_policies(self) -> None:
        await self.topic_policies.refresh(self.registry.namespaces())

    async def _forget_partitioned(self, topic: TopicName) -> None:
        """Delete the schemas and policies of a partitioned topic that was deleted."""
        await self.registry.schemas.delete(topic, force=True)
        await self.resources.deleted(topic)

    def _policies_client(self, topic: TopicName) -> SystemTopicClient:
        config = self.config.current
        return SystemTopicClient(
            lambda: self._url_of_owner(topic), clock=self.env.clock, source=self.env.random, tls=own_tls(config)
        )

    async def _url_of_owner(self, topic: TopicName) -> str | None:
        """Return the URL at which this broker connects to the owner of a topic; None if the owner has no URL for that.
        If the topic's bundle has no owner, one is assigned first.
        """
        by_tls = self.config.current.broker_client_tls_enabled
        answer = await self.lookup.lookup(topic)
        if isinstance(answer, Owner):
            return between_brokers(answer.broker_url, answer.broker_url_tls, by_tls=by_tls)
        web_url = between_brokers(answer.web_url, answer.web_url_tls, by_tls=by_tls)
        if web_url is None:
            return None
        return between_brokers(*await self.env.peers.owner_urls(web_url, topic), by_tls=by_tls)

    async def _ask_partition_owner(self, request: bytes) -> bytes:
        """Send a request about a partition to the web server of this broker, which passes it on to the owner of the
        partition. Return the owner's answer.
        """
        urls, by_tls = self.urls, self.config.current.broker_client_tls_enabled
        url = between_brokers(urls.web_url, urls.web_url_tls, by_tls=by_tls)
        if url is None:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED,
                f"broker {self.broker_id} has no web port, but it needs one for requests to the owners of "
                "partitions: set webServicePort or webServicePortTls",
            )
        return await self.env.peers.change_partition(url, request)

    async def _sweep_changes(self) -> None:
        is_leader = self.leadership.is_leader()
        await self.changes.sweep(is_leader=is_leader)
        for sweep in self.sweeps if is_leader else ():
            await sweep()

    async def _update_rates(self) -> None:
        self.registry.update_rates(self.env.clock.now_ms())

    async def _delete_inactive_topics(self) -> None:
        config = self.config.current
        if config.broker_delete_inactive_topics_enabled:
            await self.upkeep.delete_inactive(self.env.clock.now_ms())

    async def _check_backlogs(self) -> None:
        if self.config.current.backlog_quota_check_enabled:
            await self.upkeep.check_backlogs(self.env.clock.now_ms())

    def _data_lost(self, reason: str) -> None:
        if self._on_fatal is not None:
            self._on_fatal(f"data was lost: {reason}")

    def _on_session_event(self, event: SessionEvent) -> None:
        policy = self.config.current.zookeeper_session_expired_policy
        if event is SessionEvent.SESSION_LOST and policy == "shutdown" and self._on_fatal is not None:
            self._on_fatal("the metadata session was lost, and zookeeperSessionExpiredPolicy is shutdown")
