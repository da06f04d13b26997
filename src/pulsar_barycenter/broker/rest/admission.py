"""Refuses requests before a handler gets them, on all routes alike.

| request                                                        | answer |
|----------------------------------------------------------------|--------|
| while `maxConcurrentHttpRequests` others of its kind are served | 503   |
| for a host that is not this broker (DNS rebinding)             | 403    |
| from a page of another origin, other than a link to START      | 403    |
| without valid credentials, where they are needed (`principals`) | 401   |
| with an invalid name in its path                               | 412    |
| with a parameter that is longer than LONGEST_QUERY, or has a NUL | 400  |
| of a client without the right that the route needs (`rights`)  | 403    |
| whose body does not arrive within `webServiceRequestTimeoutSeconds` | 408 |
| whose body is compressed (`Content-Encoding`)                  | 415    |
| whose body is larger than MAX_BODY_BYTES, or does not match its header | 413, 400 |

Clients of the admin API do not compress request bodies, so the broker does not decompress any. If an answer is sent
before the body was read, the connection is closed; bytes that still arrive within a second are dropped.

Some requests between brokers keep the cluster running. They are counted apart from the requests of other clients, so
that these cannot block them: up to MOST_LEADER_WRITES metadata writes for the leader, if the sender has the secret of
the cluster's store, and up to MOST_COMMANDS unloads and splits that the leader ordered.

A browser sends the requests of a page to every broker that it can reach, with or without cookies. Without the second
and third row, any web page that an operator opens could shut a broker down. Pulsar relies on authentication there.
Other programs send no `Origin`, and a host that is an IP address cannot be rebound, so the checks do not affect them.
"""

import asyncio
import enum
import socket
from collections import Counter
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from pulsar_barycenter.admin.routes.route import LONGEST_QUERY
from pulsar_barycenter.broker.authorization.grants import LONGEST_ROLE
from pulsar_barycenter.broker.cluster.http_peers import LEADER_EPOCH, LEADER_WRITES_PATH, SECRET_HEADER, TOO_MANY
from pulsar_barycenter.broker.cluster.service_urls import parse_advertised_listeners
from pulsar_barycenter.broker.rest.errors import Handler, RestError
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.dashboard.own_page import Strange, strange_host, strange_origin
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME
from pulsar_barycenter.naming.topic import MAX_LOCAL_NAME_BYTES

MAX_BODY_BYTES: Final = 1 << 20
"""The maximum size of a request's body in bytes."""

"""Longest value of a parameter of the query, in characters."""

MOST_LEADER_WRITES: Final = 1_024
MOST_COMMANDS: Final = 64

ANY_HOST: Final = "*"

_ALLOW: Final = "If clients use it for this broker, add it to webServiceAllowedHosts"

_NOT_COMPRESSED: Final = frozenset({"", "identity"})

_COMMANDED: Final = ("/unload", "/split")
"""How the paths end to which the leader sends its commands."""

_FREE_PARTS: Final = {
    "topic": MAX_LOCAL_NAME_BYTES + 21,
    "subscription": MAX_LOCAL_NAME_BYTES,
    "value": 4_000,
    "role": LONGEST_ROLE,
    "rest": 4_000,  # of paths that are refused as a whole
}
"""The maximum number of characters of those path parameters that may have any character but NUL. For a topic it
includes `-partition-<n>`.
"""


def admission(services: BrokerServices, authenticate: Middleware, check_rights: Middleware) -> tuple[Middleware, ...]:
    """Return the middlewares that refuse requests, in the order in which they have to run. The application must list
    them after the middleware that turns exceptions into answers.

    `authenticate` finds the principal of the request. `check_rights` checks that the principal has the right that the
    request needs. Both run before the body is read: the broker does not read the body of a client that is unknown or
    lacks the right.
    """

    @cache
    def known_hosts() -> frozenset[str]:
        return hosts_of(services.config)

    under_way = Counter[_Kind]()

    @web.middleware
    async def limit_concurrency(request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = _kind_of(request, services)
        most = services.config.max_concurrent_http_requests if kind is _Kind.ANY else _LIMITS[kind]
        if most and under_way[kind] >= most:
            limit = f"maxConcurrentHttpRequests={most}" if kind is _Kind.ANY else f"{most} {kind.value}"
            raise RestError(503, f"{TOO_MANY} ({limit}). Try again.")
        under_way[kind] += 1
        try:
            return await handler(request)
        finally:
            under_way[kind] -= 1

    @web.middleware
    async def check_host_and_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
        require_known_host(request, known_hosts())
        require_own_origin(request)
        return await handler(request)

    @web.middleware
    async def check_names(request: web.Request, handler: Handler) -> web.StreamResponse:
        for part, name in request.match_info.items():
            require_possible_name(part, name)
        for parameter, value in request.rel_url.query.items():
            require_possible_value(parameter, value)
        return await handler(request)

    @web.middleware
    async def read_body(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_served = request.match_info.http_exception is None  # else the answer does not depend on the body
        if is_served and request.can_read_body:
            await _read_body(request, services.config.web_service_request_timeout_seconds)
        return await handler(request)

    return limit_concurrency, check_host_and_origin, authenticate, check_names, check_rights, read_body


class _Kind(enum.Enum):
    """The kinds of requests. The limit on concurrent requests applies to each kind separately."""

    ANY = "requests"
    LEADER_WRITE = "metadata writes for the leader"
    COMMAND = "commands of the leader"


_LIMITS: Final = {_Kind.LEADER_WRITE: MOST_LEADER_WRITES, _Kind.COMMAND: MOST_COMMANDS}


def _kind_of(request: web.Request, services: BrokerServices) -> _Kind:
    """Return the kind of a request. This does not read the body: the path, the query and the headers decide."""
    if request.path == LEADER_WRITES_PATH:
        is_known = services.control.writing.knows(request.headers.get(SECRET_HEADER, ""))
        return _Kind.LEADER_WRITE if is_known else _Kind.ANY
    is_command = request.method == "PUT" and request.path.endswith(_COMMANDED) and LEADER_EPOCH in request.query
    return _Kind.COMMAND if is_command else _Kind.ANY


def hosts_of(config: BrokerConfig) -> frozenset[str]:
    """Return the host names under which clients reach this broker, in lower case: its configured address (else the name
    of this machine), its bind address, the hosts of its advertised listeners, and `webServiceAllowedHosts`.
    """
    listeners = parse_advertised_listeners(config.advertised_listeners).values()
    urls = [url for listener in listeners for url in (listener.broker_url, listener.broker_url_tls) if url]
    named = [
        config.effective_advertised_address or socket.gethostname(),
        config.bind_address,
        *(urlsplit(url).hostname or "" for url in urls),
        *config.web_service_allowed_hosts,
    ]
    return frozenset(name.lower().rstrip(".") for name in named if name)


def require_known_host(request: web.Request, known: frozenset[str]) -> None:
    """Refuse a request whose header Host names a host that is not this broker. This protects a user's browser from
    pages that reach the broker under another name (see `dashboard.own_page`).

    `known` has the host names of this broker; if it contains ANY_HOST, every request is accepted. A request without the
    header, with an IP address or with localhost is always accepted.

    Raises:
        RestError: 400, there are several headers Host, or the value is not a host; 403, the host is not in `known`.
    """
    if ANY_HOST not in known:
        _refuse(strange_host(request.headers, known, "broker", _ALLOW))


def require_own_origin(request: web.Request) -> None:
    """Refuse a request that a browser sends for a page of another origin (see `dashboard.own_page`). Browsers mark such
    requests with the headers Origin or Sec-Fetch-Site; a request without both is accepted.

    Raises:
        RestError: 403, the request came from a page of another origin.
    """
    _refuse(strange_origin(request.headers, request.method, request.path, "broker"))


def _refuse(why: Strange | None) -> None:
    if why is not None:
        raise RestError(why.status, why.reason)


def require_possible_name(part: str, name: str) -> None:
    """Refuse a decoded path parameter whose value cannot be a name. `part` is the name of the path parameter, for
    example `topic`; `name` is its value.

    Raises:
        RestError: 412, the value is too long or has a character that is not allowed.
    """
    free = part in _FREE_PARTS
    longest = longest_of(part)
    if len(name) > longest:
        raise RestError(412, f"The {part} in the path has {len(name)} characters; at most {longest} are allowed")
    if "\0" in name or not (free or ("/" not in name and name.isprintable())):
        raise RestError(412, f"The {part} in the path has a character that is not allowed in a {part}: {name!r}")


def require_possible_value(parameter: str, value: str) -> None:
    """Refuse a query parameter whose value cannot be valid. `parameter` is its name.

    Raises:
        RestError: 400, the value has more than LONGEST_QUERY characters, or has a NUL.
    """
    if len(value) > LONGEST_QUERY:
        raise RestError(
            400,
            f"The parameter {parameter[:100]} has {len(value)} characters; at most {LONGEST_QUERY} are allowed",
        )
    if "\0" in value:
        raise RestError(400, f"The parameter {parameter[:100]} has a NUL character, which is not allowed")


def longest_of(part: str) -> int:
    """Return the maximum number of characters of the path parameter with the name `part`, for example `topic`."""
    return _FREE_PARTS.get(part, MAX_ENTITY_NAME)


async def _read_body(request: web.Request, timeout_s: float) -> None:
    """Read the whole body into memory, so that handlers get it from the request without waiting.

    Raises:
        RestError: 415, the body is compressed; 408, it did not arrive within `timeout_s`; 400, it cannot be read, for
            example because it is shorter than its header Content-Length.
        HTTPRequestEntityTooLarge: the body is larger than the application allows.
    """
    encoding = ",".join(request.headers.getall("Content-Encoding", ())).strip().lower()
    if encoding not in _NOT_COMPRESSED:
        raise RestError(415, f"Send the body without Content-Encoding: {encoding[:100]!r} is not supported")
    try:
        async with asyncio.timeout(timeout_s):
            await request.read()
    except TimeoutError:
        raise RestError(408, f"The body of the request did not arrive within {timeout_s:g} s") from None
    except (HttpProcessingError, web.RequestPayloadError) as error:
        request.content.feed_eof()  # no later reader may wait for the rest
        request.protocol.close()
        raise RestError(400, f"The body of the request cannot be read: {error}") from error


async def close_after_unread_body(request: web.Request, response: web.StreamResponse) -> None:
    """If the body of the request was not read completely, make the server close the connection after it has sent this
    answer.

    The application calls this in `on_response_prepare`, before the answer is sent.
    """
    if not request.content.is_eof():
        response.force_close()
        response.headers["Connection"] = "close"  # aiohttp has set its own headers before
