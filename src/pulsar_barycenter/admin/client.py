"""A client of brokers' admin REST that follows redirects.

A client trusts the redirects of a broker that it trusts: it resends the verb, the body and its credentials to the host
in the redirect, as Pulsar's clients do, but never from an address with TLS to one without. With TLS, that host needs a
certificate of the same authorities. Source: the internal admin client of Pulsar's `PulsarService`.
"""

import asyncio
import math
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.credentials.client_authentication import (
    NO_AUTHENTICATION,
    ClientAuthentication,
    is_no_less_secret,
)
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tls import ClientTls, Renewed

MAX_REDIRECTS: Final = 10
REQUEST_TIMEOUT_S: Final = 70.0
"""Longer than the default of `namespaceBundleUnloadingTimeoutMs`."""
REQUEST_ID: Final = "x-request-id"
"""The header with the id of a request, which all brokers that serve the request log."""
LONGEST_HEADER: Final = 64 << 10
"""The maximum size of a header in an answer, in bytes: messages have their properties in headers."""
_MAX_CONNECTIONS: Final = 64
_TITLE: Final = re.compile(r"<title>(.{1,500}?)</title>", re.IGNORECASE | re.DOTALL)
_LONGEST_TOLD: Final = 300
"""The maximum number of characters of an address in an error."""
_LOOK_AT_FILES_S: Final = 10.0
"""How often the client checks whether certificate files were renewed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one broker. `headers` maps the name of each header, in lower case, to its value. `sent_headers` are
    the same headers as pairs of name and value, with the names spelled as the broker sent them. `body` is the body as
    bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    sent_headers: Sequence[tuple[str, str]] = ()


class NewClient(Protocol):
    """A function that makes an `AdminClient`. The caller has to close the client. `why` is the reason of the caller, as
    text: brokers store it with each change that the client requests.
    """

    def __call__(
        self, *, timeout_s: float = REQUEST_TIMEOUT_S, most_bytes: float = math.inf, why: str = ""
    ) -> "AdminClient": ...


class AdminClient:
    """An HTTP client for the admin API of brokers. If a broker answers 307 or 308, the client sends the same request,
    with its method and body, to the address in that answer.
    """

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
        """Make a client that sends `headers` with every request, also after a redirect.

        It also sends the credentials in `shows`, and the headers that `bears` returns: `bears` is called for each
        request. `tls` names the authorities whose certificates are trusted with https; None: those that the system
        trusts. A request whose answer has more than `most_bytes` bytes raises `AdminRequestError`.
        """
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
        """Send a request to the broker at `web_url` and return the JSON of its answer; None for an empty answer.

        `path` is already encoded. `body` is sent as JSON unless it is None; `headers` are sent in addition to those of
        the client. An answer that is not JSON is returned as text with `or_text`, and is an error without.

        Raises:
            AdminRequestError: the answer is an error, there is none, or a redirect cannot be followed: there are too
                many, it has no valid address, or it leads from a TLS address to one without TLS.
        """
        data = None if body is None else msgspec.json.encode(body)
        url = str(URL(web_url + path, encoded=True).update_query(params or {}))
        answer = await self._followed(method, url, data, headers or {})
        return _decoded(method, url, answer.body, or_text=or_text)

    async def read(self, web_url: str, path: str, *, params: Mapping[str, str] | None = None) -> Answer:
        """Send a GET request, follow redirects, and return the answer with its headers. The status of the answer is
        always below 300; an answer with another status raises `AdminRequestError`.

        Arguments and errors are those of `call`.
        """
        url = str(URL(web_url + path, encoded=True).update_query(params or {}))
        return await self._followed("GET", url, None, {})

    async def _followed(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> Answer:
        named: dict[str, str] = {}
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send(method, url, data, {**headers, **named})
            if REQUEST_ID in answer.headers:  # all brokers that the request reaches log the same id
                named = {REQUEST_ID: answer.headers[REQUEST_ID]}
            location = answer.headers.get("location")
            if answer.status in (307, 308) and location is not None:
                url = _moved(method, url, answer.status, location)
            elif answer.status < 300:
                return answer
            else:
                raise AdminRequestError(method, url, answer.status, reason_of(answer.body))
        raise AdminRequestError(
            method, url, 307, f"there were more than {MAX_REDIRECTS} redirects for one request: try again"
        )

    async def ask(self, web_url: str, path: str) -> Answer:
        """Send a GET request to the broker at `web_url`, and return its answer, also if that is an error or a redirect.

        Raises:
            AdminRequestError: the broker does not answer.
        """
        return await self._send("GET", web_url + path, None)

    async def forward(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> Answer:
        """Send a request to `url`, with `headers` in addition to those of the client. Return the answer, also if it is
        an error or a redirect; redirects are not followed.

        Raises:
            AdminRequestError: there is no answer.
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
            raise AdminRequestError(method, url, 0, "the request was not sent, because this broker is stopping")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS),
                max_field_size=LONGEST_HEADER,
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
                body = await self._body(method, url, answer)
                return Answer(answer.status, told, body, tuple(answer.headers.items()))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:  # ValueError: that is no address
            raise AdminRequestError(method, url, 0, _why_unanswered(url, error)) from error

    def _trusted(self) -> ssl.SSLContext | bool:
        """Return an SSL context with the present content of the files of trusted authorities; True: trust the
        authorities of the system.
        """
        if self._tls is None:
            return True
        if self._trust is None:
            self._trust = Renewed(self._tls, check_s=_LOOK_AT_FILES_S, now_s=asyncio.get_running_loop().time)
        return self._trust.context()

    async def _body(self, method: str, url: str, answer: aiohttp.ClientResponse) -> bytes:
        """Return the body of an answer, which may have at most `most_bytes` bytes (see `__init__`).

        Raises:
            AdminRequestError: the body is larger; its rest is not read.
        """
        pieces, size = [], 0
        async for piece in answer.content.iter_any():
            size += len(piece)
            if size > self._most_bytes:
                answer.close()
                raise AdminRequestError(
                    method, url, 0, f"the answer has more than {self._most_bytes:,} bytes, the maximum"
                )
            pieces.append(piece)
        return b"".join(pieces)


def reason_of(answer: bytes) -> str:
    """Return the `reason` in the body of an error, the title of an HTML page, or the body itself if it has neither.

    Pulsar's web server answers with a page if a path does not exist.
    """
    try:
        decoded = decode_json(answer, object)
    except msgspec.DecodeError:
        text = answer.decode(errors="replace")
        title = _TITLE.search(text)
        return (" ".join(title[1].split()) if title else text)[:500]
    return str(decoded["reason"]) if isinstance(decoded, dict) and "reason" in decoded else str(decoded)[:500]


def _why_unanswered(url: str, error: Exception) -> str:
    """Return a text that says why a request got no answer.

    aiohttp's text for a connection that failed mentions TLS even for an http address, so it is replaced.
    """
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        origin = URL(url, encoded=True).origin()
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"no server listens at {origin} (connection refused)"
        return f"cannot connect to {origin}: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__


def _moved(method: str, url: str, status: int, location: str) -> str:
    """Check a redirect from `url`, and return the address that it leads to.

    Raises:
        AdminRequestError: the target is not a valid address, or leads from a TLS address to one without TLS.
    """
    try:
        target = urljoin(url, location)
        is_secret_enough = is_no_less_secret(urlsplit(url).scheme, target)
    except ValueError as error:
        raise AdminRequestError(
            method, url, status, f"the redirect of the broker has no valid address: {error}"
        ) from error
    if not is_secret_enough:
        told = f"its redirect leads from TLS to {target[:_LONGEST_TOLD]}, without TLS, and is not followed"
        raise AdminRequestError(method, url, status, told)
    return target


def _decoded(method: str, url: str, answer: bytes, *, or_text: bool) -> Any:
    if not answer:
        return None
    try:
        return decode_json(answer, object)
    except msgspec.DecodeError as error:
        if or_text:
            return answer.decode(errors="replace")
        raise AdminRequestError(method, url, 200, f"the answer is not JSON: {error}") from error
