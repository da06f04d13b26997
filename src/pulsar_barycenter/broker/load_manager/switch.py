"""The load manager of a running broker, exchanged when `loadManagerClassName` changes.

The new manager is made and started beside the old one and takes its place in one step; only then is the old one
stopped. The broker's registration stays throughout, and with it every bundle; lookups are answered by the manager of
the moment. If the new one cannot be made or started, the old one goes on as if nothing had been asked, and the
exchange is tried again while the store is what failed.

Source: Pulsar's `PulsarService` (listener of `loadManagerClassName`). Where we differ: Pulsar stops the old manager
first, so that a failure leaves a broker whose manager is stopped and which is not registered.
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
    """Owns the load manager; `factory` makes the one that the configuration names when it is called."""

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
        """The load manager of now: ask anew each time."""
        assert self._current is not None, "the load manager exists once the ports are known"
        return self._current

    @property
    def is_made(self) -> bool:
        return self._current is not None

    def make(self, context: LoadManagerContext) -> None:
        """Make the first load manager, which is not started yet.

        Raises:
            StrategyError: the configuration names what cannot be had.
        """
        self._context = context
        self._kind = manager_in_force(self._config.current)
        self._current = self._factory(context)

    async def start(self) -> None:
        """Start the load manager, and follow the configuration from now on."""
        await self.current.start()
        self._task = asyncio.create_task(self._follow(), name="load manager switch")

    async def settle(self) -> None:
        """Exchange no more; one that is under way is given up. Idempotent."""
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
                with suppress(MetadataError):  # the report of the one that goes on
                    await old.write_report(force=True)
                raise
            before, self._kind, self._current = self._kind, wanted, new
            log.info("load_manager_exchanged", before=before, after=wanted, broker=self._context.urls.broker_id)
            await _stop(old)
            with suppress(MetadataError):  # nothing that the old one wrote meanwhile shall stay
                await new.write_report(force=True)


async def _stop(manager: LoadManager) -> None:
    """Stop a manager that nobody uses any more; what goes wrong is told in the log."""
    try:
        await manager.stop()
    except Exception:
        log.exception("load_manager_not_stopped", manager=type(manager).__name__)
