"""The right that each route requires, as a need of one request, and the middleware that refuses callers without it.

The rows of `admin.routes` state the rights; a request without a row is for super users. HEAD requires what GET does. A
broker that passes a request on has checked the right before, and the broker that receives it checks again.
Source: the checks of Pulsar's `PulsarWebResource`; it answers 401 to callers that are no super users, here 403.
"""

from typing import Final, assert_never

from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.admin.operations import TopicOperation
from pulsar_barycenter.admin.routes.rights import (
    SUPER_USER,
    ForMetrics,
    KnownCaller,
    OnLookedUpTopic,
    OnNamespace,
    OnPolicy,
    OnQueriedTenant,
    OnTenant,
    OnTopic,
    Public,
    Right,
    SuperUser,
)
from pulsar_barycenter.broker.authorization import needs
from pulsar_barycenter.broker.authorization.needs import Need, OfNamespace, OfPolicy, OfTenant, OfTopic
from pulsar_barycenter.broker.authorization.rules import granted_by
from pulsar_barycenter.broker.rest.errors import Handler
from pulsar_barycenter.broker.rest.lookup import looked_up_topic
from pulsar_barycenter.broker.rest.principals import PRINCIPAL
from pulsar_barycenter.broker.rest.requests import asked_tenant, namespace_of, route_of, subscription_of, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.told_path import told_path

_PUBLIC: Final = needs.Public()
_AUTHENTICATED: Final = needs.Authenticated()
_SUPER_USER: Final = needs.SuperUser()


def need_of(right: Right, request: web.Request, services: BrokerServices) -> Need:
    """Return what a request needs whose route requires `right`.

    Raises:
        InvalidNameError: the path has a name that cannot be one.
    """
    match right:
        case Public():
            return _PUBLIC
        case KnownCaller():
            return _AUTHENTICATED
        case SuperUser():
            return _SUPER_USER
        case ForMetrics():
            return _AUTHENTICATED if services.config.authenticate_metrics_endpoint else _PUBLIC
        case OnTenant(operation):
            return OfTenant(request.match_info["tenant"], operation)
        case OnQueriedTenant(operation):
            return OfTenant(asked_tenant(request), operation)
        case OnNamespace(operation):
            return OfNamespace(namespace_of(request), operation)
        case OnPolicy(policy, operation):
            return OfPolicy(namespace_of(request), policy, operation)
        case OnTopic(operation, has_subscription):
            return OfTopic(topic_of(request), operation, subscription_of(request) if has_subscription else None)
        case OnLookedUpTopic():
            return OfTopic(looked_up_topic(request), TopicOperation.LOOKUP)
        case _:
            assert_never(right)


def holders_of(right: Right) -> str:
    """Return who has a right besides super users, as `docs/authorization.md` shows it; empty if nobody else has."""
    match right:
        case Public():
            return "everybody"
        case KnownCaller():
            return "every authenticated client"
        case SuperUser():
            return ""
        case ForMetrics():
            return "everybody; with `authenticateMetricsEndpoint=true` every authenticated client"
        case OnTenant() | OnQueriedTenant() | OnPolicy():
            return "administrators of the tenant"
        case OnNamespace(operation):
            return granted_by(operation)
        case OnTopic(operation):
            return granted_by(operation)
        case OnLookedUpTopic():
            return granted_by(TopicOperation.LOOKUP)
        case _:
            assert_never(right)


def rights(services: BrokerServices) -> Middleware:
    """Return the middleware that refuses callers without the right that a request needs; it follows `principals`."""

    @web.middleware
    async def with_rights_only(request: web.Request, handler: Handler) -> web.StreamResponse:
        authorizer = services.authorizer
        # A request without a route is answered with 404 or 405 whatever the caller's rights are.
        if authorizer.is_enabled and request.match_info.http_exception is None:
            row = route_of(request)
            need = need_of(SUPER_USER if row is None else row.right, request, services)
            if not authorizer.allows_at_once(request[PRINCIPAL], (need,)):
                about = f"{request.method} {told_path(request)}"
                await authorizer.require(request[PRINCIPAL], (need,), address=request.remote or "", request=about)
        return await handler(request)

    return with_rights_only
