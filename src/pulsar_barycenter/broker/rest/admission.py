"""What is refused before a handler sees it, whatever the route.

| request                                                        | answer |
|----------------------------------------------------------------|--------|
| while `maxConcurrentHttpRequests` others of its kind are under way | 503 |
| for a host that is not this broker (DNS rebinding)             | 403    |
| from a page of another origin, other than a link to START      | 403    |
| without a proof of who asks, where one is asked for (`principals`) | 401 |
| with a name in its path that nothing can have                  | 412    |
| with a parameter that is longer than LONGEST_QUERY, or holds a NUL | 400 |
| by who lacks the right that its route needs (`rights`)          | 403    |
| whose body is not there within `webServiceRequestTimeoutSeconds` | 408  |
| whose body is compressed (`Content-Encoding`)                  | 415    |
| whose body is larger than MAX_BODY_BYTES, or ends other than its header says | 413, 400 |

No client of the admin API compresses what it sends, and nothing here inflates it. A connection is closed after an
answer that was given before the body of its request was read; what still arrives within a second is dropped.

Of requests that brokers send each other, and on which it depends whether a cluster goes on, so many are let in beside
those of everybody: MOST_LEADER_WRITES for the leader to write, of who shows the secret of this cluster's store, and
MOST_COMMANDS of a leader.

A browser sends a page's requests to any broker that it reaches, cookies or not: without the first two rows every page
that somebody looks at beside a broker could stop it. Pulsar leaves that to authentication. Programs send no `Origin`,
and a host that is an address cannot be rebound, so they notice nothing.
"""

import asyncio
import enum
import ipaddress
import socket
from collections import Counter
from functools import cache, lru_cache
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
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME
from pulsar_barycenter.naming.topic import MAX_LOCAL_NAME_BYTES

MAX_BODY_BYTES: Final = 1 << 20
"""The largest body."""

"""Longest value of a parameter of the query, in characters."""

MOST_LEADER_WRITES: Final = 1_024
MOST_COMMANDS: Final = 64

ANY_HOST: Final = "*"

START: Final = "/"
"""Where the dashboard begins."""

_NOT_COMPRESSED: Final = frozenset({"", "identity"})

_HOSTS_AT_HAND: Final = 64
"""Nearly all requests name the broker by one of a few hosts; those of strangers drive each other out."""

_COMMANDED: Final = ("/unload", "/split")

_FREE_PARTS: Final = {
    "topic": MAX_LOCAL_NAME_BYTES + 21,
    "subscription": MAX_LOCAL_NAME_BYTES,
    "value": 4_000,
    "role": LONGEST_ROLE,
}
"""Parts of paths that may hold any character but NUL, and their length; a topic's has room for `-partition-<n>`."""


def admission(services: BrokerServices, who_asks: Middleware, with_rights_only: Middleware) -> tuple[Middleware, ...]:
    """Return the middlewares that refuse, in their order; they stand behind the one that answers errors.

    `who_asks` is the one that finds out who asks, and `with_rights_only` the one that knows who may: before a body is
    read, which nobody shall send whom nobody knows, or who may not.
    """

    @cache
    def known_hosts() -> frozenset[str]:
        return hosts_of(services.config)

    under_way = Counter[_Kind]()

    @web.middleware
    async def so_many_at_once(request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = _kind_of(request, services)
        most = services.config.max_concurrent_http_requests if kind is _Kind.ANY else _MOST[kind]
        if most and under_way[kind] >= most:
            said = f"maxConcurrentHttpRequests={most}" if kind is _Kind.ANY else f"{most} {kind.value}"
            raise RestError(503, f"{TOO_MANY} ({said}). Try again.")
        under_way[kind] += 1
        try:
            return await handler(request)
        finally:
            under_way[kind] -= 1

    @web.middleware
    async def own_pages_only(request: web.Request, handler: Handler) -> web.StreamResponse:
        require_known_host(request, known_hosts())
        require_own_origin(request)
        return await handler(request)

    @web.middleware
    async def possible_names_only(request: web.Request, handler: Handler) -> web.StreamResponse:
        for part, name in request.match_info.items():
            require_possible_name(part, name)
        for parameter, value in request.rel_url.query.items():
            require_possible_value(parameter, value)
        return await handler(request)

    @web.middleware
    async def whole_requests_only(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_served = request.match_info.http_exception is None  # else it is answered without its body
        if is_served and request.can_read_body:
            await _read_body(request, services.config.web_service_request_timeout_seconds)
        return await handler(request)

    return so_many_at_once, own_pages_only, who_asks, possible_names_only, with_rights_only, whole_requests_only


class _Kind(enum.Enum):
    """Requests that are counted together."""

    ANY = "requests"
    LEADER_WRITE = "requests to write by the leader"
    COMMAND = "commands of a leader"


_MOST: Final = {_Kind.LEADER_WRITE: MOST_LEADER_WRITES, _Kind.COMMAND: MOST_COMMANDS}


def _kind_of(request: web.Request, services: BrokerServices) -> _Kind:
    """Tell with what a request is counted, by its head alone."""
    if request.path == LEADER_WRITES_PATH:
        is_known = services.control.writing.knows(request.headers.get(SECRET_HEADER, ""))
        return _Kind.LEADER_WRITE if is_known else _Kind.ANY
    is_command = request.method == "PUT" and request.path.endswith(_COMMANDED) and LEADER_EPOCH in request.query
    return _Kind.COMMAND if is_command else _Kind.ANY


def hosts_of(config: BrokerConfig) -> frozenset[str]:
    """Return the names by which a broker may be asked besides addresses and localhost, in lower case."""
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
    """Refuse a request that was sent to another host than this broker; one without a host comes from no browser.

    Raises:
        RestError: 400, there is more than one, or none can be read; 403, it is not known.
    """
    given = request.headers.getall("Host", [])
    if not given or given == [""] or ANY_HOST in known:
        return
    try:
        host = urlsplit(f"//{given[0]}").hostname
    except ValueError:
        host = None
    if len(given) > 1 or host is None:
        raise RestError(400, "The header Host must be one host, with its port if it is not 80")
    if not (_is_local_or_address(host) or host.rstrip(".") in known):
        raise RestError(
            403,
            f"This broker is not called {host[:MAX_ENTITY_NAME]!r}: add the name to webServiceAllowedHosts if it is",
        )


def require_own_origin(request: web.Request) -> None:
    """Refuse what a page of another origin sends.

    Raises:
        RestError: 403.
    """
    origin = request.headers.get("Origin")
    host = request.headers.get("Host", "")
    if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
        raise RestError(403, "Pages of another origin may not ask this broker: the header Origin is not its own")
    if request.headers.get("Sec-Fetch-Site", "").lower() == "cross-site" and not _is_link_to_start(request):
        raise RestError(403, "Pages of another site may not ask this broker: the header Sec-Fetch-Site says cross-site")


def _is_link_to_start(request: web.Request) -> bool:
    """Tell whether somebody followed a link to the dashboard, whose first file holds no data: links to it are passed
    on in mails and chats. A frame or a script that asks for it is none."""
    return (
        request.path == START
        and request.method == "GET"
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )


def require_possible_name(part: str, name: str) -> None:
    """Refuse a part of a path, decoded, that is no name of anything.

    Raises:
        RestError: 412.
    """
    free = part in _FREE_PARTS
    longest = longest_of(part)
    if len(name) > longest:
        raise RestError(412, f"The {part} in the path has {len(name)} characters of at most {longest}")
    if "\0" in name or not (free or ("/" not in name and name.isprintable())):
        raise RestError(412, f"The {part} in the path has a character that no {part} has: {name!r}")


def require_possible_value(parameter: str, value: str) -> None:
    """Refuse a parameter of the query that no request has.

    Raises:
        RestError: 400.
    """
    if len(value) > LONGEST_QUERY:
        raise RestError(400, f"The parameter {parameter[:100]} has {len(value)} characters of at most {LONGEST_QUERY}")
    if "\0" in value:
        raise RestError(400, f"The parameter {parameter[:100]} holds a NUL character")


def longest_of(part: str) -> int:
    """Return how many characters a part of a path may have."""
    return _FREE_PARTS.get(part, MAX_ENTITY_NAME)


async def _read_body(request: web.Request, timeout_s: float) -> None:
    """Read the body, which handlers then find in the request.

    Raises:
        RestError: 415, it is compressed; 408, it did not come in time; 400, it does not end as its header says.
        HTTPRequestEntityTooLarge: it is larger than the application allows.
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
        request.content.feed_eof()  # nobody reads on where this one gave up
        request.protocol.close()
        raise RestError(400, f"The body of the request cannot be read: {error}") from error


async def close_after_unread_body(request: web.Request, response: web.StreamResponse) -> None:
    """Have the connection closed after an answer to a request whose body was not read to its end; for the
    application's `on_response_prepare`."""
    if not request.content.is_eof():
        response.force_close()
        response.headers["Connection"] = "close"  # aiohttp's own headers are made by now


@lru_cache(_HOSTS_AT_HAND)
def _is_local_or_address(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
