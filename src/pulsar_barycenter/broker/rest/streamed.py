"""Sends an HTTP answer piece by piece while it is generated. Only this module creates an
`aiohttp.web.StreamResponse`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web


async def streamed(
    request: web.Request, headers: Mapping[str, str], make: Callable[[], Awaitable[Iterable[bytes]]]
) -> web.StreamResponse:
    """Answer with the pieces that `make` returns; other tasks run between two pieces.

    A request with HEAD gets the same headers and no body, and `make` is not called (RFC 9110, section 9.3.2).
    aiohttp leaves the body out of a `web.Response` by itself, but not out of a stream.
    """
    pieces = () if request.method == "HEAD" else await make()
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0)
    await response.write_eof()
    return response
