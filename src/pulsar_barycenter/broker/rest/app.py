"""Builds the REST interface of a broker as an aiohttp application.

The route table `admin.routes` names the class and the method that answer each route. `admission` refuses invalid
requests before a handler gets them, and `errors.errors_as_reasons` answers every error.
"""

from typing import Any, Final

from aiohttp import web

from pulsar_barycenter.admin.routes.route import Route
from pulsar_barycenter.admin.routes.table import GROUPS
from pulsar_barycenter.broker.rest.admission import MAX_BODY_BYTES, admission, close_after_unread_body
from pulsar_barycenter.broker.rest.audit import Audit, audited
from pulsar_barycenter.broker.rest.auto_creation import AutoCreation
from pulsar_barycenter.broker.rest.backlogs import Backlogs
from pulsar_barycenter.broker.rest.bookies import BookieRequests
from pulsar_barycenter.broker.rest.broker_stats import BrokerStats
from pulsar_barycenter.broker.rest.brokers import Brokers
from pulsar_barycenter.broker.rest.clusters import Clusters
from pulsar_barycenter.broker.rest.compaction import Compaction
from pulsar_barycenter.broker.rest.cursors import Cursors
from pulsar_barycenter.broker.rest.damaged_ledgers import DamagedLedgers
from pulsar_barycenter.broker.rest.dashboard.drain_preview import DrainPreviews
from pulsar_barycenter.broker.rest.dashboard.explanations import Explanations
from pulsar_barycenter.broker.rest.dashboard.leaders_view import LeadersView
from pulsar_barycenter.broker.rest.dashboard.page_files import DashboardPage
from pulsar_barycenter.broker.rest.dashboard.settings import Settings
from pulsar_barycenter.broker.rest.dashboard.split_preview import SplitPreviews
from pulsar_barycenter.broker.rest.decisions import Decisions
from pulsar_barycenter.broker.rest.errors import Handler, errors_as_reasons
from pulsar_barycenter.broker.rest.failure_domains import FailureDomains
from pulsar_barycenter.broker.rest.isolation_policies import NamespaceIsolation
from pulsar_barycenter.broker.rest.leader_requests import leader_requests
from pulsar_barycenter.broker.rest.leader_writes import LeaderWritesResource
from pulsar_barycenter.broker.rest.lookup import Lookup
from pulsar_barycenter.broker.rest.messages import Messages
from pulsar_barycenter.broker.rest.metrics.endpoint import Metrics
from pulsar_barycenter.broker.rest.namespace_clusters import NamespaceClusters
from pulsar_barycenter.broker.rest.namespace_limits import NamespaceLimits
from pulsar_barycenter.broker.rest.namespace_policies import NamespacePolicies
from pulsar_barycenter.broker.rest.namespace_properties import NamespaceProperties
from pulsar_barycenter.broker.rest.namespace_rules import NamespaceRules
from pulsar_barycenter.broker.rest.namespace_storage import NamespaceStorage
from pulsar_barycenter.broker.rest.namespaces import Namespaces
from pulsar_barycenter.broker.rest.not_served import NotServed
from pulsar_barycenter.broker.rest.openapi import OpenApi
from pulsar_barycenter.broker.rest.partition_changes import PartitionChanges
from pulsar_barycenter.broker.rest.partitioned_topics import PartitionedTopics
from pulsar_barycenter.broker.rest.permissions import Permissions
from pulsar_barycenter.broker.rest.principals import principals
from pulsar_barycenter.broker.rest.relay import relay
from pulsar_barycenter.broker.rest.request_ids import answer_with_id, identified
from pulsar_barycenter.broker.rest.resource_groups import ResourceGroups
from pulsar_barycenter.broker.rest.resource_quotas import ResourceQuotas
from pulsar_barycenter.broker.rest.rights import rights
from pulsar_barycenter.broker.rest.rotation import Rotation
from pulsar_barycenter.broker.rest.schema_policies import SchemaPolicies
from pulsar_barycenter.broker.rest.schemas import Schemas
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.subscription_properties import SubscriptionProperties
from pulsar_barycenter.broker.rest.subscriptions import Subscriptions
from pulsar_barycenter.broker.rest.tenants import Tenants
from pulsar_barycenter.broker.rest.termination import Termination
from pulsar_barycenter.broker.rest.topic_figures import TopicFigures
from pulsar_barycenter.broker.rest.topic_policies import TopicPolicyRequests
from pulsar_barycenter.broker.rest.topic_properties import TopicProperties
from pulsar_barycenter.broker.rest.topics import Topics

__all__ = ["BrokerServices", "build_app"]


HANDLERS: Final[tuple[type[Any], ...]] = (
    Lookup,
    Clusters,
    NamespaceIsolation,
    FailureDomains,
    Tenants,
    Namespaces,
    NamespacePolicies,
    NamespaceClusters,
    NamespaceProperties,
    NamespaceLimits,
    NamespaceStorage,
    NamespaceRules,
    AutoCreation,
    ResourceGroups,
    BookieRequests,
    ResourceQuotas,
    Permissions,
    Topics,
    PartitionedTopics,
    PartitionChanges,
    Subscriptions,
    SubscriptionProperties,
    TopicProperties,
    Cursors,
    Messages,
    Termination,
    Backlogs,
    TopicFigures,
    TopicPolicyRequests,
    Compaction,
    Schemas,
    SchemaPolicies,
    Brokers,
    BrokerStats,
    NotServed,
    Metrics,
    Decisions,
    Audit,
    LeadersView,
    Explanations,
    SplitPreviews,
    DrainPreviews,
    Settings,
    DashboardPage,
    DamagedLedgers,
    LeaderWritesResource,
    OpenApi,
    Rotation,
)
"""The classes whose methods answer requests. A group of the route table has the name of its class."""


def build_app(services: BrokerServices) -> web.Application:
    """Return the application with all routes. The caller binds it to a socket and runs it without an access log."""
    middlewares = [
        identified,
        audited(services),
        errors_as_reasons(),
        relay(services),
        *admission(services, principals(services), rights(services)),
        leader_requests(services),
    ]
    app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(answer_with_id)
    app.on_response_prepare.append(close_after_unread_body)
    handlers = {handler.__name__: handler(services) for handler in HANDLERS}
    for group in GROUPS:
        for row in group.routes:
            _register(app.router, row, getattr(handlers[group.name], row.handler))
    return app


def _register(router: web.UrlDispatcher, row: Route, handler: Handler) -> None:
    if row.method == "GET":
        router.add_get(row.template, handler)  # this adds HEAD, too
    else:
        router.add_route(row.method, row.template, handler)
