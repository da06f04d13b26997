"""What this broker decided, and why, and what the leader decides upon: Barycenter's own resources.

    GET /barycenter/v1/decisions?limit=100&bundle=<tenant/namespace/range>&namespace=<tenant/namespace>
        &broker=<broker id>&since=<epoch ms>

returns the last decisions, oldest first, as in the decision log. Decisions are made by the leader; another broker shows
those of its own time as leader.

    GET /barycenter/v1/snapshot

returns the document of `load.snapshot.document`, from the leader.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from barycenter.broker.load_manager.contract import KeepsSnapshot
from barycenter.broker.rest.errors import RedirectError, RestError
from barycenter.broker.rest.openapi import TEXT, number, takes
from barycenter.broker.rest.ownership import location
from barycenter.broker.rest.requests import json_response, whole_number
from barycenter.broker.rest.services import BrokerServices
from barycenter.load.snapshot.document import encode_snapshot
from barycenter.logs.decision_log import KEPT, DecisionRecord
from barycenter.naming.bundle import Bundle
from barycenter.naming.namespace import NamespaceName

_DEFAULT_LIMIT: Final = 100
_LATEST_MS: Final = 2**53


class Decisions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/barycenter/v1/decisions", self.recent),
            web.get("/barycenter/v1/snapshot", self.snapshot),
        ]

    @takes(limit=number(KEPT), since=number(_LATEST_MS), bundle=TEXT, namespace=TEXT, broker=TEXT)
    async def recent(self, request: web.Request) -> web.Response:
        """Show the last decisions with their reasons; `limit`, `bundle`, `namespace`, `broker`, `since` (epoch ms)."""
        limit = whole_number(request, "limit", _DEFAULT_LIMIT, at_most=KEPT)
        decisions = self._services.decisions()
        wanted = _filter(request)
        records = [] if decisions is None else [record for record in decisions.recent() if wanted(record)]
        return json_response(records[-limit:] if limit else [])

    async def snapshot(self, request: web.Request) -> web.Response:
        """Show what the leader decides upon: loads, windows, policies; another broker redirects to it."""
        leadership = self._services.control.leadership
        if not leadership.is_leader():
            leader = await leadership.current_leader()
            if leader is None or leader.broker_id == self._services.urls.broker_id:
                raise RestError(503, "There is no leader at the moment. Try again.")
            raise RedirectError(location(request, leader.service_url, authoritative=False))
        manager = self._services.control.load_manager
        if not isinstance(manager, KeepsSnapshot):
            raise RestError(412, f"{type(manager).__name__} keeps no snapshot; the modular and the simple one do")
        document = await manager.snapshot_document()
        body = await asyncio.to_thread(encode_snapshot, document)
        return web.Response(body=body, content_type="application/json")


def _filter(request: web.Request) -> Callable[[DecisionRecord], bool]:
    """Return whether a decision is one of those asked for.

    Raises:
        InvalidNameError, RestError: a parameter is not of its form.
    """
    query = request.rel_url.query
    bundle = str(Bundle.parse(query["bundle"])) if query.get("bundle") else ""
    namespace = str(NamespaceName.parse(query["namespace"])) if query.get("namespace") else ""
    broker = query.get("broker", "")
    since_ms = whole_number(request, "since", 0, at_most=_LATEST_MS)
    return lambda record: record.at >= since_ms and record.concerns(bundle=bundle, namespace=namespace, broker=broker)
