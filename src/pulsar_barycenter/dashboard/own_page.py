"""Whether a request comes from a page of this server, from a program, or from a page of another server. Pure.

A browser sends the requests of any page that a person has open, also to 127.0.0.1. A page whose name is rebound to this
address (DNS rebinding) would even read the answers; its `Host` is not a name of this server. A page of another origin
shows it by `Origin` or `Sec-Fetch-Site`. Programs send neither header, and an IP address cannot be rebound.
"""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

START: Final = "/"
"""The path of the dashboard."""
_MAX_SHOWN: Final = 255
_CACHED_HOSTS: Final = 64
"""Hosts whose check is cached. Nearly all requests use one of a few; unknown hosts push each other out."""


class Headers(Protocol):
    """The headers of a request, whose names have no case."""

    def get(self, key: str, default: str, /) -> str: ...

    def getall(self, key: str, default: list[str], /) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Strange:
    """The refusal of a request: the HTTP status of the answer, and the reason as text."""

    status: int
    reason: str


def strange_host(headers: Headers, known: Collection[str], server: str, advice: str = "") -> Strange | None:
    """Return why a request is refused if its header Host names another host than this server; None if the request is
    accepted.

    `known` are the names of this server in lower case; IP addresses and localhost are always accepted. In the text of
    the refusal, `server` says what this server is, such as "dashboard", and `advice` is a sentence about what a person
    can do. A request without that header is accepted, because it does not come from a browser: browsers always send the
    header.
    """
    given = headers.getall("Host", [])
    if not given or given == [""]:
        return None
    try:
        host = urlsplit(f"//{given[0]}").hostname
    except ValueError:
        host = None
    if len(given) > 1 or host is None:
        return Strange(400, "The header Host must be one host, with its port if it is not 80")
    if _is_local_or_address(host) or host.rstrip(".") in known:
        return None
    told = f"{host[:_MAX_SHOWN]!r} is not a known name of this {server}"
    return Strange(403, f"{told}. {advice}" if advice else told)


def strange_origin(headers: Headers, method: str, path: str, server: str) -> Strange | None:
    """Return why a request is refused if a web page of another origin sent it; None if the request is accepted.
    `server` is the name of this server in the text.
    """
    origin, host = headers.get("Origin", ""), headers.get("Host", "")
    if origin and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
        return Strange(
            403,
            f"Pages of another origin may not send requests to this {server}: the header Origin "
            "is not the address of this request",
        )
    if headers.get("Sec-Fetch-Site", "").lower() == "cross-site" and not _is_link_to_start(headers, method, path):
        return Strange(
            403,
            f"Pages of another site may not send requests to this {server}: the header Sec-Fetch-Site is cross-site",
        )
    return None


def _is_link_to_start(headers: Headers, method: str, path: str) -> bool:
    """Return whether a user followed a link to the dashboard, for example in a mail.

    The start page has no data, so this is safe. A frame or a script that requests it is not such a link.
    """
    return (
        path == START
        and method == "GET"
        and headers.get("Sec-Fetch-Mode", "") == "navigate"
        and headers.get("Sec-Fetch-Dest", "") == "document"
    )


@lru_cache(_CACHED_HOSTS)
def _is_local_or_address(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
