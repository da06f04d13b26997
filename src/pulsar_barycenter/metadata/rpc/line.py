"""A channel to one server, and how to open one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import grpc
from grpc import aio

Tokens: TypeAlias = tuple[tuple[str, str], ...]
"""What is sent beside each request."""

MAX_ANSWER_BYTES: Final = 16 << 20
"""Of one answer; the longest tell many keys."""

_OPTIONS: Final[list[tuple[str, int | str]]] = [
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits as long as the last one would have
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
]


@dataclass(frozen=True, slots=True)
class Tls:
    """Whether and how TLS is spoken; all files as PEM, read already."""

    enabled: bool = False
    trusted_certificates: bytes | None = None
    """None trusts whom gRPC trusts."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    authority: str = ""
    """The name that a server's certificate is held against, instead of the host it was reached by."""


def open_channel(endpoint: str, tls: Tls) -> aio.Channel:
    """Return a channel to `HOST:PORT`, which connects when it is first used."""
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


class Line:
    """What goes to one server, until it is given up."""

    def __init__(self, endpoint: str, channel: aio.Channel) -> None:
        self.endpoint = endpoint
        self._channels = [channel]
        self._uses: dict[asyncio.Timeout, None] = {}
        self._is_given_up = False

    @asynccontextmanager
    async def used(self, until_s: float | None = None) -> AsyncIterator[None]:
        """Have the block raise TimeoutError when the line is given up, or at `until_s` of the loop's time.

        What gRPC does with calls on a channel that is closed is not relied upon: some are neither answered nor ended.
        """
        async with asyncio.timeout_at(until_s) as use:
            self._uses[use] = None
            if self._is_given_up:
                use.reschedule(0)
            try:
                yield
            finally:
                del self._uses[use]

    def give_up(self) -> None:
        self._is_given_up = True
        for use in self._uses:
            if not use.expired():
                use.reschedule(0)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(None)
