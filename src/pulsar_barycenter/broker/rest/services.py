"""One value with the parts of a running broker that REST handlers use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.broker.access.authentication import Authentication
from pulsar_barycenter.broker.authorization.authorizer import Authorizer
from pulsar_barycenter.broker.cluster.lookup_answers import LookupNotReadyError
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls, between_brokers
from pulsar_barycenter.broker.control_plane import ControlPlane
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.broker.partition_changes.coordinator import ChangeCoordinator
from pulsar_barycenter.broker.partition_changes.partition_owner import PartitionOwner
from pulsar_barycenter.broker.topic_policies.policy_views import PolicyViews
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.load.reports.load_over_time import LoadTables
from pulsar_barycenter.naming.namespace import NamespaceName


def no_registries() -> Iterable[CollectorRegistry]:
    return ()


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """The parts of a running broker that REST handlers use.

    `decisions` returns the load manager's decision log, None if it has none. `is_ready` returns whether the broker
    serves clients. `data_fault` returns why the data files cannot be used, "" if they can.

    `shutdown` starts an orderly stop and returns at once; its argument is the number of bundles to unload per second
    (0: no limit). `admin` sends requests with this broker's own credentials to other brokers. `relayed` passes on
    requests of clients, with the clients' credentials and never with the broker's. `registries` returns the Prometheus
    registries of other parts, such as the load manager. `load_tables` reads loads from tables on disk, which go back
    further than the loads in memory; None if there are no tables.
    """

    control: ControlPlane
    resources: Resources
    authorizer: Authorizer
    registry: TopicRegistry
    upkeep: TopicUpkeep
    changes: ChangeCoordinator
    partition_owner: PartitionOwner
    topic_policies: PolicyViews
    decisions: Callable[[], DecisionLog | None]
    admin: AdminClient
    relayed: AdminClient
    is_ready: Callable[[], bool]
    data_fault: Callable[[], str]
    shutdown: Callable[[float], None]
    authentication: Authentication
    ledgers: LedgerStorage
    registries: Callable[[], Iterable[CollectorRegistry]] = no_registries
    load_tables: LoadTables | None = None
    deleting: set[NamespaceName] = field(default_factory=set)
    """The namespaces that this broker is deleting."""

    @property
    def config(self) -> BrokerConfig:
        """The present configuration, in which dynamic keys may change while the broker runs."""
        return self.control.config.current

    @property
    def urls(self) -> ServiceUrls:
        if self.control.urls is None:
            raise LookupNotReadyError("This broker is starting. Try again.")
        return self.control.urls

    @property
    def web_url(self) -> str:
        """The URL at which this broker sends requests to itself. It does this for a request of its own that perhaps
        another broker has to answer: in this case its own answer redirects the request to that broker.
        """
        by_tls = self.config.broker_client_tls_enabled
        url = between_brokers(self.urls.web_url, self.urls.web_url_tls, by_tls=by_tls)
        assert url is not None, "this broker serves HTTP"
        return url
