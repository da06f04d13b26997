"""Whom an HTTP request comes from: `request[PRINCIPAL]`, set before any handler sees it; 401 for whoever is not let in.

Source: Pulsar's `AuthenticationFilter`, and `WebService` for the paths that anybody may ask.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.rest.errors import Handler, reason_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.told_path import told_path
from pulsar_barycenter.credentials.tls import common_name

PRINCIPAL: Final = web.RequestKey("principal", Principal)

OPEN_PATHS: Final = frozenset({"/status.html", "/"})
"""What a load balancer asks, which knows no proof: whether to send requests here; and where the dashboard begins, which
asks for a proof itself. Whoever asks it is nobody."""

_LONGEST_PATH: Final = 200
"""Characters of a path that nobody known asked for, in the log."""

_DASHBOARD: Final = "/dashboard/"

METRICS_PATHS: Final = frozenset({"/metrics", "/metrics/"})
"""Likewise unless `authenticateMetricsEndpoint` is set."""


def principals(services: BrokerServices) -> Middleware:
    """Return the middleware that finds out who asks."""
    authentication = services.authentication

    @web.middleware
    async def ask_who(request: web.Request, handler: Handler) -> web.StreamResponse:
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
            path = told_path(request)[:_LONGEST_PATH]
            authentication.tell_refused(error, address=request.remote or "", path=path)
            response = reason_response(401, str(error))
            response.headers.extend(("WWW-Authenticate", each) for each in authentication.invitations)
            return response
        return await handler(request)

    return ask_who


def is_open(path: str, *, metrics: bool) -> bool:
    """Whether anybody may ask this; `metrics` says so of the figures."""
    return path in OPEN_PATHS or path.startswith(_DASHBOARD) or (metrics and path in METRICS_PATHS)
