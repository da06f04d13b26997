"""What the REST interface is built on: the parts of a running broker, in one value."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from barycenter.admin.client import AdminClient
from barycenter.broker.cluster.lookup_answers import LookupNotReadyError
from barycenter.broker.cluster.service_urls import ServiceUrls
from barycenter.broker.control_plane import ControlPlane
from barycenter.broker.namespaces.resources import Resources
from barycenter.broker.topics.registry import TopicRegistry
from barycenter.config.broker_config import BrokerConfig
from barycenter.logs.decision_log import DecisionLog


def no_registries() -> Iterable[CollectorRegistry]:
    return ()


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """`decisions` is the load manager's log, None if it keeps none. `is_ready` tells whether the broker is in service.

    `shutdown` begins an orderly stop and returns at once; its argument is how many bundles to unload a second (0: no
    limit). `registries` are the Prometheus registries of parts that keep their own, such as the load manager.
    """

    control: ControlPlane
    resources: Resources
    registry: TopicRegistry
    decisions: Callable[[], DecisionLog | None]
    admin: AdminClient
    is_ready: Callable[[], bool]
    shutdown: Callable[[float], None]
    registries: Callable[[], Iterable[CollectorRegistry]] = no_registries

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
        url = self.urls.web_url
        assert url is not None, "this broker serves HTTP"
        return url
