"""Answers look-ups by HTTP: which broker serves a topic. It is a client's first request, so answers are cached.

Source: Pulsar's `TopicLookupBase`, v2 and v1.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import quote

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotFoundError,
    BundleUnloadingError,
    Owner,
)
from pulsar_barycenter.broker.rest.errors import RedirectError, RestError
from pulsar_barycenter.broker.rest.ownership import web_url_for
from pulsar_barycenter.broker.rest.requests import flag
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName, decode_local_name

LISTENER_HEADER: Final = "X-Pulsar-ListenerName"

_MAX_CACHED_PATH: Final = 512
"""The maximum number of characters of a path whose parsed result is cached. Longer paths are parsed each time."""


class Lookup:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._lookup = services.control.lookup
        self._resources = services.resources

    async def owner(self, request: web.Request) -> web.StreamResponse:
        topic = looked_up_topic(request)
        query = request.rel_url.query
        listener = query.get("listenerName") or request.headers.get(LISTENER_HEADER) or None
        found = self._lookup.lookup_cached(topic, listener)
        if found is None:
            found = await self._search(request, topic, listener)
        elif not self._resources.may_create_if_cached(topic):
            await self._require_topic(topic)
        return web.Response(body=_lookup_data(found), content_type="application/json")

    async def bundle(self, request: web.Request) -> web.StreamResponse:
        topic = looked_up_topic(request)
        bundle = await self._lookup.bundle_of(topic)
        return web.Response(text=str(bundle.range), content_type="text/plain")

    async def _search(self, request: web.Request, topic: TopicName, listener: str | None) -> Owner:
        """Return the owner of the topic's bundle, if this broker may give the answer to the look-up.

        Raises:
            RedirectError: another broker has to answer.
            RestError: 404, the topic does not exist; 412, the broker that has to answer has no port for this scheme.
        """
        authoritative = flag(request, "authoritative")
        await self._lookup.bundle_of(topic)  # the error for a missing namespace precedes the one for a missing topic
        await self._require_topic(topic)
        try:
            answer = await self._lookup.lookup(topic, authoritative=authoritative, listener=listener)
        except BundleNotFoundError as error:
            raise BundleUnloadingError(error.bundle, "was split during the look-up. Try again.") from error
        if isinstance(answer, Owner):
            return answer
        url = web_url_for(request, answer.web_url, answer.web_url_tls)
        if url is None:
            raise RestError(412, "Redirected cluster's service url is not configured.")
        path = request.rel_url.raw_path
        query = f"authoritative={'true' if answer.authoritative else 'false'}"
        if listener:
            query += f"&listenerName={quote(listener, safe='')}"
        raise RedirectError(f"{url}{path}?{query}")

    async def _require_topic(self, topic: TopicName) -> None:
        if not await self._resources.lookup_exists(topic):
            raise RestError(404, f"Topic not found {topic}. Create it, or allow automatic topic creation.")


def looked_up_topic(request: web.Request) -> TopicName:
    """Return the topic of a path `/lookup/v2/{topic|destination}/{domain}/…`.

    Raises:
        InvalidNameError: the name is not valid.
    """
    raw_path = request.rel_url.raw_path
    return _parsed_cached(raw_path) if len(raw_path) <= _MAX_CACHED_PATH else _parsed(raw_path)


@lru_cache(maxsize=20_000)
def _parsed_cached(raw_path: str) -> TopicName:
    return _parsed(raw_path)


def _parsed(raw_path: str) -> TopicName:
    parts = raw_path.split("/")
    if parts[3] == "destination":
        namespace = NamespaceName.of(parts[5], parts[7], parts[6])
        return TopicName.of(parts[4], namespace, decode_local_name(parts[8]))
    return TopicName.of(parts[4], NamespaceName.of(parts[5], parts[6]), decode_local_name(parts[7]))


def _lookup_data(owner: Owner) -> bytes:
    return _encoded(owner.broker_url, owner.broker_url_tls, owner.web_url, owner.web_url_tls)


@lru_cache(maxsize=2_000)
def _encoded(broker_url: str | None, broker_url_tls: str | None, web_url: str | None, web_url_tls: str | None) -> bytes:
    """Return the answer to a look-up as JSON. Empty fields are included, because old clients do not check whether a
    field is present.
    """
    return msgspec.json.encode(
        {
            "brokerUrl": broker_url,
            "brokerUrlTls": broker_url_tls,
            "httpUrl": web_url,
            "httpUrlTls": web_url_tls,
            "nativeUrl": broker_url,
            "brokerUrlSsl": "",
        }
    )
