"""Reads how many errors the clients of a cluster get, from the metrics of its brokers (`GET /metrics/`).

The metrics of a broker with many topics are large, so they are read around moves of this program only: once at the
start, before moves begin, and while they are judged. Few brokers are read at a time, and of a large cluster only some.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.balancer.judging.error_counts import (
    LOOKUPS,
    SHORTEST_MS,
    ErrorReading,
    errors_in,
    is_too_soon,
    per_minute,
)
from pulsar_barycenter.naming.counted import count_of

MAX_BROKERS_READ: Final = 64
"""The number of brokers whose metrics are read: the first ones by name."""
MAX_METRICS_BYTES: Final = 128 << 20
"""The size of the metrics of a broker that are read."""
METRICS: Final = "/metrics/"
"""Apache Pulsar's brokers redirect the path without the slash."""
_AT_ONCE: Final = 2
_ANSWERS_S: Final = 10.0
_WITHIN_S: Final = 60.0


class ClientErrors:
    """Reads how many errors clients get a minute (`per_minute`), from the metrics of brokers; if this is not known,
    `why_unknown` says why.
    """

    def __init__(self, new_client: NewClient, now_ms: Callable[[], int]) -> None:
        """Create an HTTP client with `new_client`, for the requests of this object alone; `close` closes it."""
        self._client: AdminClient = new_client(timeout_s=_ANSWERS_S, most_bytes=MAX_METRICS_BYTES)
        self._now_ms = now_ms
        self._last: ErrorReading | None = None
        self.per_minute: float | None = None
        """The errors a minute between the last two readings; None if there are not two readings, no broker is in both,
        or the last reading failed."""
        self.why_unknown = ""
        """Why the last reading has the errors of no broker; blank if it has those of at least one."""

    @property
    def is_begun(self) -> bool:
        """Whether there is a reading to compare with."""
        return self._last is not None

    async def read(self, addresses: Mapping[str, str]) -> None:
        """Read the metrics of brokers (`addresses`: broker id to web address), and set `per_minute` and `why_unknown`:
        the errors a minute since the last reading, and why the errors of no broker could be read. Do nothing if the
        last reading was less than a second ago.
        """
        if is_too_soon(self._last, self._now_ms()):
            return
        chosen = sorted(addresses.items())[:MAX_BROKERS_READ]
        gate = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.timeout(_WITHIN_S):
                found = await asyncio.gather(*(self._read_one(url, gate) for _, url in chosen))
        except TimeoutError:
            self.per_minute = None
            self.why_unknown = (
                f"the metrics of {count_of(len(chosen), 'broker')} were not read within {_WITHIN_S:.0f} s"
            )
            return
        counts = {broker: one for (broker, _), one in zip(chosen, found, strict=True) if isinstance(one, float)}
        failures = [one for one in found if isinstance(one, str)]
        self.why_unknown = "" if counts else next(iter(failures), "no broker is known")
        reading = ErrorReading(self._now_ms(), counts)
        self.per_minute, self._last = per_minute(self._last, reading), reading

    async def read_twice(self, addresses: Mapping[str, str]) -> None:
        """Read as `read` does. If there was no earlier reading to compare with, read a second time one second later, so
        that there are two.
        """
        await self.read(addresses)
        if self.per_minute is None and not self.why_unknown:
            await asyncio.sleep(SHORTEST_MS / 1000)
            await self.read(addresses)

    async def _read_one(self, url: str, gate: asyncio.Semaphore) -> float | str:
        async with gate:
            try:
                answer = await self._client.read(url, METRICS)
            except AdminRequestError as error:
                return str(error)
        errors = errors_in(answer.body)
        return f"{url}{METRICS} has no {LOOKUPS}" if errors is None else errors

    async def close(self) -> None:
        """Close the client. Idempotent."""
        await self._client.close()
