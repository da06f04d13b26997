"""Redirects look-ups while a cluster changes to another load manager, broker by broker.

With `loadManagerMigrationEnabled` the load manager of the broker that started last is the newest. A broker with another
load manager redirects the look-up of a bundle without an owner to a broker with the newest one. So bundles move to
brokers with the new load manager, and brokers with the former one get no more bundles.

Source: Pulsar's `RedirectManager`. Difference: the look-up of a bundle with an owner returns this owner, whatever load
manager the owner has.
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

_REPORTS_LIFE_S: Final = 1.0
"""The number of seconds for which the registrations that were read last are used."""


class LoadManagerMigration:
    """While the brokers of a cluster change to another load manager one after the other, selects brokers with the newer
    one, to which look-ups are redirected. `me` returns this broker's id.
    """

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
        """Whether the configuration says that look-ups are redirected to brokers with the newest load manager."""
        return self._config.current.load_manager_migration_enabled

    async def candidate(self, bundle: Bundle) -> Candidate | None:
        """Return a broker to which look-ups of `bundle` are redirected: one with the newest load manager, which is that
        of the broker that started last. None if this broker has the newest load manager, if `is_followed` is False, or
        if the bundle belongs to a single broker (heartbeat namespaces).

        Raises:
            MetadataError: the store did not answer.
        """
        if not self.is_followed or is_broker_bound(bundle.namespace):
            return None
        brokers = {broker: data for broker, data in (await self._brokers()).items() if _kind(data) is not None}
        if not brokers:
            return None
        newest = _kind(max(brokers.items(), key=lambda item: (item[1].start_timestamp, item[0]))[1])
        candidates = {broker: data for broker, data in brokers.items() if _kind(data) is newest}
        if newest is manager_in_force(self._config.current) or self._me() in candidates:
            return None
        return self._choose(candidates)

    async def reader_of_records(self) -> Candidate | None:
        """Return a broker that owns bundles by records, to which look-ups of the topics with the ownership records are
        redirected; None if there is none.

        Raises:
            MetadataError: the store did not answer.
        """
        candidates = {broker: data for broker, data in (await self._brokers()).items() if owns_by_records(data)}
        return self._choose(candidates) if candidates else None

    async def _brokers(self) -> dict[str, LocalBrokerData]:
        """Return the registrations of all brokers, read at most _REPORTS_LIFE_S seconds ago. They must not be older,
        because two brokers could then redirect look-ups to each other.
        """
        now_s, brokers = asyncio.get_running_loop().time(), self._registration.brokers
        if now_s - self._read_at_s > _REPORTS_LIFE_S or brokers != self._read_of:
            found = {}
            for broker in sorted(brokers):
                data = await self._registration.read(broker)
                if data is not None:
                    found[broker] = data
            self._reports, self._read_of, self._read_at_s = found, brokers, now_s
        return self._reports

    def _choose(self, candidates: dict[str, LocalBrokerData]) -> Candidate:
        broker = self._random.choice(sorted(candidates))
        return Candidate(urls_of_report(broker, candidates[broker]), authoritative=False)


def _kind(data: LocalBrokerData) -> ManagerKind | None:
    """Return the kind of load manager of a broker. None if its registration names none, or one that this broker does
    not know.
    """
    try:
        return None if data.load_manager_class_name is None else manager_kind(data.load_manager_class_name)
    except StrategyError:
        return None
