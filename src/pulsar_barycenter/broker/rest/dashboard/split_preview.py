"""Answers where a bundle would be split. The owner of the bundle answers, because it has the bundle's topics.

GET /barycenter/v1/split-preview?bundle=tenant/namespace/0x…_0x…&splitAlgorithmName=<name>
"""

from itertools import pairwise

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import current_bundle, go_on_if_local, require_namespace
from pulsar_barycenter.broker.rest.requests import json_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.bundle import Bundle, BundleRange


class SplitPart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle that the split would create. `topics` is the number of the persistent topics existing now that would be
    in it.
    """

    range: str
    topics: int


class SplitPreview(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result that a split of a bundle with an algorithm would have. `parts` are the new bundles. It is empty if the
    algorithm finds no boundary at which to split, so that the bundle would stay as it is.
    """

    bundle: str
    algorithm: str
    parts: list[SplitPart]


class SplitPreviews:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def preview(self, request: web.Request) -> web.Response:
        query, services = request.rel_url.query, self._services
        named = Bundle.parse(query.get("bundle", ""))
        await require_namespace(services, named.namespace)
        bundle = await current_bundle(services, named.namespace, str(named.range))
        algorithm = query.get("splitAlgorithmName") or services.config.default_namespace_bundle_split_algorithm
        supported = services.config.supported_namespace_bundle_split_algorithms
        if algorithm not in supported:
            raise RestError(412, f"Unsupported split algorithm {algorithm[:100]}: use one of {', '.join(supported)}")
        answer = await services.control.lookup.lookup_bundle(bundle, read_only=True)
        if answer is None:
            raise RestError(412, f"{bundle} has no owner: look up a topic of the bundle, then try again")
        go_on_if_local(request, services, answer, f"ServiceUnit:{bundle}")
        cuts = await services.control.namespaces.boundaries_of(bundle, algorithm)
        hashes = [topic.hash32 for topic in await services.control.namespaces.topics_in(bundle)]
        edges = [bundle.range.lower, *cuts, bundle.range.upper]
        ranges = [BundleRange(lower, upper) for lower, upper in pairwise(edges)] if cuts else []
        parts = [SplitPart(range=str(range_), topics=sum(map(range_.contains, hashes))) for range_ in ranges]
        return json_response(SplitPreview(bundle=str(bundle), algorithm=algorithm, parts=parts))
