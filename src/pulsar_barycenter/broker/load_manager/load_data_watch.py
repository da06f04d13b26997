"""Keeps the load data of the cluster up to date: reads the reports after every change under /loadbalance/brokers."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


class LoadDataWatch:
    """Refreshes the load data after changes, one refresh at a time.

    `refresh` reads what has changed and is called for each refresh. `known` returns the brokers in the load data. After
    each refresh, `unreported` is called with the number of registered brokers that are not in the load data; if none of
    them is, this is logged as an error. After a refresh, the watch pauses for `pause_share` times the duration of the
    refresh, because in a large cluster brokers report all the time.
    """

    def __init__(
        self,
        registration: Registration,
        refresh: Callable[[], Awaitable[None]],
        known: Callable[[], frozenset[str]],
        unreported: Callable[[int], None] = lambda _count: None,
        *,
        pause_share: float = 0.0,
    ) -> None:
        self._registration = registration
        self._refresh = refresh
        self._known = known
        self._unreported = unreported
        self._is_blind = False
        self._pause_share = pause_share
        self._refreshing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._stop_listening: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, first: Callable[[], Awaitable[None]]) -> None:
        """Call `first`, then refresh the load data in the background at every change. If `first` fails because the
        store does not answer, no error is raised, and a refresh in the background follows at once.
        """
        self._stop_listening = self._registration.on_change(self._changed.set)
        with suppress(MetadataError):
            await self._run(first)
        self._task = asyncio.create_task(self._watch(), name="load data")

    async def close(self) -> None:
        """Stop refreshing the load data. Idempotent."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def refresh(self) -> None:
        """Refresh the load data now.

        Raises:
            MetadataError: the store does not answer. The watch tries the refresh again in the background.
        """
        await self._run(self._refresh)

    async def catch_up(self, *, with_every_change: bool) -> None:
        """Refresh the load data if this is necessary: if it has no broker, or has a broker that left the cluster, or,
        with `with_every_change`, if anything changed since the last refresh.

        If the store does not answer, the load data stays as it is.

        Raises:
            MetadataError: the load data has no broker, and the store does not answer.
        """

        def is_due() -> bool:
            known = self._known()
            is_old = not known or not known <= self._registration.brokers
            return is_old or (with_every_change and self._changed.is_set())

        if not is_due():
            return
        try:
            await self._run(self._refresh, unless=lambda: not is_due())
        except MetadataError as error:
            if not self._known():
                raise
            log.warning("load_data_not_refreshed", reason=str(error))

    async def _run(self, work: Callable[[], Awaitable[None]], *, unless: Callable[[], bool] = lambda: False) -> None:
        async with self._refreshing:
            if unless():
                return
            self._changed.clear()
            try:
                await work()
                self._judge()
            except (MetadataError, asyncio.CancelledError):  # also if the caller stopped waiting
                self._changed.set()
                raise

    def _judge(self) -> None:
        registered = self._registration.brokers
        unreported = registered - self._known()
        self._unreported(len(unreported))
        is_blind = bool(registered) and unreported == registered
        if is_blind and not self._is_blind:
            log.error(
                "no_load_report_known",
                brokers=sorted(registered),
                effect="bundles are assigned without knowing the loads",
            )
        elif self._is_blind and not is_blind:
            log.info("load_reports_known_again", brokers=len(registered - unreported))
        self._is_blind = is_blind

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            started_s, pause_s = loop.time(), 0.0
            try:
                await self.refresh()
            except MetadataError as error:
                log.warning("load_data_not_refreshed", reason=str(error))
                pause_s = _RETRY_S
            except Exception:
                log.exception("load_data_not_refreshed")
            await asyncio.sleep(pause_s + self._pause_share * (loop.time() - started_s))
