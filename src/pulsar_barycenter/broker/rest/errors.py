"""Converts exceptions to HTTP answers with a status code and the body `{"reason": …}`.

Source: Pulsar's `RestException` and `PulsarWebResource`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker import errors as service
from pulsar_barycenter.broker.authorization import errors as access
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.broker.cluster import lookup_answers as lookups
from pulsar_barycenter.broker.cluster.dynamic_configuration import ChangedMeanwhileError
from pulsar_barycenter.broker.lookup import namespace_service as bundles
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.partition_changes.errors import PartitionedChangeError
from pulsar_barycenter.broker.rest.logged_path import logged_path
from pulsar_barycenter.broker.schemas import errors as schemas
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from pulsar_barycenter.load.installed import BALANCE_INSTALL
from pulsar_barycenter.metadata import errors as metadata
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError, InvalidSplitError, UnknownBundleError

log = structlog.get_logger(__name__)

_MAX_REASON: Final = 1_000
_CLIENT_GONE: Final = 499
"""A status that is never sent. It is used when the client has closed the connection, because aiohttp needs a
response.
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RestError(Exception):
    """Raised by a handler that refuses a request or cannot answer it. The client gets an answer with this status and
    reason.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class RedirectError(Exception):
    """Raised by a handler if another broker has to answer. The client gets an answer with status 307, and sends the
    request again to `location`.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (msgspec.MsgspecError, 400),  # the body of the request; stored values fail with InvalidValueError
    (InvalidBundlesError, 400),
    (InvalidNameError, 412),
    (UnknownBundleError, 412),
    (InvalidSplitError, 412),
    (ConfigError, 412),
    (ChangedMeanwhileError, 409),
    (lookups.NamespaceNotFoundError, 404),
    (lookups.BundleNotFoundError, 412),
    (lookups.ListenerNotFoundError, 404),
    (lookups.LookupFailedError, 503),
    (bundles.BrokerNotActiveError, 412),
    (bundles.BundleNotEmptyError, 409),
    (bundles.SplitConflictError, 503),
    (access.NotAuthenticatedError, 401),
    (access.AccessDeniedError, 403),
    (service.TopicNotFoundError, 404),
    (service.SubscriptionNotFoundError, 404),
    (service.TopicBusyError, 412),
    (service.SubscriptionBusyError, 412),
    (service.InvalidPositionError, 412),
    (service.TooManySubscriptionsError, 412),
    (service.NotAllowedError, 405),
    (service.TopicFencedError, 503),
    (schemas.SchemaNotFoundError, 404),
    (schemas.InvalidSchemaError, 422),
    (schemas.IncompatibleSchemaError, 409),
    (service.ServiceError, 409),
    (NotServedError, 503),
    (metadata.AlreadyExistsError, 409),
    (metadata.BadVersionError, 409),
    (metadata.HasChildrenError, 409),
    (metadata.NotFoundError, 404),
    (metadata.InvalidPathError, 412),  # a name that cannot be part of a key
    (metadata.FormerEpochError, 412),
    (metadata.NotLeadingError, 503),
    (metadata.SessionLostError, 503),
    (metadata.StoreUnavailableError, 503),
    (metadata.StoreClosedError, 503),
    (metadata.MetadataError, 500),
    (LedgerFencedError, 503),
    (LedgerClosedError, 503),
    (LedgerError, 500),
    (TimeoutError, 500),
)
"""The HTTP status of each exception. The first row whose class matches is used."""

_PREFIXES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (msgspec.MsgspecError, "The request body is not valid"),
    (InvalidSplitError, "Split bundle failed due to invalid request"),
    (metadata.BadVersionError, "Concurrent modification"),
    (TimeoutError, "The request took too long. Try again"),
)
"""For some exceptions: Pulsar's text, which the answer has before our own."""


def answer_of(error: Exception) -> tuple[int, str] | None:
    """Return the status and the reason for an exception that a request may end with; None if the exception is
    unexpected.
    """
    if isinstance(error, RestError | PartitionedChangeError):
        return error.status, error.reason
    if isinstance(error, AdminRequestError):
        return error.status or 503, error.reason
    if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
        return 412, f"This answer needs numpy, which is not installed on the broker: {BALANCE_INSTALL}"
    for kind, status in STATUS:
        if isinstance(error, kind):
            prefix = next((prefix for of_kind, prefix in _PREFIXES if isinstance(error, of_kind)), None)
            detail = str(error)
            return status, detail if prefix is None else f"{prefix}: {detail}" if detail else prefix
    return None


def reason_response(status: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return an HTTP answer with a reason. The reason may contain text that the client sent, so it is cut to
    _MAX_REASON characters.
    """
    shown = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
    body = msgspec.json.encode({"reason": shown.encode(errors="replace").decode()})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def errors_as_reasons() -> Middleware:
    """Return the middleware that answers every exception; an unexpected one is a 500 with its class name.

    If the client has closed the connection, no answer is sent. If an answer has begun, the connection is closed, so
    that the client sees that the answer is incomplete. Clients can cause the log lines about exceptions, so
    `BoundedLog` limits their rate.
    """

    def now_s() -> float:
        return asyncio.get_running_loop().time()

    failed = BoundedLog("request_failed", now_s, "error")
    not_served = BoundedLog("request_not_served", now_s)

    @web.middleware
    async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except RedirectError as redirect:
            return web.Response(status=307, headers={"Location": redirect.location})
        except web.HTTPException as error:
            if error.status < 400:
                raise
            allow = error.headers.get("Allow")
            return reason_response(
                error.status, f"{error.reason}: {request.method} {request.path}", {"Allow": allow} if allow else None
            )
        except Exception as error:  # noqa: BLE001 - an unexpected error is logged with its traceback
            answer = answer_of(error)
            is_gone = request.transport is None or request.transport.is_closing()
            if is_gone and (answer is not None or isinstance(error, ConnectionError)):
                log.debug("client_gone", method=request.method, path=logged_path(request), error=repr(error))
                return web.Response(status=_CLIENT_GONE)
            if answer is None:
                failed.log(error, method=request.method, path=logged_path(request))
                answer = 500, f"{type(error).__name__}: {error}"
            elif answer[0] >= 500:
                not_served.log(method=request.method, path=logged_path(request), reason=answer[1])
            if request.writer.output_size:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=_CLIENT_GONE)
            return reason_response(*answer)

    return answer_errors
