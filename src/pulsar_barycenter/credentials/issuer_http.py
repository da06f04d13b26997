"""Questions to an issuer of tokens, with bounds to all that it may answer.

No redirect is followed: who may answer is what is configured, or what the issuer's own metadata name. Each question has
a connection of its own, as they are few; so renewed files of authorities count at once, and nothing stays open.
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
"""An answer comes as it is: one that is compressed could be any size."""


@dataclass(frozen=True, slots=True)
class IssuerHttp:
    """`trust_file` names the authorities, blank are those of the system; `trust_setting` is where it is named.

    A connection may take `connect_timeout_s`, and what is read from it `read_timeout_s` in all. `asks_https` refuses
    addresses of http; `asks_https_elsewhere` those that are not of loopback.
    """

    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    trust_file: str = ""
    trust_setting: str = ""
    asks_https: bool = True
    asks_https_elsewhere: bool = True

    def check(self) -> None:
        """Look whether the trusted authorities can be read.

        Raises:
            KeyMaterialError: they cannot.
        """
        client_context(self.trust_file, self.trust_setting)

    def refusal(self, url: str) -> str | None:
        """Return why an address is not asked, None if it may be."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return "is no address"
        if parts.scheme not in ("http", "https") or not host or len(url) > MAX_URL or not url.isprintable():
            return "is no address of the form https://host"
        if parts.username is not None or parts.password is not None:
            return "names a user in its address"
        is_strict = self.asks_https or (self.asks_https_elsewhere and not _is_loopback(host))
        if parts.scheme == "http" and is_strict:
            return "is not of https, which is asked of issuers: anybody on the way could answer"
        return None

    async def get(self, url: str) -> bytes:
        """Return what is published at `url`, at most MAX_DOCUMENT_BYTES.

        Raises:
            IssuerError: it may not be asked, does not answer in time, or not with that.
            KeyMaterialError: the file of trusted authorities cannot be used.
        """
        status, body = await self._ask("GET", url, None)
        if status != 200:
            raise IssuerError(url, f"answers with status {status}{_of_redirect(status)}")
        return body

    async def post(self, url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        """Return status and body of the answer to a form; a redirect is no answer.

        Raises:
            IssuerError, KeyMaterialError: as `get`.
        """
        status, body = await self._ask("POST", url, form)
        if 300 <= status < 400:
            raise IssuerError(url, f"answers with status {status}{_of_redirect(status)}")
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
            raise IssuerError(url, "does not answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise IssuerError(url, f"cannot be asked: {_in_words(error)}") from error


async def _body(url: str, answer: aiohttp.ClientResponse) -> bytes:
    """Return the body; one that is too large is not read to its end."""
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > MAX_DOCUMENT_BYTES:
            answer.close()
            raise IssuerError(url, f"answers with more than {MAX_DOCUMENT_BYTES:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _of_redirect(status: int) -> str:
    return ": a redirect, and none is followed" if 300 <= status < 400 else ""


def _in_words(error: Exception) -> str:
    """Say what went wrong; what an answer held is not repeated."""
    if isinstance(error, aiohttp.ClientConnectorError | OSError):
        return str(error)[:300] or type(error).__name__
    return type(error).__name__


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
