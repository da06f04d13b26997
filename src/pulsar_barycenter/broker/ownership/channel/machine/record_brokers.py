"""The other brokers that own bundles by records: their addresses, and the numbers with which their present lives
(sessions) began.

This number shows whether the owner that a record names serves the bundle: after a restart it does not, until it has
written the record again.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.cluster.registration import Registration, owns_by_records, urls_of_report
from pulsar_barycenter.broker.ownership.channel.machine.own_life import SESSIONS_ROOT, Life
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.errors import InvalidValueError, MetadataError
from pulsar_barycenter.metadata.store import MetadataStore, Notification

log = structlog.get_logger(__name__)

_CHECK_AGAIN_S: Final = 5.0
"""The interval in seconds at which the other brokers are read, even without a notification."""


class RecordBrokers:
    def __init__(self, store: MetadataStore, registration: Registration, tasks: BackgroundTasks) -> None:
        self._registration = registration
        self._tasks = tasks
        self._owners: dict[str, Owner] = {}
        self._lives = MetadataCache(store, Life)
        self._lives_began: dict[str, int] = {}
        """The numbers with which the lives of the brokers began, if known."""
        self._changed = asyncio.Event()
        self._stop_listening = [store.add_listener(self._on_life), self._lives.close]

    def start(self, read: Callable[[str], Awaitable[LocalBrokerData | None]]) -> None:
        """Follow the registrations of the other brokers; `read` returns the registration of a broker."""
        self._stop_listening.append(self._registration.on_change(self._changed.set))
        self._tasks.start(self._follow(read), "addresses of brokers")

    def stop(self) -> None:
        for stop in self._stop_listening:
            stop()

    def __contains__(self, broker_id: str) -> bool:
        return broker_id in self._owners

    def get(self, broker_id: str) -> Owner | None:
        """Return the addresses of a broker, as they were read last. None if it was not registered then, or did not own
        bundles by records.
        """
        return self._owners.get(broker_id)

    def is_of_former_life(self, broker_id: str, record: ServiceUnitStateData) -> bool:
        """Return whether the broker that a record names as owner has begun another life (a new session) after the
        record was written, so that the record does not count any more. False also if this is not known.
        """
        return record.epoch is not None and record.epoch <= self._lives_began.get(broker_id, -1)

    def _on_life(self, change: Notification) -> None:
        if change.path.startswith(f"{SESSIONS_ROOT}/"):
            self._changed.set()

    async def _follow(self, read: Callable[[str], Awaitable[LocalBrokerData | None]]) -> None:
        """Read the registrations of the other brokers after each notification of a change, and also periodically,
        because a notification may be lost. Never returns.
        """
        while True:
            self._changed.clear()
            try:
                await self._learn_brokers(read)
            except MetadataError as error:
                log.info("addresses_of_brokers_not_read", reason=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_AGAIN_S):
                    await self._changed.wait()

    async def _learn_brokers(self, read: Callable[[str], Awaitable[LocalBrokerData | None]]) -> None:
        """Read the addresses of the registered brokers that own bundles by records. Remove all other brokers from this
        broker's memory.
        """
        registered = self._registration.brokers
        for broker in [known for known in self._owners if known not in registered]:
            del self._owners[broker]
            self._lives_began.pop(broker, None)
        for broker in sorted(registered):
            data = await read(broker)
            if data is not None and owns_by_records(data):
                await self._learn_life(broker)
                self._owners[broker] = urls_of_report(broker, data).owner(is_local=False, epoch=None)
            else:
                self._owners.pop(broker, None)

    async def _learn_life(self, broker: str) -> None:
        """Read the number with which the present life (session) of a registered broker began.

        If the broker has no such key, it has no life, and serves nothing. If the value cannot be decoded, as that of an
        earlier release of Barycenter, the number counts as not known.
        """
        path = f"{SESSIONS_ROOT}/{broker}"
        try:
            life = await self._lives.get(path)
            if life is None:  # or its notification was lost
                self._lives.invalidate(path)
                life = await self._lives.get(path)
        except InvalidValueError:
            self._lives_began.pop(broker, None)
        else:
            self._lives_began[broker] = sys.maxsize if life is None else life.since
