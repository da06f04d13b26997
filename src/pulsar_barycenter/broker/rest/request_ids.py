"""One id for each request, taken from the header `X-Request-Id` or made here, logged by all brokers and answered.

A header that is no such id, or too long, is none: what somebody sends stands in logs. See `cluster_logs.request_ids`.
"""

from typing import Final

from aiohttp import web

from pulsar_barycenter.broker.rest.errors import Handler
from pulsar_barycenter.cluster_logs.request_ids import HEADER, is_request_id, new_request_id, serving

REQUEST_ID: Final = web.RequestKey("request_id", str)


@web.middleware
async def identified(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve a request under its id; it stands before all others, so that their lines bear it too."""
    given = request.headers.get(HEADER, "")
    request[REQUEST_ID] = given if is_request_id(given) else new_request_id()
    with serving(request[REQUEST_ID]):
        return await handler(request)


async def answer_with_id(request: web.Request, response: web.StreamResponse) -> None:
    """Tell whoever asked under which id it was done; for the application's `on_response_prepare`."""
    known = request.get(REQUEST_ID)
    if known is not None:
        response.headers[HEADER] = known
