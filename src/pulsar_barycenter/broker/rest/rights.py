"""Checks the right that each route requires, before a handler gets the request.

The rows of `admin.routes` have the rights; a request without a row is for super users. HEAD requires the right of GET.
A broker that passes a request on has checked the right before, and the broker that gets it checks it again.
Source: the checks of Pulsar's `PulsarWebResource`. Difference: clients that are not super users get 403, not 401.
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
from pulsar_barycenter.broker.rest.logged_path import logged_path
from pulsar_barycenter.broker.rest.lookup import looked_up_topic
from pulsar_barycenter.broker.rest.principals import PRINCIPAL
from pulsar_barycenter.broker.rest.requests import asked_tenant, namespace_of, route_of, subscription_of, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices

_PUBLIC: Final = needs.Public()
_AUTHENTICATED: Final = needs.Authenticated()
_SUPER_USER: Final = needs.SuperUser()


def need_of(right: Right, request: web.Request, services: BrokerServices) -> Need:
    """Return what `right` means for one request: the right, with the tenant, namespace or topic in its path or query.

    Raises:
        InvalidNameError: a name in the path is not valid.
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
    """Return who has a right in addition to super users, as text for `docs/authorization.md`; "" if only super users
    have it.
    """
    match right:
        case Public():
            return "every client"
        case KnownCaller():
            return "every authenticated client"
        case SuperUser():
            return ""
        case ForMetrics():
            return "every client; with `authenticateMetricsEndpoint=true` every authenticated client"
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
    """Return the middleware that refuses clients without the required right. It has to run after `principals`."""

    @web.middleware
    async def check_rights(request: web.Request, handler: Handler) -> web.StreamResponse:
        authorizer = services.authorizer
        # A request without a route gets 404 or 405, whatever rights the client has.
        if authorizer.is_enabled and request.match_info.http_exception is None:
            row = route_of(request)
            need = need_of(SUPER_USER if row is None else row.right, request, services)
            if not authorizer.allows_at_once(request[PRINCIPAL], (need,)):
                about = f"{request.method} {logged_path(request)}"
                await authorizer.require(request[PRINCIPAL], (need,), address=request.remote or "", request=about)
        return await handler(request)

    return check_rights
