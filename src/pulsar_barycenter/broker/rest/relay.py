"""Follows redirects for the dashboard, which may only send requests to its own origin.

| request                                                            | answer                               |
|--------------------------------------------------------------------|--------------------------------------|
| without the header `Barycenter-Follow`                             | 307, as for any client               |
| with it, and a registered broker or the leader has to answer       | the answer of that broker            |
| with it, and another address has to answer (another cluster)       | 307                                  |
| with it, over TLS, and the other address has no TLS                | 307                                  |
| with it, and redirected more often than MAX_REDIRECTS              | 503                                  |

The request is passed on with the client's credentials and never with the broker's own, so that no client gets more
rights through a broker. A client certificate cannot be passed on; such a client counts as not authenticated there.
Pages of another origin cannot send the header: a browser asks for permission first, and `admission` refuses that.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.admin.client import MAX_REDIRECTS, Answer
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.access.authentication import ORIGINAL_PRINCIPAL
from pulsar_barycenter.broker.rest.errors import Handler, RedirectError, RestError
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.credentials.client_authentication import is_no_less_secret
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

T = TypeVar("T")

FOLLOW: Final = "Barycenter-Follow"
MOST_RELAYED_BYTES: Final = 64 * 1_048_576
"""The maximum number of bytes of an answer that is passed on."""

RELAYED: Final = web.RequestKey("relayed", str)
"""The key of a request's attribute that has the URL to which this broker passed the request on."""

_CREDENTIALS: Final = ("Authorization", ORIGINAL_PRINCIPAL)
_PASSED_ON: Final = (*_CREDENTIALS, "Content-Type", "If-None-Match", "X-Barycenter-Why")
_PASSED_BACK: Final = ("content-type", "etag", "allow", "www-authenticate")
_CONCURRENT_REQUESTS: Final = 16
_TIMEOUT_S: Final = 5.0
"""The number of seconds that a broker may take to answer a request that is sent to all brokers."""


def relay(services: BrokerServices) -> Middleware:
    """Return the middleware for clients that do not follow redirects themselves, such as the dashboard. If a request
    with the header FOLLOW would be redirected, this broker sends it to the other broker and returns that broker's
    answer.
    """

    @web.middleware
    async def follow(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except RedirectError as redirect:
            if FOLLOW not in request.headers or not await _may_follow(services, request.scheme, redirect.location):
                raise
            return await _followed(services, request, redirect.location)

    return follow


async def _followed(services: BrokerServices, request: web.Request, url: str) -> web.Response:
    data = await request.read() if request.can_read_body else None
    request[RELAYED] = url
    for _ in range(MAX_REDIRECTS):
        answer = await services.relayed.forward(request.method, url, passed_on(request), data)
        location = answer.headers.get("location")
        if answer.status not in (307, 308) or location is None:
            return _passed_back(answer)
        url = urljoin(url, location)
        if not await _may_follow(services, request.scheme, url):
            raise RedirectError(url)
    raise RestError(
        503, f"Brokers redirected this request more than {MAX_REDIRECTS} times, and none carried it out. Try again."
    )


def passed_on(request: web.Request) -> dict[str, str]:
    """Return those headers of a request that this broker sends along when it sends the request to another broker: the
    credentials, and the headers in `_PASSED_ON`.
    """
    return {name: request.headers[name] for name in _PASSED_ON if name in request.headers}


def _passed_back(answer: Answer) -> web.Response:
    headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
    return web.Response(status=answer.status, body=answer.body or None, headers=headers)


async def _may_follow(services: BrokerServices, scheme: str, url: str) -> bool:
    return is_no_less_secret(scheme, url) and await _is_of_this_cluster(services, url)


async def _is_of_this_cluster(services: BrokerServices, url: str) -> bool:
    """Return whether `url` is the address of a registered broker or of the leader. Requests are passed on to no other
    address.
    """
    origin = _origin(url)
    registration = services.control.registration
    leader = services.control.leadership.leader()
    if leader is not None and _origin(leader.service_url) == origin:
        return True
    if origin.partition("//")[2] in registration.brokers:
        return True
    for broker in sorted(registration.brokers):
        try:
            urls = await registration.urls_of(broker)
        except MetadataError:
            continue
        if urls is None:
            continue
        listeners = urls.listeners.values()
        known = [urls.web_url, urls.web_url_tls]
        known += [url for listener in listeners for url in (listener.web_url, listener.web_url_tls)]
        if origin in {_origin(url) for url in known if url}:
            return True
    return False


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


async def answers_of_brokers(services: BrokerServices, request: web.Request) -> Mapping[str, bytes]:
    """Send the GET request that this broker got to all other registered brokers, and return their answers by broker id.
    The query gets `of=broker`, so that each broker answers only for itself.

    Brokers that refuse or do not answer within _TIMEOUT_S seconds are left out.
    """
    path = request.rel_url.update_query(of="broker").raw_path_qs
    limit = asyncio.Semaphore(_CONCURRENT_REQUESTS)
    headers = {name: value for name, value in passed_on(request).items() if name in _CREDENTIALS}

    async def ask(broker: str) -> tuple[str, bytes | None]:
        try:
            async with limit, asyncio.timeout(_TIMEOUT_S):
                urls = await services.control.registration.urls_of(broker)
                known = () if urls is None else (urls.web_url_tls, urls.web_url)
                url = next((url for url in known if url and is_no_less_secret(request.scheme, url)), None)
                if url is None:
                    return broker, None
                answer = await services.relayed.forward("GET", url + path, headers, None)
        except (AdminRequestError, MetadataError, TimeoutError) as error:
            log.info("broker_not_asked", broker=broker, reason=str(error) or "the broker does not answer in time")
            return broker, None
        return broker, answer.body if answer.status == 200 else None

    others = sorted(services.control.registration.brokers - {services.urls.broker_id})
    return {broker: body for broker, body in await asyncio.gather(*map(ask, others)) if body is not None}


def decoded_answers(answers: Mapping[str, bytes], kind: type[T]) -> dict[str, T]:
    """Decode the answers of brokers to values of `kind`. Answers in another format (of other releases) are left out."""
    found: dict[str, T] = {}
    for broker, body in answers.items():
        try:
            found[broker] = msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            log.info("answer_not_understood", broker=broker, reason=str(error))
    return found


def decoded_lists(answers: Mapping[str, bytes], kind: type[T]) -> list[T]:
    """Decode the answers of brokers, which are JSON lists, and return their entries together. Answers in another format
    are left out.
    """
    lists: Mapping[str, list[T]] = decoded_answers(answers, list[kind])  # type: ignore[valid-type]
    return [entry for found in lists.values() for entry in found]
