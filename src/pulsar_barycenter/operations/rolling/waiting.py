"""Waits, in a roll, for what happens in the cluster: asks again until it has happened, or a time limit is reached."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.rolling.contract import UNKNOWN, RolledCluster, RollOptions, RollStopped
from pulsar_barycenter.operations.rolling.reports import Arrival, SeenReport

_LOOKS_AGAIN_S: Final = 0.1
_LOOKS_AT_MOST_S: Final = 2.0
_UNKNOWN_IDENTITY_S: Final = 30.0
"""The time after which a healthy broker counts as restarted, if no identity distinguishes its process from the one
before.
"""
ANSWERS_S: Final = 120.0
"""The time limit for an answer of the cluster, during which requests are repeated."""

T = TypeVar("T")


def pauses_between_looks() -> Doubling:
    """Return the growing pauses after which a roll asks the cluster again."""
    return Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)


class Waiting:
    """Asks the cluster of a roll, and waits for its brokers. `stop` returns the reason to stop, blank if there is none;
    every wait ends with RollStopped once it returns one.
    """

    def __init__(self, cluster: RolledCluster, options: RollOptions, stop: Callable[[], str]) -> None:
        self._cluster = cluster
        self._options = options
        self._stop = stop

    async def until_reported(self, broker: str, judge: Callable[[SeenReport, float], Arrival], time_s: float) -> str:
        """Wait until the expected report of a broker has arrived; return a sentence that says how this is known.
        `judge` decides from the newest report and the seconds waited whether it has arrived. `time_s` is the time
        within which a broker publishes a change (`settle_s`).

        Raises:
            RollStopped: the report did not arrive within `RollOptions.reports_s`, or `time_s` if that is longer.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        pauses = pauses_between_looks()
        while True:
            waited_s = loop.time() - began
            found = judge(await self.ask(partial(self._cluster.report, broker)), waited_s)
            if found.is_arrived:
                return found.sentence
            if waited_s > max(self._options.reports_s, time_s):
                raise RollStopped(
                    f"the load report of {broker} did not arrive within {waited_s:.0f} s: {found.sentence}; look at"
                    " the broker's log, or wait longer with --reports-timeout"
                )
            await self.pause_for(pauses.next_s())

    async def until_in_service(self, broker: str, identity: str, within_s: float) -> None:
        """Wait until a broker is in service: registered, healthy and resolvable, and another process than the one of
        `identity`.

        Raises:
            RollStopped: it is not in service after `within_s` seconds.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        pauses = pauses_between_looks()
        was_away = not identity
        while True:
            missing, is_away = await self._missing(
                broker, identity, was_away or loop.time() - began > _UNKNOWN_IDENTITY_S
            )
            was_away = was_away or is_away
            if not missing:
                return
            if loop.time() - began > within_s:
                raise RollStopped(
                    f"{broker} is not in service again after {within_s:g} s: {missing}; repair this broker, and start"
                    " `barycenter roll` again with the same options"
                )
            await self.pause_for(pauses.next_s())

    async def _missing(self, broker: str, identity: str, may_be_new: bool) -> tuple[str, bool]:
        """Return what a broker lacks to be in service, blank if it lacks nothing; and whether it does not run at all.
        `identity` is that of the process before the restart. If that identity is not known, the broker counts as
        restarted only if `may_be_new` is True.
        """
        if broker not in await self.ask(self._cluster.brokers):
            return "it is not listed among the brokers", True
        now = await self.identity(broker)
        if now and now == identity:
            return "it is still the old process, so nothing has restarted it", False
        if identity in ("", UNKNOWN) and not may_be_new:
            return "no interruption of it was seen, so it may not have restarted", False
        if not await self.is_healthy(broker):
            return "it is not healthy at its own address", False
        if not await self.ask(partial(self._cluster.resolves, broker)):
            return f"its host {broker.rpartition(':')[0]} has no address here", False
        return "", False

    async def until_gone(self, broker: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        pauses = pauses_between_looks()
        while broker in await self.ask(self._cluster.brokers):
            if loop.time() - began > self._options.back_s:
                raise RollStopped(
                    f"{broker} is still registered {self._options.back_s:g} s after it should have ended; end the"
                    " process of this broker, and start `barycenter roll` again with the same options"
                )
            await self.pause_for(pauses.next_s())

    async def ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the cluster's answer to the request that the function `ask` makes; repeat the request while the
        cluster cannot answer now.

        Raises:
            RollStopped: the cluster does not answer within 120 s, or an operator asks to stop meanwhile.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        pauses = pauses_between_looks()
        while True:
            try:
                return await ask()
            except NotNowError as error:
                if loop.time() - began > ANSWERS_S:
                    raise RollStopped(f"no broker answered within {ANSWERS_S:g} s: {error}") from error
            await self.pause_for(pauses.next_s())

    async def pause_for(self, seconds: float) -> None:
        if reason := self._stop():
            raise RollStopped(reason)
        await asyncio.sleep(seconds)

    async def is_healthy(self, broker: str) -> bool:
        try:
            return await self._cluster.is_healthy(broker)
        except (NotNowError, RefusedError):
            return False

    async def identity(self, broker: str) -> str:
        try:
            return await self._cluster.identity(broker)
        except (NotNowError, RefusedError):
            return ""
