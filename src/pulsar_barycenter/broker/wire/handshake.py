"""Answers CONNECT: authenticates the client, sends CONNECTED, and asks for new credentials when they expire.

Only the credentials in CONNECT are used, because the C++ client does not know AUTH_CHALLENGE before CONNECTED. Later
the broker checks every `authenticationRefreshCheckSeconds` whether the credentials have expired. If so, it asks by
AUTH_CHALLENGE for new ones of the same role. It closes a connection whose client did not announce this feature, does
not answer before the next check, or sends credentials that are not valid.
Source: Pulsar's `ServerCnx.handleConnect`, `handleAuthResponse` and `refreshAuthenticationCredentials`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from pulsar_barycenter.broker.access.authentication import Session
from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.access.received_credentials import Credentials
from pulsar_barycenter.broker.wire.bounds import TEXT_LENGTH
from pulsar_barycenter.broker.wire.services import ServedConnection, WireServices
from pulsar_barycenter.credentials.tls import common_name
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection as Wire

_FEATURES: Final = api.FeatureFlags(
    supports_get_partitioned_metadata_without_auto_creation=True, supports_scalable_topics=True
)


class Handshake:
    """Authenticates the client of one connection: when it connects, and again when its credentials expire."""

    __slots__ = (
        "_awaits_response",
        "_can_refresh",
        "_certificate_name",
        "_checks_response",
        "_connection",
        "_services",
        "_session",
        "_timer",
        "_wire",
    )

    def __init__(self, connection: ServedConnection, wire: Wire, services: WireServices) -> None:
        self._connection = connection
        self._wire = wire
        self._services = services
        self._session = Session(NOBODY)
        self._certificate_name: str | None = None
        self._can_refresh = False
        self._awaits_response = False
        """Whether an AUTH_CHALLENGE was sent and has no answer yet."""
        self._checks_response = False
        """Whether an AUTH_RESPONSE is being checked, which may take longer than the time between two checks."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def principal(self) -> Principal:
        """The principal of the client; NOBODY until the client is authenticated."""
        return self._session.principal

    def made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the connection is made: read the name in the client certificate of the TLS handshake, if there is
        one.
        """
        self._certificate_name = common_name(transport.get_extra_info("peercert"))

    def connect(self, request: api.CommandConnect) -> Coroutine[Any, Any, None] | None:
        """Handle CONNECT: authenticate the client if authentication is enabled, and answer with CONNECTED. Then handle
        the commands that the client sent without waiting for this answer. If the credentials are not valid, send an
        error and close the connection.
        """
        self._connection.client_version = request.client_version[:TEXT_LENGTH]
        if self._services.authentication.enabled:
            return self._authenticate(request)
        self._accept()
        return None

    async def _authenticate(self, request: api.CommandConnect) -> None:
        original = request.original_principal if request.HasField("original_principal") else None
        try:
            self._session = await self._services.authentication.of_connection(
                self._credentials(request.auth_method_name, request.auth_data),
                original,
                Credentials(request.original_auth_method or "none", request.original_auth_data.encode()),
            )
        except AuthenticationError as error:
            self._services.counts.refused += 1
            self._refuse(error)
            return
        self._can_refresh = request.feature_flags.supports_auth_refresh
        if not self._connection.is_closed:
            self._schedule_check()
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
        """Send the client an error because its credentials are not valid, log it, and close the connection."""
        self._services.authentication.log_refused(
            error, address=self._connection.address, client=self._connection.client_version
        )
        self._connection.send(commands.error(commands.NO_REQUEST, api.AuthenticationError, str(error)))
        self._connection.close()

    # ---- after CONNECTED ----

    def respond(self, request: api.CommandAuthResponse) -> Coroutine[Any, Any, None] | None:
        """Handle AUTH_RESPONSE, with which a client answers the broker's AUTH_CHALLENGE: check the new credentials, and
        close the connection if they are not valid. Ignore the command if no AUTH_CHALLENGE is unanswered.
        """
        if not self._awaits_response:
            return None
        self._awaits_response = False
        self._checks_response = True
        return self._refresh(self._credentials(request.response.auth_method_name, request.response.auth_data))

    async def _refresh(self, credentials: Credentials) -> None:
        try:
            session = await self._services.authentication.refreshed(self._session, credentials)
        except AuthenticationError as error:
            self._refuse(error)
            return
        finally:
            self._checks_response = False
        if self._services.authentication.has_expired(session):
            self._refuse(
                AuthenticationError("the new credentials have expired as well: send credentials that are still valid")
            )
            return
        self._session = session

    def _schedule_check(self) -> None:
        if self._session.expires_at_s is not None:
            delay_s = self._services.config.authentication_refresh_check_seconds
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._check_expiry)

    def _check_expiry(self) -> None:
        if self._connection.is_closed:
            return
        if not self._checks_response and self._services.authentication.has_expired(self._session):
            reason = self._reason_not_to_ask()
            if reason is not None:
                self._connection.abort(f"the client's credentials have expired, and {reason}")
                return
            self._awaits_response = True
            self._connection.send(commands.auth_challenge(self._services.server_version, self._session.method))
        self._schedule_check()

    def _reason_not_to_ask(self) -> str | None:
        if not self._session.can_refresh:
            return "the client's proxy sent only the client's name, so that the broker cannot ask for new credentials"
        if not self._can_refresh:
            return "the client does not support to be asked for new credentials"
        return "the client did not send new credentials" if self._awaits_response else None

    def stop(self) -> None:
        """Stop checking whether the credentials have expired. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def _credentials(self, method: str, data: bytes) -> Credentials:
        return Credentials(method or "none", data, self._certificate_name)
