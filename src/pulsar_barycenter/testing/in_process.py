"""One broker of a test cluster inside the test process, on the event loop that starts it.

It starts in a fraction of the time that a process takes, and a debugger reaches it. It shares the interpreter with the
test: a test that blocks the loop blocks the broker, and a crash of one is a crash of both.
"""

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.rest.server import start_web
from pulsar_barycenter.config.broker_conf import load_broker_conf
from pulsar_barycenter.run.broker_process import broker_environment, load_tables_of, ready_of
from pulsar_barycenter.standalone.cluster import BrokerProcess, ClusterSettings, StandaloneCluster
from pulsar_barycenter.standalone.ready import BrokerReady
from pulsar_barycenter.testing.errors import NotInProcessError

_REASON: Final = "end of the test"


class _LogFile:
    """A context manager: within the block, structlog's events are written to the file `path`, as JSON lines. If the
    test has configured structlog itself, this does nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = None if structlog.is_configured() else self._path.open("a", encoding="utf-8")
        if self._file is not None:
            structlog.configure(
                processors=[
                    structlog.processors.add_log_level,
                    structlog.processors.TimeStamper(fmt="iso", utc=True),
                    structlog.processors.format_exc_info,
                    structlog.processors.JSONRenderer(),
                ],
                wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
                logger_factory=structlog.WriteLoggerFactory(file=self._file),
                cache_logger_on_first_use=False,
            )

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            structlog.reset_defaults()
            self._file.close()


class BrokerInProcess:
    """Implements `RunningBroker` with a broker inside this process, on the running event loop. Its ports are chosen at
    the first start, and stay the same at later starts.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._files = BrokerProcess(0, settings)
        self._running: AsyncExitStack | None = None

    @property
    def index(self) -> int:
        return 0

    @property
    def service_url(self) -> str:
        return self._files.service_url

    @property
    def web_url(self) -> str:
        return self._files.web_url

    @property
    def log(self) -> Path:
        return self._files.log

    @property
    def is_running(self) -> bool:
        return self._running is not None

    async def start(self) -> None:
        if self._running is not None:
            return
        self._files.write_configuration()
        config = load_broker_conf(self._files.configuration_file).config
        async with AsyncExitStack() as opened:
            opened.enter_context(_LogFile(self.log))
            env = await opened.enter_async_context(broker_environment(config))
            data = self._settings.directory.root
            web = partial(start_web, on_stopped=lambda: None, load_tables=load_tables_of(data))
            broker = Broker(config, env, web=web)
            await broker.start()
            opened.push_async_callback(broker.stop, reason=_REASON)
            ready: BrokerReady = ready_of(config, broker)
            self._files.take_ports(ready)
            self._running = opened.pop_all()

    async def stop(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            await running.aclose()

    async def kill(self) -> None:
        raise NotInProcessError("killed")

    def pause(self) -> None:
        raise NotInProcessError("paused")

    def resume(self) -> None:
        raise NotInProcessError("resumed")


class InProcessBrokers:
    """Implements `Brokers` with one broker inside this process."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._broker = BrokerInProcess(settings)

    @property
    def brokers(self) -> Sequence[BrokerInProcess]:
        return [self._broker]

    async def start(self) -> None:
        StandaloneCluster(self._settings).check_ports()
        await self._broker.start()

    async def stop(self) -> None:
        await self._broker.stop()

    async def kill(self) -> None:
        with suppress(Exception):
            await self._broker.stop()
