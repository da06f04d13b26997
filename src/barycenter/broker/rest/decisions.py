"""What this broker decided, and why: Barycenter's own resource.

`GET /barycenter/v1/decisions?limit=100&bundle=<tenant/namespace/range>` returns the last decisions, oldest first,
as in the decision log. Decisions are made by the leader; another broker shows those of its own time as leader.
"""

from typing import Final

from aiohttp import web

from barycenter.broker.decision_log import KEPT
from barycenter.broker.rest.requests import json_response, whole_number
from barycenter.broker.rest.services import BrokerServices
from barycenter.naming.bundle import Bundle

_DEFAULT_LIMIT: Final = 100


class Decisions:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/barycenter/v1/decisions", self.recent)]

    async def recent(self, request: web.Request) -> web.Response:
        """Show the last decisions with their reasons, oldest first; `limit`, `bundle`."""
        limit = whole_number(request, "limit", _DEFAULT_LIMIT, at_most=KEPT)
        wanted = request.rel_url.query.get("bundle")
        decisions = self._services.decisions()
        records = [] if decisions is None else decisions.recent(KEPT if wanted else limit)
        if wanted:
            bundle = str(Bundle.parse(wanted))
            records = [record for record in records if record.bundle == bundle]
        return json_response(records[-limit:] if limit else [])
