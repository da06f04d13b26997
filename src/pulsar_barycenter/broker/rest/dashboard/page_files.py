"""Serves the files of the dashboard to all clients: they have no data, only the code that requests it.

The page loads nothing from other servers and sends requests only to the broker that served it; its content security
policy makes browsers enforce this. No page may show it in a frame (clickjacking).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from aiohttp import web

from pulsar_barycenter import html_pages
from pulsar_barycenter.broker.rest.dashboard import page
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.services import BrokerServices

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_START: Final = "index.html"


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    content_type: str
    tag: str


class DashboardPage:
    def __init__(self, services: BrokerServices) -> None:
        pass

    async def start(self, request: web.Request) -> web.Response:
        return _answered(request, _START)

    async def file(self, request: web.Request) -> web.Response:
        return _answered(request, request.match_info["file"])


def _answered(request: web.Request, name: str) -> web.Response:
    found = _files().get(name)
    if found is None:
        raise RestError(404, f"The dashboard has no file {name[:100]!r}: its start page is /")
    headers = {**_HEADERS, "ETag": found.tag}
    if request.headers.get("If-None-Match") == found.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)


@cache
def _files() -> Mapping[str, _File]:
    """Return all files by name. A request is looked up in this table; it is never used as a path."""
    own = [entry for entry in files(page).iterdir() if entry.name.rpartition(".")[2] in _TYPES]
    found = {}
    for entry in (*own, files(html_pages) / "base.css"):
        body = entry.read_bytes()
        kind = _TYPES[entry.name.rpartition(".")[2]]
        found[entry.name] = _File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found
