"""What the REST interface is built on: the parts of a running broker, in one value."""

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
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_over_time import LoadTables
from pulsar_barycenter.naming.namespace import NamespaceName


def no_registries() -> Iterable[CollectorRegistry]:
    return ()


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """`decisions` is the load manager's log, None if it keeps none. `is_ready` tells whether the broker is in service,
    `data_fault` what is wrong with the files of its data, empty if nothing is.

    `shutdown` begins an orderly stop and returns at once; its argument is how many bundles to unload a second (0: no
    limit). `admin` sends what this broker itself wants of others, `relayed` what somebody asks through it: with their
    credentials, never with its own. `registries` are the Prometheus registries of parts that keep their own, such as
    the load manager. `load_tables` answers of times that no broker remembers; None, nothing does.
    """

    control: ControlPlane
    resources: Resources
    authorizer: Authorizer
    registry: TopicRegistry
    changes: ChangeCoordinator
    partition_owner: PartitionOwner
    decisions: Callable[[], DecisionLog | None]
    admin: AdminClient
    relayed: AdminClient
    is_ready: Callable[[], bool]
    data_fault: Callable[[], str]
    shutdown: Callable[[float], None]
    authentication: Authentication
    registries: Callable[[], Iterable[CollectorRegistry]] = no_registries
    load_tables: LoadTables | None = None
    deleting: set[NamespaceName] = field(default_factory=set)
    """The namespaces that this broker deletes now."""

    @property
    def config(self) -> BrokerConfig:
        """The configuration of now; dynamic keys change."""
        return self.control.config.current

    @property
    def urls(self) -> ServiceUrls:
        if self.control.urls is None:
            raise LookupNotReadyError("This broker is starting. Try again.")
        return self.control.urls

    @property
    def web_url(self) -> str:
        """Where this broker sends requests that may concern any broker: itself, which redirects them."""
        by_tls = self.config.broker_client_tls_enabled
        url = between_brokers(self.urls.web_url, self.urls.web_url_tls, by_tls=by_tls)
        assert url is not None, "this broker serves HTTP"
        return url
