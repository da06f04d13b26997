"""A client of brokers' admin REST that follows redirects.

A broker that is trusted with a request says who else is: verb, body and what the client shows go to whatever host it
points to, as Pulsar's clients send them, but never from TLS to where there is none. By TLS that host has to show a
certificate of the same authorities. Source: the internal admin client of Pulsar's `PulsarService`.
"""

import asyncio
import math
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.credentials.client_authentication import (
    NO_AUTHENTICATION,
    ClientAuthentication,
    is_no_less_secret,
)
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tls import ClientTls, Renewed

MAX_REDIRECTS: Final = 10
REQUEST_TIMEOUT_S: Final = 70.0
"""Longer than `namespaceBundleUnloadingTimeoutMs` takes by default."""
REQUEST_ID: Final = "x-request-id"
"""The header by which brokers find what they do for one request in each other's logs."""
_MAX_CONNECTIONS: Final = 64
_TITLE: Final = re.compile(r"<title>(.{1,500}?)</title>", re.IGNORECASE | re.DOTALL)
_LONGEST_TOLD: Final = 300
"""Characters of an address in an error."""
_LOOK_AT_FILES_S: Final = 10.0
"""How often it is looked whether files of certificates were renewed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one broker answered: `headers` by their names in lower case, `body` as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NewClient(Protocol):
    """Makes a client, to be closed by the one who asked for it; brokers keep `why` beside what is changed by it."""

    def __call__(
        self, *, timeout_s: float = REQUEST_TIMEOUT_S, most_bytes: float = math.inf, why: str = ""
    ) -> "AdminClient": ...


class AdminClient:
    """An HTTP client that resends verb and body to wherever a 307 points."""

    def __init__(
        self,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        headers: Mapping[str, str] | None = None,
        shows: ClientAuthentication = NO_AUTHENTICATION,
        tls: ClientTls | None = None,
        most_bytes: float = math.inf,
        bears: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`headers` go with every request, also where a broker points to another; so does what it
        `shows` of itself, and what it `bears` at the time. `tls` is whom it trusts by https, the system's authorities
        if it is not given. An answer of more than `most_bytes` is none."""
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._most_bytes = most_bytes
        self._headers = dict(headers or {})
        self._shows = shows
        self._bears = bears
        self._tls = tls
        self._trust: Renewed | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def call(
        self,
        method: str,
        web_url: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        or_text: bool = False,
    ) -> Any:
        """Send a request to the broker at `web_url` and return the JSON of its answer, None if that is empty.

        `path` is encoded already; `body` is sent as JSON unless it is None, `headers` besides those that go with every
        request. `or_text`: an answer that is no JSON is returned as text.

        Raises:
            AdminRequestError: the answer is not a success, there is none, or it moves on too often, to what is no
                address, or out of TLS.
        """
        data = None if body is None else msgspec.json.encode(body)
        url = str(URL(web_url + path, encoded=True).update_query(params or {}))
        named: dict[str, str] = {}
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send(method, url, data, {**(headers or {}), **named})
            if REQUEST_ID in answer.headers:  # one name for it on all brokers that it comes to
                named = {REQUEST_ID: answer.headers[REQUEST_ID]}
            location = answer.headers.get("location")
            if answer.status in (307, 308) and location is not None:
                url = _moved(method, url, answer.status, location)
            elif answer.status < 300:
                return _decoded(method, url, answer.body, or_text=or_text)
            else:
                raise AdminRequestError(method, url, answer.status, reason_of(answer.body))
        raise AdminRequestError(method, url, 307, f"more than {MAX_REDIRECTS} redirects")

    async def ask(self, web_url: str, path: str) -> Answer:
        """Return what this very broker answers to a GET, be it an error or a redirect.

        Raises:
            AdminRequestError: it does not answer.
        """
        return await self._send("GET", web_url + path, None)

    async def forward(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> Answer:
        """Send a request with these headers too, and return what is answered, be it an error or a redirect.

        Raises:
            AdminRequestError: nobody answers.
        """
        return await self._send(method, url, data, headers)

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(
        self, method: str, url: str, data: bytes | None, more_headers: Mapping[str, str] | None = None
    ) -> Answer:
        if self._closed:
            raise AdminRequestError(method, url, 0, "this broker is stopping")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout, headers=self._headers, connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS)
            )
        try:
            await self._shows.renew()
            headers = dict(self._shows.headers())
            trust = self._trusted() if url.startswith("https:") else True
        except KeyMaterialError as error:
            raise AdminRequestError(method, url, 0, str(error)) from error
        if method != "GET":
            headers["Content-Type"] = "application/json"  # Pulsar demands it of empty bodies, too
        headers |= {**self._bears(), **(more_headers or {})}
        try:
            target = URL(url, encoded=True)
            async with self._session.request(
                method, target, data=data, headers=headers, allow_redirects=False, ssl=trust
            ) as answer:
                told = {name.lower(): value for name, value in answer.headers.items()}
                return Answer(answer.status, told, await self._body(method, url, answer))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:  # ValueError: that is no address
            raise AdminRequestError(method, url, 0, _why_unanswered(url, error)) from error

    def _trusted(self) -> ssl.SSLContext | bool:
        """Return whom to trust, by the files as they are now; True is the system's authorities."""
        if self._tls is None:
            return True
        if self._trust is None:
            self._trust = Renewed(self._tls, check_s=_LOOK_AT_FILES_S, now_s=asyncio.get_running_loop().time)
        return self._trust.context()

    async def _body(self, method: str, url: str, answer: aiohttp.ClientResponse) -> bytes:
        """Return the body; one that is too large is not read to its end."""
        pieces, size = [], 0
        async for piece in answer.content.iter_any():
            size += len(piece)
            if size > self._most_bytes:
                answer.close()
                raise AdminRequestError(method, url, 0, f"the answer has more than {self._most_bytes:,} bytes")
            pieces.append(piece)
        return b"".join(pieces)


def reason_of(answer: bytes) -> str:
    """Return the `reason` of an error body, the title of a page of HTML, or the body itself if it has neither.

    Pulsar's web server answers with a page where it has no such path.
    """
    try:
        decoded = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        text = answer.decode(errors="replace")
        title = _TITLE.search(text)
        return (" ".join(title[1].split()) if title else text)[:500]
    return str(decoded["reason"]) if isinstance(decoded, dict) and "reason" in decoded else str(decoded)[:500]


def _why_unanswered(url: str, error: Exception) -> str:
    """Return why a request has no answer.

    aiohttp's text for a connection that failed mentions TLS even for an http address, so it is replaced.
    """
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        origin = URL(url, encoded=True).origin()
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"nobody listens at {origin} (connection refused)"
        return f"cannot connect to {origin}: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__


def _moved(method: str, url: str, status: int, location: str) -> str:
    """Return where a redirect leads from `url`.

    Raises:
        AdminRequestError: nowhere, or out of TLS.
    """
    try:
        target = urljoin(url, location)
        is_secret_enough = is_no_less_secret(urlsplit(url).scheme, target)
    except ValueError as error:
        raise AdminRequestError(method, url, status, f"it points to what is no address: {error}") from error
    if not is_secret_enough:
        told = f"it points to {target[:_LONGEST_TOLD]}, without TLS, where nothing goes that was asked for by TLS"
        raise AdminRequestError(method, url, status, told)
    return target


def _decoded(method: str, url: str, answer: bytes, *, or_text: bool) -> Any:
    if not answer:
        return None
    try:
        return msgspec.json.decode(answer)
    except msgspec.DecodeError as error:
        if or_text:
            return answer.decode(errors="replace")
        raise AdminRequestError(method, url, 200, f"the answer is not JSON: {error}") from error
