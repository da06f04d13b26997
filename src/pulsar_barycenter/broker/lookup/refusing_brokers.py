"""Finds brokers that refuse connections, while the metadata store still names them as owners or leaders.

A process that was killed keeps its locks until its session expires. A client that is sent to this process is refused,
and doubles its back-off with each attempt, up to a minute. So the look-up service does not give such an answer, and
holds the look-up.

This broker checks the owners in its answers in the background: it opens a connection and closes it. It checks a broker
at most once in VALID_S seconds, or in ASK_AGAIN_S seconds while the checked broker refuses. Two rules avoid false
alarms:

- Only a refused connection counts. No answer does not count: the network from here to the broker may be cut, while
  the client can reach it.
- A refusal counts for at most `longest_s` seconds. The session of a process that has ended never lasts longer. So after
  that time the broker is alive, and only this broker cannot connect to it.

Pulsar has no such checks: there clients are sent to a dead broker until its session expires.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.bounds.recent import Recent

VALID_S: Final = 1.0
ASK_AGAIN_S: Final = 0.25
_CONNECT_S: Final = 1.0
_MAX_ADDRESSES: Final = 10_000
"""The maximum number of addresses that are recorded. The oldest is removed first."""


async def refuses_connections(service_url: str) -> bool:
    """Open a connection to a service URL and close it. Return True if the connection was refused. Return False if it
    was opened, after any other error, and if there was no answer within a second.
    """
    try:
        parts = urlsplit(service_url)
        host, port = parts.hostname or "", parts.port or 0
        async with asyncio.timeout(_CONNECT_S):
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError, ValueError):
        return False
    transport.close()
    return False


@dataclass(eq=False, slots=True)
class _Address:
    checked_at_s: float
    is_checking: bool = False
    refused_since_s: float | None = None


class RefusingBrokers:
    """Tracks which brokers refuse connections, so that look-ups do not send clients to them. `probe` is
    `refuses_connections`, or a function that replaces it in a simulation. `longest_s` is the maximum number of seconds
    for which the store may still name a broker as owner after its process has ended; a refusal that lasts longer does
    not count.
    """

    def __init__(self, probe: Callable[[str], Awaitable[bool]], *, longest_s: float) -> None:
        self._probe = probe
        self._longest_s = longest_s
        self._addresses: Recent[str, _Address] = Recent(_MAX_ADDRESSES)
        self._tasks = BackgroundTasks("refusing_broker_not_checked")
        self._closed = False

    def refuses(self, service_url: str | None) -> bool:
        """Return whether the broker at `service_url` refused the connection of the last check, and began to refuse less
        than `longest_s` seconds ago. False if it was never checked, or `service_url` is None.

        This does not wait: if there was no check yet, or the last one is too old, it starts a check in the background
        and returns by what is known.
        """
        if service_url is None:
            return False
        now_s = asyncio.get_running_loop().time()
        address = self._addresses.get(service_url)
        if address is None:
            address = _Address(now_s)
            self._addresses.put(service_url, address)
            self._start_check(service_url, address)
        elif now_s - address.checked_at_s >= (VALID_S if address.refused_since_s is None else ASK_AGAIN_S):
            address.checked_at_s = now_s
            self._start_check(service_url, address)
        return address.refused_since_s is not None and now_s - address.refused_since_s < self._longest_s

    async def close(self) -> None:
        """Cancel all checks. Idempotent."""
        self._closed = True
        await self._tasks.close()

    def _start_check(self, service_url: str, address: _Address) -> None:
        if address.is_checking or self._closed:
            return
        address.is_checking = True
        self._tasks.start(self._check(service_url, address), f"connect to {service_url}")

    async def _check(self, service_url: str, address: _Address) -> None:
        try:
            is_refused = await self._probe(service_url)
        finally:
            address.is_checking = False
        now_s = asyncio.get_running_loop().time()
        if not is_refused:
            address.refused_since_s = None
        elif address.refused_since_s is None:
            address.refused_since_s = now_s
