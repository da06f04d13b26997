"""Replaces the load manager of a running broker when `loadManagerClassName` changes.

The new load manager is made and started while the old one runs, and then replaces it in one step; only then is the old
one stopped. The broker stays registered all the time, so it keeps its bundles, and look-ups are answered throughout. If
the new one cannot be made or started, the old one continues. If the metadata store was the reason, the exchange is
tried again.

Source: Pulsar's `PulsarService` (listener of `loadManagerClassName`). Difference: Pulsar stops the old load manager
first, so that after a failure the broker has a stopped load manager and no registration.
"""

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import LoadManager, LoadManagerFactory
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind, manager_in_force
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

_RETRY_S: Final = 5.0


class LoadManagerSwitch:
    """Has the present load manager of a broker, and replaces it when the configuration names another one. Each call of
    `factory` creates the load manager that the configuration names then.
    """

    def __init__(self, config: ConfigHolder, registration: Registration, factory: LoadManagerFactory) -> None:
        self._config = config
        self._registration = registration
        self._factory = factory
        self._context: LoadManagerContext | None = None
        self._current: LoadManager | None = None
        self._kind = ManagerKind.MODULAR
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        config.on_change(MANAGER_KEY, lambda _config: self._wanted.set())

    @property
    def current(self) -> LoadManager:
        """The present load manager; do not store it, because it may be replaced."""
        assert self._current is not None, "there is no load manager yet: it is created when the ports are known"
        return self._current

    @property
    def is_made(self) -> bool:
        return self._current is not None

    def make(self, context: LoadManagerContext) -> None:
        """Create the first load manager. It is not started.

        Raises:
            StrategyError: the configuration names a load manager or strategy that cannot be created.
        """
        self._context = context
        self._kind = manager_in_force(self._config.current)
        self._current = self._factory(context)

    async def start(self) -> None:
        """Start the load manager. From now on, replace it when the configuration names another one."""
        await self.current.start()
        self._task = asyncio.create_task(self._follow(), name="load manager switch")

    async def settle(self) -> None:
        """Do not replace the load manager any more; a replacement in progress is abandoned. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._exchange()
            except MetadataError as error:
                log.warning("load_manager_not_exchanged", still=self._kind, reason=str(error), again_in_s=_RETRY_S)
                await asyncio.sleep(_RETRY_S)
                self._wanted.set()
            except Exception as error:
                log.exception(
                    "load_manager_not_exchanged",
                    key=MANAGER_KEY,
                    value=self._config.current.load_manager_class_name,
                    still=self._kind,
                    reason=str(error),
                )

    async def _exchange(self) -> None:
        wanted, old = manager_in_force(self._config.current), self.current
        if wanted is self._kind:
            return
        assert self._context is not None
        new = self._factory(self._context)
        with self._registration.kept():
            try:
                await new.start()
            except BaseException:
                await _stop(new)
                with suppress(MetadataError):  # restores the report of the old one, which continues
                    await old.write_report(force=True)
                raise
            before, self._kind, self._current = self._kind, wanted, new
            log.info("load_manager_exchanged", before=before, after=wanted, broker=self._context.urls.broker_id)
            await _stop(old)
            with suppress(MetadataError):  # replaces reports that the old one wrote in between
                await new.write_report(force=True)


async def _stop(manager: LoadManager) -> None:
    """Stop a load manager that is not used any more. An error is logged, not raised."""
    try:
        await manager.stop()
    except Exception:
        log.exception("load_manager_not_stopped", manager=type(manager).__name__)
