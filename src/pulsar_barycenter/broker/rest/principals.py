"""Authenticates HTTP requests: sets `request[PRINCIPAL]` before a handler gets the request, or answers 401.

Source: Pulsar's `AuthenticationFilter`, and `WebService` for the paths that need no authentication.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.rest.errors import Handler, reason_response
from pulsar_barycenter.broker.rest.logged_path import logged_path
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.credentials.tls import common_name

PRINCIPAL: Final = web.RequestKey("principal", Principal)

OPEN_PATHS: Final = frozenset({"/status.html", "/"})
"""Paths that need no authentication: the check of load balancers, which have no credentials, and the start page of the
dashboard, which asks for credentials itself. The principal of these requests is NOBODY.
"""

_MAX_LOGGED_PATH: Final = 200
"""The maximum number of characters of the path in the log line about a client that is not authenticated."""

_DASHBOARD: Final = "/dashboard/"

METRICS_PATHS: Final = frozenset({"/metrics", "/metrics/"})
"""Paths that need authentication only if `authenticateMetricsEndpoint` is set."""


def principals(services: BrokerServices) -> Middleware:
    """Return the middleware that finds the principal of each request from its credentials. It answers 401 if they are
    not valid. Paths that need no authentication get the principal NOBODY.
    """
    authentication = services.authentication

    @web.middleware
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[PRINCIPAL] = NOBODY
        if not authentication.enabled or is_open(
            request.path, metrics=not services.config.authenticate_metrics_endpoint
        ):
            return await handler(request)
        try:
            request[PRINCIPAL] = await authentication.of_http(
                request.headers, common_name(request.get_extra_info("peercert"))
            )
        except AuthenticationError as error:
            path = logged_path(request)[:_MAX_LOGGED_PATH]
            authentication.log_refused(error, address=request.remote or "", path=path)
            response = reason_response(401, str(error))
            response.headers.extend(("WWW-Authenticate", challenge) for challenge in authentication.invitations)
            return response
        return await handler(request)

    return authenticate


def is_open(path: str, *, metrics: bool) -> bool:
    """Return whether a request for this path needs no authentication. `metrics` is True if the paths of the metrics
    need none.
    """
    return path in OPEN_PATHS or path.startswith(_DASHBOARD) or (metrics and path in METRICS_PATHS)
