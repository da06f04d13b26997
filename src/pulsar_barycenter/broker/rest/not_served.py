"""Refuses requests for features of Pulsar that this broker does not have. The status is that of a Pulsar broker in
which the feature is switched off.
"""

from typing import Final, NoReturn

from aiohttp import web

from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace
from pulsar_barycenter.broker.rest.requests import json_response, namespace_of, no_content, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices

_FUNCTIONS: Final = (
    "Pulsar Function Worker is not enabled: this broker runs no functions, sources or sinks. "
    "Run them in a function worker of Apache Pulsar"
)
_PACKAGES: Final = (
    "Package Management Service is not enabled in the broker: this broker stores no packages. "
    "Keep the files in a store of your own"
)
_TRANSACTIONS: Final = (
    "This Broker is not configured with transactionCoordinatorEnabled=true: transactions are not served by this cluster"
)
_SCALABLE: Final = (
    "Scalable topics are not served by this cluster: use a topic whose name begins with persistent://, "
    "with as many partitions as needed"
)
_OFFLOADING: Final = (
    "Messages are not offloaded by this cluster: there is no tiered storage. Limit what is kept by a retention policy"
)


class NotServed:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def scalable_topics(self, request: web.Request) -> web.Response:
        await require_namespace(self._services, namespace_of(request))
        return json_response([])

    async def refuse_scalable_topics(self, request: web.Request) -> NoReturn:
        raise RestError(405, _SCALABLE)

    async def refuse_functions(self, request: web.Request) -> NoReturn:
        raise RestError(409, _FUNCTIONS)

    async def refuse_packages(self, request: web.Request) -> NoReturn:
        raise RestError(503, _PACKAGES)

    async def refuse_transactions(self, request: web.Request) -> NoReturn:
        raise RestError(503, _TRANSACTIONS)

    # ---- offloading ----

    async def offload_policy(self, request: web.Request) -> web.Response:
        await self._require_place(request)
        return json_response(-1) if "Threshold" in request.match_info["offload"] else no_content()

    async def remove_offload(self, request: web.Request) -> web.Response:
        await self._require_place(request)
        return no_content()

    async def offload_status(self, request: web.Request) -> web.Response:
        await self._require_place(request)
        return json_response({"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": None})

    async def refuse_offload(self, request: web.Request) -> NoReturn:
        raise RestError(405, _OFFLOADING)

    async def _require_place(self, request: web.Request) -> None:
        """Check that the namespace in the path exists; if the path has a topic, also that the topic exists.

        Raises:
            RestError: 404, the namespace does not exist.
            TopicNotFoundError: the topic does not exist.
        """
        await require_namespace(self._services, namespace_of(request))
        if "topic" in request.match_info:
            topic, resources = topic_of(request), self._services.resources
            if await resources.partitioned_metadata(topic) is None and not await resources.topic_exists(topic):
                raise TopicNotFoundError(topic)
