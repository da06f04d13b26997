"""Gives each request an id, from the header `X-Request-Id` or generated; brokers log this id, and the answer contains
it.

A header that is too long or not a request id is ignored, because the id is written to logs. See
`cluster_logs.request_ids`.
"""

from typing import Final

from aiohttp import web

from pulsar_barycenter.broker.rest.errors import Handler
from pulsar_barycenter.cluster_logs.request_ids import HEADER, is_request_id, new_request_id, serving

REQUEST_ID: Final = web.RequestKey("request_id", str)


@web.middleware
async def identified(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request an id: that in its header, or a new one if the header has no valid id. This middleware runs
    before all others, so that all log lines about the request have the id.
    """
    given = request.headers.get(HEADER, "")
    request[REQUEST_ID] = given if is_request_id(given) else new_request_id()
    with serving(request[REQUEST_ID]):
        return await handler(request)


async def answer_with_id(request: web.Request, response: web.StreamResponse) -> None:
    """Add the request id to the answer. The application calls this in `on_response_prepare`."""
    known = request.get(REQUEST_ID)
    if known is not None:
        response.headers[HEADER] = known
