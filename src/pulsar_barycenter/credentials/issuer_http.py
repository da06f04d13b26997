"""Sends HTTP requests to an issuer of tokens. Size and duration of every answer are limited.

Redirects are not followed: only the configured server may answer, or one that the issuer's metadata names. Requests are
rare, so each has its own connection. Renewed files of certificate authorities apply at once, and no connection stays
open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from pulsar_barycenter.credentials.authorities import client_context
from pulsar_barycenter.credentials.errors import IssuerError
from pulsar_barycenter.credentials.issuers import MAX_DOCUMENT_BYTES, MAX_URL

_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}
"""Headers of each request. They disable compression, because a compressed answer could have any size after
decompression.
"""


@dataclass(frozen=True, slots=True)
class IssuerHttp:
    """Sends requests to an issuer, and has the rules for them.

    `trust_file` is the PEM file of the trusted certificate authorities, blank for those of the system; `trust_setting`
    is the setting that names this file. Connecting may take `connect_timeout_s`, and reading the answer
    `read_timeout_s` in total. `asks_https` refuses every http address, `asks_https_elsewhere` refuses http addresses
    other than loopback.
    """

    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    trust_file: str = ""
    trust_setting: str = ""
    asks_https: bool = True
    asks_https_elsewhere: bool = True

    def check(self) -> None:
        """Check that the file of the trusted certificate authorities can be read.

        Raises:
            KeyMaterialError: the trusted authorities cannot be read.
        """
        client_context(self.trust_file, self.trust_setting)

    def refusal(self, url: str) -> str | None:
        """Return why `url` must not be requested, as the end of a sentence that begins with the URL; None if it may be
        requested.
        """
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return "is not an address"
        if parts.scheme not in ("http", "https") or not host or len(url) > MAX_URL or not url.isprintable():
            return "is not an address of the form https://host"
        if parts.username is not None or parts.password is not None:
            return "has a user name in its address"
        is_strict = self.asks_https or (self.asks_https_elsewhere and not _is_loopback(host))
        if parts.scheme == "http" and is_strict:
            return "must use https: without it, anyone on the network path could answer"
        return None

    async def get(self, url: str) -> bytes:
        """Request the document at `url`, which may have at most MAX_DOCUMENT_BYTES, and return it.

        Raises:
            IssuerError: the address is refused, the server does not answer in time, or answers with an error.
            KeyMaterialError: the file of trusted authorities cannot be used.
        """
        status, body = await self._ask("GET", url, None)
        if status != 200:
            raise IssuerError(
                url, f"must answer with status 200, but answered with status {status}{_redirect_hint(status)}"
            )
        return body

    async def post(self, url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a form to `url`, and return the status and the body of the answer. A redirect is an error.

        Raises:
            IssuerError, KeyMaterialError: for the same reasons as in `get`.
        """
        status, body = await self._ask("POST", url, form)
        if 300 <= status < 400:
            raise IssuerError(url, f"answered with a redirect, status {status}{_redirect_hint(status)}")
        return status, body

    async def _ask(self, method: str, url: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        refusal = self.refusal(url)
        if refusal is not None:
            raise IssuerError(url, refusal)
        options: dict[str, Any] = {"allow_redirects": False, "data": form}
        if url.startswith("https:"):
            options["ssl"] = client_context(self.trust_file, self.trust_setting)
        timeout = aiohttp.ClientTimeout(
            total=self.connect_timeout_s + self.read_timeout_s,
            sock_connect=self.connect_timeout_s,
            sock_read=self.read_timeout_s,
        )
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=timeout, headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
                ) as session,
                session.request(method, URL(url, encoded=True), **options) as answer,
            ):
                return answer.status, await _body(url, answer)
        except TimeoutError as error:
            raise IssuerError(url, "did not answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise IssuerError(url, f"cannot be reached: {_description(error)}") from error


async def _body(url: str, answer: aiohttp.ClientResponse) -> bytes:
    """Return the body of an answer. If it is too large, it is not read to its end.

    Raises:
        IssuerError: the body is too large.
    """
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > MAX_DOCUMENT_BYTES:
            answer.close()
            raise IssuerError(
                url, f"returned a document of more than {MAX_DOCUMENT_BYTES:,} bytes, which is the maximum"
            )
        pieces.append(piece)
    return b"".join(pieces)


def _redirect_hint(status: int) -> str:
    return ": redirects are not followed" if 300 <= status < 400 else ""


def _description(error: Exception) -> str:
    """Describe a failed request without repeating any content of an answer."""
    if isinstance(error, aiohttp.ClientConnectorError | OSError):
        return str(error)[:300] or type(error).__name__
    return type(error).__name__


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
