"""CONNECT and what it leads to: who the client is, CONNECTED, and a new proof when the one it showed has expired.

A proof is decided upon by CONNECT alone: the C++ client knows no AUTH_CHALLENGE before CONNECTED. Later, each
`authenticationRefreshCheckSeconds`, those whose proof has expired are asked by AUTH_CHALLENGE for another of the same
role. Who announced no such feature, gives no answer until the next look, or shows what is not believed, is closed.
Source: Pulsar's `ServerCnx.handleConnect`, `handleAuthResponse` and `refreshAuthenticationCredentials`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from pulsar_barycenter.broker.access.authentication import Session
from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.access.shown import Shown
from pulsar_barycenter.broker.wire.bounds import TEXT_LENGTH
from pulsar_barycenter.broker.wire.services import WireServices
from pulsar_barycenter.credentials.tls import common_name
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection as Wire

_FEATURES: Final = api.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)


class ShakenConnection(Protocol):
    """The connection, as its handshake uses it."""

    client_version: str

    @property
    def address(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...
    def send(self, frame: bytes) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def abort(self, reason: str) -> None: ...
    def close(self) -> None: ...


class Handshake:
    __slots__ = ("_asked", "_certificate_name", "_connection", "_refreshes", "_services", "_session", "_timer", "_wire")

    def __init__(self, connection: ShakenConnection, wire: Wire, services: WireServices) -> None:
        self._connection = connection
        self._wire = wire
        self._services = services
        self._session = Session(NOBODY)
        self._certificate_name: str | None = None
        self._refreshes = False
        self._asked = False
        """An AUTH_CHALLENGE has no answer yet."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def principal(self) -> Principal:
        """Who the client is, from CONNECTED on."""
        return self._session.principal

    def made(self, transport: asyncio.BaseTransport) -> None:
        """Look what the client showed in the handshake of TLS, if there was one."""
        self._certificate_name = common_name(transport.get_extra_info("peercert"))

    def connect(self, request: api.CommandConnect) -> Coroutine[Any, Any, None] | None:
        """Answer CONNECT, and take what came behind it without waiting for the answer."""
        self._connection.client_version = request.client_version[:TEXT_LENGTH]
        if self._services.authentication.enabled:
            return self._authenticate(request)
        self._accept()
        return None

    async def _authenticate(self, request: api.CommandConnect) -> None:
        original = request.original_principal if request.HasField("original_principal") else None
        try:
            self._session = await self._services.authentication.of_connection(
                self._shown(request.auth_method_name, request.auth_data),
                original,
                Shown(request.original_auth_method or "none", request.original_auth_data.encode()),
            )
        except AuthenticationError as error:
            self._services.counts.refused += 1
            self._refuse(error)
            return
        self._refreshes = request.feature_flags.supports_auth_refresh
        if not self._connection.is_closed:
            self._look_again()
            self._accept()

    def _accept(self) -> None:
        self._services.counts.accepted += 1
        self._wire.accept(
            self._services.server_version,
            max_message_size=self._services.config.max_message_size,
            feature_flags=_FEATURES,
        )
        self._connection.send(self._wire.data_to_send())
        self._connection.data_received(b"")

    def _refuse(self, error: AuthenticationError) -> None:
        """Say that the proof is not believed, and close."""
        self._services.authentication.tell_refused(
            error, address=self._connection.address, client=self._connection.client_version
        )
        self._connection.send(commands.error(commands.NO_REQUEST, api.AuthenticationError, str(error)))
        self._connection.close()

    # ---- after CONNECTED ----

    def respond(self, request: api.CommandAuthResponse) -> Coroutine[Any, Any, None] | None:
        """AUTH_RESPONSE: take a new proof, if one was asked for."""
        if not self._asked:
            return None
        self._asked = False
        return self._refresh(self._shown(request.response.auth_method_name, request.response.auth_data))

    async def _refresh(self, shown: Shown) -> None:
        try:
            session = await self._services.authentication.refreshed(self._session, shown)
        except AuthenticationError as error:
            self._refuse(error)
            return
        if self._services.authentication.has_expired(session):
            self._refuse(AuthenticationError("the new proof has expired, too"))
            return
        self._session = session

    def _look_again(self) -> None:
        if self._session.expires_at_s is not None:
            delay_s = self._services.config.authentication_refresh_check_seconds
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        if self._connection.is_closed:
            return
        if self._services.authentication.has_expired(self._session):
            reason = self._why_not_ask()
            if reason is not None:
                self._connection.abort(f"its proof of who it is has expired, and {reason}")
                return
            self._asked = True
            self._connection.send(commands.auth_challenge(self._services.server_version, self._session.method))
        self._look_again()

    def _why_not_ask(self) -> str | None:
        if not self._session.can_refresh:
            return "its proxy only named the client, so that nobody can show a new one"
        if not self._refreshes:
            return "the client cannot be asked for a new one"
        return "it shows no new one" if self._asked else None

    def stop(self) -> None:
        """Look no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def _shown(self, method: str, data: bytes) -> Shown:
        return Shown(method or "none", data, self._certificate_name)
