"""Where look-ups go while a cluster changes over to another load manager, broker by broker.

With `loadManagerMigrationEnabled` the load manager of the broker that started last is the newest, and brokers of
another one send who looks up a bundle that nobody owns to one of those that run it. So bundles follow the change-over,
and the brokers of the other manager are given none any more.

Source: Pulsar's `RedirectManager`. Different: a bundle that is owned is answered with its owner, by whichever manager.
"""

import asyncio
import math
import random
from collections.abc import Callable
from typing import Final

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.registration import Registration, owns_by_records, urls_of_report
from pulsar_barycenter.broker.lookup.owner_search import Candidate
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_in_force, manager_kind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import is_broker_bound

_BELIEVED_S: Final = 1.0


class NewestManager:
    """`me` is this broker's id, once it is known."""

    def __init__(
        self, config: ConfigHolder, registration: Registration, source: random.Random, me: Callable[[], str]
    ) -> None:
        self._config = config
        self._registration = registration
        self._random = source
        self._me = me
        self._read_at_s = -math.inf
        self._read_of: frozenset[str] = frozenset()
        self._reports: dict[str, LocalBrokerData] = {}

    @property
    def is_followed(self) -> bool:
        return self._config.current.load_manager_migration_enabled

    async def candidate(self, bundle: Bundle) -> Candidate | None:
        """Return a broker of the newest load manager, to be asked for `bundle`; None if this broker may decide itself.

        Raises:
            MetadataError: the store did not answer.
        """
        if not self.is_followed or is_broker_bound(bundle.namespace):
            return None
        brokers = {broker: data for broker, data in (await self._brokers()).items() if _kind(data) is not None}
        if not brokers:
            return None
        newest = _kind(max(brokers.items(), key=lambda each: (each[1].start_timestamp, each[0]))[1])
        among = {broker: data for broker, data in brokers.items() if _kind(data) is newest}
        if newest is manager_in_force(self._config.current) or self._me() in among:
            return None
        return self._one_of(among)

    async def reader_of_records(self) -> Candidate | None:
        """Return a broker that reads the ownership channel, to be asked for its topics; None if there is none.

        Raises:
            MetadataError: the store did not answer.
        """
        among = {broker: data for broker, data in (await self._brokers()).items() if owns_by_records(data)}
        return self._one_of(among) if among else None

    async def _brokers(self) -> dict[str, LocalBrokerData]:
        """Return what brokers registered, as the store had it a moment ago: by a stale answer two of them could send
        look-ups to each other."""
        now_s, brokers = asyncio.get_running_loop().time(), self._registration.brokers
        if now_s - self._read_at_s > _BELIEVED_S or brokers != self._read_of:
            found = {}
            for broker in sorted(brokers):
                data = await self._registration.read(broker)
                if data is not None:
                    found[broker] = data
            self._reports, self._read_of, self._read_at_s = found, brokers, now_s
        return self._reports

    def _one_of(self, among: dict[str, LocalBrokerData]) -> Candidate:
        broker = self._random.choice(sorted(among))
        return Candidate(urls_of_report(broker, among[broker]), authoritative=False)


def _kind(data: LocalBrokerData) -> ManagerKind | None:
    """Return which load manager a broker runs; None if it is not known here, or not told."""
    try:
        return None if data.load_manager_class_name is None else manager_kind(data.load_manager_class_name)
    except StrategyError:
        return None
