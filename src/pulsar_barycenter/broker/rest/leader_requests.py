"""Redirects to the leader those requests that only the leader may carry out if `leaderOnlyMetadataWrites` is not
`false` (the routes marked `by_leader`).

| this broker                           | answer                                                    |
|---------------------------------------|-----------------------------------------------------------|
| is the leader                         | the handler's; its writes depend on the leader's epoch    |
| knows another leader                  | 307 to it                                                 |
| was elected, and has no epoch yet     | 503, try again                                            |
| knows no leader                       | 503, try again                                            |
"""

from aiohttp import web
from aiohttp.typedefs import Middleware

from pulsar_barycenter.broker.cluster.administration import under
from pulsar_barycenter.broker.rest.errors import Handler, RedirectError, RestError
from pulsar_barycenter.broker.rest.ownership import leader_url_for, location
from pulsar_barycenter.broker.rest.requests import route_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.metadata.errors import NotLeadingError


def leader_requests(services: BrokerServices) -> Middleware:
    """Return the middleware that redirects a request to the leader, if this broker is not the leader, the route of the
    request is marked `by_leader`, and `leaderOnlyMetadataWrites` is not `false`. All other requests are handled here.
    """

    @web.middleware
    async def redirect_to_leader(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_on = services.config.leader_only_metadata_writes != "false"
        row = route_of(request) if is_on else None
        if row is None or not row.by_leader:
            return await handler(request)
        try:
            epoch = services.control.leadership.epoch()
        except NotLeadingError:
            raise await _redirect(request, services) from None
        with under(epoch):
            return await handler(request)

    return redirect_to_leader


async def _redirect(request: web.Request, services: BrokerServices) -> RedirectError | RestError:
    leader = await services.control.leadership.current_leader()
    if leader is None or leader.broker_id == services.urls.broker_id:
        return RestError(503, "Only the leader can make this change, and there is no leader at the moment. Try again.")
    url = await leader_url_for(request, services, leader)
    if url is None:
        scheme = request.scheme.upper()
        return RestError(
            503,
            f"Only the leader can make this change, and the leader, {leader.broker_id}, has no {scheme} port: "
            "send the request with the other scheme, http or https",
        )
    return RedirectError(location(request, url, authoritative=False, keep_destination=True))
