"""The files of the dashboard by name: they have no data, only the code that requests it.

The page loads nothing from other servers and sends requests only to the server that it came from; its content security
policy makes browsers enforce this. No page may show it in a frame (clickjacking).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from pulsar_barycenter import html_pages
from pulsar_barycenter.dashboard import page

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""The headers of each answer with a file."""
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
START: Final = "index.html"
"""The file that is served at `/`."""


@dataclass(frozen=True, slots=True)
class DashboardFile:
    """A file of the dashboard with its media type; `tag` is its `ETag`, which changes with the content."""

    body: bytes
    content_type: str
    tag: str


@cache
def dashboard_files() -> Mapping[str, DashboardFile]:
    """Return all files of the dashboard by name. The path of a request is looked up in this table, and never used as a
    path of the file system.
    """
    own = [entry for entry in files(page).iterdir() if entry.name.rpartition(".")[2] in _TYPES]
    found = {}
    for entry in (*own, files(html_pages) / "base.css"):
        body = entry.read_bytes()
        kind = _TYPES[entry.name.rpartition(".")[2]]
        found[entry.name] = DashboardFile(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found
