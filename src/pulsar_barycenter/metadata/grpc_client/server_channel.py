"""A gRPC channel to one server, and its TLS settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import grpc
from grpc import aio

Tokens: TypeAlias = tuple[tuple[str, str], ...]
"""gRPC metadata (names and values) that is sent with each request, such as a token."""

MAX_ANSWER_BYTES: Final = 16 << 20
"""The maximum size in bytes of one answer. The longest answers list many keys."""

_OPTIONS: Final[list[tuple[str, int | str]]] = [
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),  # otherwise a new channel waits as long as the last one would have
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
]


@dataclass(frozen=True, slots=True)
class Tls:
    """Whether connections use TLS, and with which certificates. The values of `trusted_certificates`, `certificate` and
    `key` are the contents of PEM files, not their paths.
    """

    enabled: bool = False
    trusted_certificates: bytes | None = None
    """The certificate authorities to trust, in PEM; None: those that gRPC trusts by default."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    authority: str = ""
    """The name that the server's certificate must have; blank: the host in the server's address."""


def open_channel(endpoint: str, tls: Tls) -> aio.Channel:
    """Return a gRPC channel to `endpoint` (`HOST:PORT`). The connection is opened at the first request."""
    options = list(_OPTIONS)
    if tls.authority:
        name = "grpc.ssl_target_name_override" if tls.enabled else "grpc.default_authority"
        options.append((name, tls.authority))
    if not tls.enabled:
        return aio.insecure_channel(endpoint, options=options)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.trusted_certificates, private_key=tls.key, certificate_chain=tls.certificate
    )
    return aio.secure_channel(endpoint, credentials, options=options)


class ServerChannel:
    """A channel to one server. It is used for all requests until it is abandoned, for example because the server
    failed.
    """

    def __init__(self, endpoint: str, channel: aio.Channel) -> None:
        self.endpoint = endpoint
        self._channels = [channel]
        self._uses: dict[asyncio.Timeout, None] = {}
        self._is_abandoned = False

    @asynccontextmanager
    async def used(self, until_s: float | None = None) -> AsyncIterator[None]:
        """Context manager for a request on this channel. TimeoutError is raised inside the `with` statement when the
        channel is abandoned, or at the event-loop time `until_s` (None: there is no such time).

        This is needed because gRPC neither answers nor ends some calls when their channel is closed.
        """
        async with asyncio.timeout_at(until_s) as use:
            self._uses[use] = None
            if self._is_abandoned:
                use.reschedule(0)
            try:
                yield
            finally:
                del self._uses[use]

    def abandon(self) -> None:
        """Mark this channel as not usable: TimeoutError is raised inside every `with` statement of `used`, now and
        later.
        """
        self._is_abandoned = True
        for use in self._uses:
            if not use.expired():
                use.reschedule(0)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(None)
