"""Keeps a broker that cannot balance from leading while another broker can.

A broker without numpy assigns bundles, but does not shed or split them (`load.installed`). Its registration says so
(`only_places`). If it led, the whole cluster would not be balanced. So it stands in the election only while each other
registered broker with the same election cannot balance either; when one that can is registered, it ends its term.

| registered                                | this broker                                                     |
|-------------------------------------------|-----------------------------------------------------------------|
| no broker that balances                   | stands in the election, and leads if it wins                    |
| a broker that balances                    | observes; if it leads, it deletes its key, so another can lead  |
| a broker with the no-op load manager, or with another election | as if it were not there                    |

Between the end of its term and the next leader's, brokers decide themselves, as between any two leaders.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

import structlog

from pulsar_barycenter.broker.cluster.registration import Registration, owns_by_records
from pulsar_barycenter.load.installed import BALANCE_INSTALL
from pulsar_barycenter.load.managers import ManagerKind, StrategyError, manager_kind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

_LOOK_AGAIN_S: Final = 5.0
"""The longest time between two looks at the registered brokers."""
_MAX_LOGGED_BROKERS: Final = 10


class Stands(Protocol):
    """The part of `Leadership` that this module needs."""

    async def stand_aside(self) -> None: ...

    def stand(self) -> None: ...


def can_lead(data: LocalBrokerData, *, by_records: bool) -> bool:
    """Return whether the broker that registered `data` balances, and takes part in the election of brokers that own
    bundles by records, or by locks."""
    if data.only_places is True or owns_by_records(data) is not by_records:
        return False
    try:
        return manager_kind(data.load_manager_class_name or "") is not ManagerKind.NOOP
    except StrategyError:
        return True


class Candidacy:
    """Decides whether a broker that only places stands in the election; `by_records`: which election it is."""

    def __init__(self, registration: Registration, leadership: Stands, *, by_records: bool) -> None:
        self._registration = registration
        self._leadership = leadership
        self._by_records = by_records
        self._me = ""
        self._stands: bool | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, me: str) -> None:
        """Look at the registered brokers now, before the election, and again after each change."""
        log.warning(
            "broker_only_places",
            broker=me,
            reason="numpy is not installed",
            effect="it assigns bundles by their number, and does not shed or split them",
            to_change=BALANCE_INSTALL,
        )
        self._me = me
        await self._look()
        self._task = asyncio.create_task(self._follow(), name="candidacy")

    async def close(self) -> None:
        """Stop following the registered brokers. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        while True:
            await self._registration.wait_change(_LOOK_AGAIN_S)
            await self._look()

    async def _look(self) -> None:
        try:
            found = await self._balancing(self._registration.brokers - {self._me})
        except MetadataError as error:
            log.warning("candidacy_not_decided", reason=str(error))
            return
        stands = not found
        if stands is not self._stands:
            self._stands = stands
            log.info("stands_for_leader", stands=stands, brokers_that_balance=found[:_MAX_LOGGED_BROKERS])
        if stands:
            self._leadership.stand()
        else:
            await self._leadership.stand_aside()

    async def _balancing(self, brokers: Iterable[str]) -> list[str]:
        found = []
        for broker in sorted(brokers):
            data = await self._registration.data_of(broker)
            if data is not None and can_lead(data, by_records=self._by_records):
                found.append(broker)
        return found
