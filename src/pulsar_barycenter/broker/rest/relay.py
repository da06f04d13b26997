"""Redirects followed here, for those who cannot follow them: the dashboard, which may ask no origin but its own.

| request                                                            | answer                               |
|--------------------------------------------------------------------|--------------------------------------|
| without the header `Barycenter-Follow`                             | 307, as ever                         |
| with it, to be done by a registered broker or the leader           | what that broker answers             |
| with it, to be done elsewhere (another cluster's address)          | 307                                  |
| with it, by TLS, to be done at an address without                  | 307                                  |
| with it, and passed on more often than MAX_REDIRECTS               | 503                                  |

What is passed on is the request as it came, with the credentials of whoever sent it and none of this broker's own, so
that nobody may do through a broker what he may not do himself; a certificate cannot be passed on, and counts as none. A
page of another origin cannot send the header: for one of that name a browser asks first, and is refused (`admission`).
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
"""The largest answer that is passed on."""

RELAYED: Final = web.RequestKey("relayed", str)
"""Where a request was sent on to from here."""

_PROOFS: Final = ("Authorization", ORIGINAL_PRINCIPAL)
_PASSED_ON: Final = (*_PROOFS, "Content-Type", "If-None-Match", "X-Barycenter-Why")
_PASSED_BACK: Final = ("content-type", "etag", "allow", "www-authenticate")
_ASKED_AT_ONCE: Final = 16
_SILENT_S: Final = 5.0
"""How long a broker may take where all are asked."""


def relay(services: BrokerServices) -> Middleware:
    """Return the middleware that follows redirects where the request asks for it."""

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
    raise RestError(503, f"Brokers passed this request on more than {MAX_REDIRECTS} times. Try again.")


def passed_on(request: web.Request) -> dict[str, str]:
    """Return the headers of a request that go with it to another broker."""
    return {name: request.headers[name] for name in _PASSED_ON if name in request.headers}


def _passed_back(answer: Answer) -> web.Response:
    headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
    return web.Response(status=answer.status, body=answer.body or None, headers=headers)


async def _may_follow(services: BrokerServices, scheme: str, url: str) -> bool:
    return is_no_less_secret(scheme, url) and await _is_of_this_cluster(services, url)


async def _is_of_this_cluster(services: BrokerServices, url: str) -> bool:
    """Tell whether a broker that is registered, or leads, is reached at `url`: nobody else is asked for others."""
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
        known += [each for one in listeners for each in (one.web_url, one.web_url_tls)]
        if origin in {_origin(each) for each in known if each}:
            return True
    return False


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


async def asked_everywhere(services: BrokerServices, request: web.Request) -> Mapping[str, bytes]:
    """Return what the other registered brokers answer to the same GET with `of=broker`, by their ids.

    Who is silent or refuses is left out.
    """
    path = request.rel_url.update_query(of="broker").raw_path_qs
    limit = asyncio.Semaphore(_ASKED_AT_ONCE)
    headers = {name: value for name, value in passed_on(request).items() if name in _PROOFS}

    async def ask(broker: str) -> tuple[str, bytes | None]:
        try:
            async with limit, asyncio.timeout(_SILENT_S):
                urls = await services.control.registration.urls_of(broker)
                known = () if urls is None else (urls.web_url_tls, urls.web_url)
                url = next((each for each in known if each and is_no_less_secret(request.scheme, each)), None)
                if url is None:
                    return broker, None
                answer = await services.relayed.forward("GET", url + path, headers, None)
        except (AdminRequestError, MetadataError, TimeoutError) as error:
            log.info("broker_not_asked", broker=broker, reason=str(error) or "it does not answer in time")
            return broker, None
        return broker, answer.body if answer.status == 200 else None

    others = sorted(services.control.registration.brokers - {services.urls.broker_id})
    return {broker: body for broker, body in await asyncio.gather(*map(ask, others)) if body is not None}


def decoded_each(answers: Mapping[str, bytes], kind: type[T]) -> dict[str, T]:
    """Return what brokers answered, as values of `kind`; what is none, of another version, is left out."""
    found: dict[str, T] = {}
    for broker, body in answers.items():
        try:
            found[broker] = msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            log.info("answer_not_understood", broker=broker, reason=str(error))
    return found


def decoded_lists(answers: Mapping[str, bytes], kind: type[T]) -> list[T]:
    """Return the entries of JSON lists that brokers answered; what is no such list, of another version, is left out."""
    lists: Mapping[str, list[T]] = decoded_each(answers, list[kind])  # type: ignore[valid-type]
    return [entry for found in lists.values() for entry in found]
