"""Keeps a broker that cannot balance from leading while another broker can.

A broker without numpy assigns bundles, but does not shed or split them (`load.installed`). Its registration says so
(`only_assigns`). If it led, the whole cluster would not be balanced. So it takes part in the election only while no
other registered broker with the same election can balance. When one that can is registered, it ends its term.

| another registered broker                     | this broker                                                    |
|-----------------------------------------------|----------------------------------------------------------------|
| balances                                      | observes; if it leads, it deletes its key, so another can lead |
| balances, but there was no leader for a while | as if it were not there, for PASSED_S or until it restarts     |
| has the no-op load manager, or leads others   | as if it were not there                                        |
| none of these                                 | takes part in the election, and leads if it wins               |

The second row is needed where the leader writes all metadata: the registration of a broker that died stays until a
leader deletes it. Between the terms of two leaders, each broker assigns bundles itself.
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

PATIENCE_S: Final = 5.0
"""If there was no leader for this number of seconds, the registered brokers that can balance are ignored."""
PASSED_S: Final = 600.0
"""The number of seconds for which registered brokers that could balance, but did not become leader, are ignored."""
_LOOK_AGAIN_S: Final = 1.0
"""The maximum number of seconds between two reads of the registered brokers and the leader."""
_MAX_LOGGED_BROKERS: Final = 10


class Candidate(Protocol):
    """The methods of `Leadership` that this module needs."""

    def leader(self) -> object | None: ...

    async def leave_to_others(self) -> None: ...

    def take_part(self) -> None: ...


def can_lead(data: LocalBrokerData, *, by_records: bool) -> bool:
    """Return whether the broker that registered `data` can lead and balance bundles.

    It must be able to shed and split bundles. It must own bundles by records if `by_records`, else by locks, because
    the brokers of each of these two ways elect a leader of their own.
    """
    if data.only_assigns is True or owns_by_records(data) is not by_records:
        return False
    try:
        return manager_kind(data.load_manager_class_name or "") is not ManagerKind.NOOP
    except StrategyError:
        return True


class Candidacy(Protocol):
    """Decides whether a broker takes part in the election."""

    async def start(self, me: str) -> None:
        """Decide, before the election begins, whether the broker `me` takes part in it. From then on, decide again each
        time the registered brokers change.
        """
        ...

    async def close(self) -> None:
        """Stop deciding whether this broker takes part. Idempotent."""
        ...


class AlwaysCandidate:
    """Implements `Candidacy` for a broker that can shed and split bundles: it always takes part in the election."""

    async def start(self, me: str) -> None:
        pass

    async def close(self) -> None:
        pass


class CandidateOfLastResort:
    """Implements `Candidacy` for a broker that can only assign bundles, not shed or split them.

    It takes part in the election only while no other registered broker can lead. `by_records`: this broker takes part
    in the election of brokers with ownership records; False: in that of brokers with ownership locks.
    """

    def __init__(self, registration: Registration, leadership: Candidate, *, by_records: bool) -> None:
        self._registration = registration
        self._leadership = leadership
        self._by_records = by_records
        self._me = ""
        self._takes_part: bool | None = None
        self._led_at_s = 0.0
        """When a leader was known last, in the time of the event loop."""
        self._passed: dict[str, tuple[str, float]] = {}
        """The brokers that are ignored because they did not become leader: the incarnation of each, and since when, in
        the time of the event loop."""
        self._task: asyncio.Task[None] | None = None

    async def start(self, me: str) -> None:
        """Read, before the election begins, which brokers are registered, and decide whether the broker `me` takes
        part. From then on, read and decide again after each change of the registered brokers, and periodically.
        """
        log.warning(
            "broker_only_assigns",
            broker=me,
            reason="numpy is not installed",
            effect="this broker assigns bundles by their number, and does not shed or split them",
            to_change=BALANCE_INSTALL,
        )
        self._me, self._led_at_s = me, asyncio.get_running_loop().time()
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
        now_s = asyncio.get_running_loop().time()
        try:
            found = await self._balancing(self._registration.brokers - {self._me}, now_s)
        except MetadataError as error:
            log.warning("candidacy_not_decided", reason=str(error))
            return
        if not found or self._leadership.leader() is not None:
            self._led_at_s = now_s
        elif now_s - self._led_at_s >= PATIENCE_S:
            self._passed = {broker: (incarnation, now_s) for broker, incarnation in found.items()}
            log.warning("brokers_that_balance_do_not_lead", brokers=list(found)[:_MAX_LOGGED_BROKERS])
            found = {}
        takes_part = not found
        if takes_part is not self._takes_part:
            self._takes_part = takes_part
            log.info("candidacy_changed", takes_part=takes_part, brokers_that_balance=list(found)[:_MAX_LOGGED_BROKERS])
        if takes_part:
            self._leadership.take_part()
        else:
            await self._leadership.leave_to_others()

    async def _balancing(self, brokers: Iterable[str], now_s: float) -> dict[str, str]:
        """Return those of `brokers` that can lead and balance bundles, each with its incarnation (the run of its
        process). A broker that could have become leader while there was none, and did not, is left out for PASSED_S
        seconds, or until it restarts. `now_s` is the time of the event loop.
        """
        found = {}
        for broker in sorted(brokers):
            data = await self._registration.data_of(broker)
            if data is None or not can_lead(data, by_records=self._by_records):
                continue
            incarnation, since_s = self._passed.get(broker, ("", -PASSED_S))
            if data.incarnation != incarnation or now_s - since_s >= PASSED_S:
                found[broker] = data.incarnation
        return found
