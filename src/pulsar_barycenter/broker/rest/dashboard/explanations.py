"""Answers where a topic, a bundle or a namespace is, why it is there, and what would make it move.

    GET /barycenter/v1/explanation?topic=persistent://tenant/namespace/topic    (or bundle=, namespace=, broker=)
        &destination=<broker id>                                 for a bundle: the effect of a move to this broker
    GET /barycenter/v1/bundles?broker=<broker id>&namespace=tenant/namespace&limit=500
    GET /barycenter/v1/balance

The leader answers all of them. A request does not assign a bundle: for a bundle without an owner, the answer says where
it would be placed. The leader's decisions are computed in a thread, and not more often than every DECIDE_AGAIN_S
seconds.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web

from pulsar_barycenter.admin.routes.barycenter import MOST_LISTED_BUNDLES
from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.rest.decisions import require_leader, snapshot_document
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace
from pulsar_barycenter.broker.rest.requests import json_response, whole_number
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.dashboard.bundle_list import listed_bundles
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_in_force
from pulsar_barycenter.load.policies import PolicyError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

DECIDE_AGAIN_S: Final = 5.0
MOST_PARTITIONS: Final = 200


@dataclass(slots=True)
class _Decided:
    """What this broker computed last for the dashboard. `decisions` is an `explained.SnapshotDecisions`, computed at
    the time `at` (seconds of the event loop). `balance` is the balance of the cluster for the same snapshot; None until
    a request needs it.
    """

    at: float
    decisions: Any
    balance: Any = None


class Explanations:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._deciding = asyncio.Lock()
        self._balancing = asyncio.Lock()
        self._last: _Decided | None = None

    async def explanation(self, request: web.Request) -> web.Response:
        query = request.rel_url.query
        given = {
            "topic": query.get("topic"),
            "bundle": query.get("bundle"),
            "namespace": query.get("namespace"),
            "broker": query.get("broker"),
        }
        named = [(kind, name) for kind, name in given.items() if name]
        if len(named) != 1:
            raise RestError(400, f"Send exactly one of the parameters {', '.join(given)}")
        await require_leader(request, self._services)
        [(kind, name)] = named
        about: dict[str, Any] = {}
        asked = {"bundle": "", "namespace": "", "broker": ""}
        if kind == "topic":
            topic = TopicName.parse(name)
            about = await self._about_topic(topic)
            asked["bundle"] = about["bundle"]
        elif kind == "bundle":
            bundle = Bundle.parse(name)
            await require_namespace(self._services, bundle.namespace)
            asked["bundle"] = str(bundle)
            about = {"bundle": str(bundle), "owner": await self._owner(bundle)}
        elif kind == "namespace":
            namespace = NamespaceName.parse(name)
            await require_namespace(self._services, namespace)
            asked["namespace"] = str(namespace)
            bundles = (await self._services.control.namespaces.bundles_of_now(namespace)).bundles
            about = {"bundles": [str(bundle) for bundle in bundles[:MOST_LISTED_BUNDLES]], "bundleCount": len(bundles)}
        else:
            if name not in self._services.control.registration.brokers:
                raise RestError(404, f"Broker is not active: {name}")
            asked["broker"] = name
        found = await self._explained(asked, about.get("owner", ""), query.get("destination", ""))
        return json_response({kind: name, **about, **msgspec.to_builtins(found)})

    async def _about_topic(self, topic: TopicName) -> dict[str, Any]:
        lookup = self._services.control.lookup
        bundle = await lookup.bundle_of(topic)
        try:
            partitions = await lookup.partitions(topic, auto_create=False)
            exists = True
        except TopicNotFoundError:
            partitions, exists = 0, False
        parts = []
        for index in range(min(partitions, MOST_PARTITIONS)):
            part = topic.partition(index)
            part_bundle = await lookup.bundle_of(part)
            owner = await self._owner(part_bundle)
            parts.append({"topic": str(part), "bundle": str(part_bundle), "owner": owner})
        return {
            "topic": str(topic),
            "exists": exists,
            "hash": f"0x{topic.hash32:08x}",
            "bundle": str(bundle),
            "owner": await self._owner(bundle),
            "partitionCount": partitions,
            "partitions": parts,
        }

    async def _owner(self, bundle: Bundle) -> str:
        """Return the owner of a bundle, "" if it has none; this does not assign the bundle."""
        answer = await self._services.control.lookup.lookup_bundle(bundle, read_only=True)
        return answer.broker_id if isinstance(answer, Owner) else ""

    async def _explained(self, asked: dict[str, str], owner: str, destination: str) -> Any:
        from pulsar_barycenter.dashboard.explained import explained  # brings numpy

        config = self._services.config
        manager = manager_in_force(config)
        try:
            known = (await self._decided(config, manager)).decisions
            return await asyncio.to_thread(
                lambda: explained(known, config, manager, owner=owner, destination=destination, **asked)
            )
        except (PolicyError, StrategyError) as error:
            raise RestError(412, str(error)) from error

    async def _decided(self, config: BrokerConfig, manager: ManagerKind) -> _Decided:
        """Return the decisions that the leader would take now. They were computed at most DECIDE_AGAIN_S seconds ago.

        Raises:
            PolicyError, StrategyError: the snapshot or the configuration is not valid.
        """
        from pulsar_barycenter.dashboard.explained import decisions_upon  # brings numpy

        async with self._deciding:
            now = asyncio.get_running_loop().time()
            if self._last is None or now - self._last.at >= DECIDE_AGAIN_S:
                document = await snapshot_document(self._services)
                decisions = await asyncio.to_thread(decisions_upon, document, config, manager)
                self._last = _Decided(now, decisions)
            return self._last

    async def balance(self, request: web.Request) -> web.Response:
        from pulsar_barycenter.dashboard.explained import cluster_balance  # brings numpy

        await require_leader(request, self._services)
        config = self._services.config
        try:
            known = await self._decided(config, manager_in_force(config))
            async with self._balancing:
                if known.balance is None:
                    known.balance = await asyncio.to_thread(cluster_balance, known.decisions, config)
            return json_response(known.balance)
        except (PolicyError, StrategyError) as error:
            raise RestError(412, str(error)) from error

    async def bundles(self, request: web.Request) -> web.Response:
        query = request.rel_url.query
        namespace = str(NamespaceName.parse(query["namespace"])) if query.get("namespace") else ""
        broker, limit = query.get("broker", ""), whole_number(request, "limit", 500, at_most=MOST_LISTED_BUNDLES)
        await require_leader(request, self._services)
        document = await snapshot_document(self._services)
        return json_response(await asyncio.to_thread(listed_bundles, document, broker, namespace, limit))
