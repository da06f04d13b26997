"""Runs periodic work of a broker."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.errors import SessionLostError, StoreUnavailableError

log = structlog.get_logger(__name__)


class PeriodicTasks:
    """The periodic tasks of a broker; `close` ends them all."""

    def __init__(self) -> None:
        self._tasks = BackgroundTasks("periodic_task_ended")

    def start(self, name: str, run: Callable[[], Awaitable[object]], interval_s: Callable[[], float]) -> None:
        """Call `run` periodically. The first call is after `interval_s()` seconds; `interval_s` is called again for
        each interval. Exceptions are logged, and the task continues. If the metadata store did not answer, the log has
        the reason as a warning, without a traceback.

        If a run takes longer than the interval, the next run follows at once; missed runs are left out.
        """
        self._tasks.start(_repeat(name, run, interval_s), name)

    async def close(self) -> None:
        await self._tasks.close()


async def _repeat(name: str, run: Callable[[], Awaitable[object]], interval_s: Callable[[], float]) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + interval_s(), loop.time())
        await asyncio.sleep(due - loop.time())
        try:
            await run()
        except (SessionLostError, StoreUnavailableError) as error:
            log.warning("periodic_task_failed", task=name, reason=str(error))
        except Exception:
            log.exception("periodic_task_failed", task=name)
