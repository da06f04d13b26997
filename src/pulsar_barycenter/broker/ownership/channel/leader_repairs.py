"""Repairs ownership, on the leader: assigns the bundles of lost brokers to other brokers, and ends interrupted changes.

The leader checks all records when the registered brokers change, and periodically. A broker is lost when its session
has expired: it is not registered, and the ephemeral key of its session was deleted. A leader that lost its own session
waits until the other brokers may have new ones (`MetadataStability`).

Source: Pulsar's `ServiceUnitStateChannelImpl` (`monitorOwnerships`, `handleBrokerDeletionEvent`, `doCleanup`).
Difference: Pulsar checks the health of a broker before it takes its bundles. Here the end of its session is enough,
because a broker that lost its session has stopped serving before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

import structlog

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.broker.cluster.registration import Registration, owns_by_records
from pulsar_barycenter.broker.ownership.channel.channel_counters import ChannelCounters
from pulsar_barycenter.broker.ownership.channel.machine.own_life import SESSIONS_ROOT
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.load.service_units.repairs import concerns, look_over, override, successor_of_orphan
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.load.service_units.stability import cleanup_delay_ms, stability
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.coordination.epochs import Epoch
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore, SessionEvent
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import is_broker_bound, is_system_namespace

log = structlog.get_logger(__name__)

_MIN_PAUSE_S = 0.05
_MAX_DOUBLINGS = 4


class LeaderRepairs:
    """Repairs, on the leader, ownership records that name lost brokers or were not completed. `choose(bundle, brokers)`
    returns an owner for the bundle, but none of `brokers`; None if no broker can own it.
    """

    def __init__(
        self,
        store: MetadataStore,
        records: OwnershipRecords,
        registration: Registration,
        config: ConfigHolder,
        clock: Clock,
        *,
        is_leader: Callable[[], bool],
        epoch: Callable[[], Epoch],
        choose: Callable[[Bundle, Collection[str]], Awaitable[str | None]],
        counters: ChannelCounters,
    ) -> None:
        self._store = store
        self._records = records
        self._registration = registration
        self._config = config
        self._clock = clock
        self._is_leader = is_leader
        self._epoch = epoch
        self._choose = choose
        self._counters = counters
        self._readers: frozenset[str] = frozenset()
        """The registered brokers that own by records; a broker may return with a load manager that owns by locks."""
        self._logged_missing: frozenset[str] = frozenset()
        """Brokers that were logged as missing and do not count as lost yet."""
        self._next_check: asyncio.TimerHandle | None = None
        self._has_session = True
        self._reestablished_at_ms: int | None = None
        self._failed_checks = 0
        """The number of consecutive failed checks, at most _MAX_DOUBLINGS."""
        self.due = asyncio.Event()
        """Set when the ownership records have to be checked soon."""
        self._stop_listening = [
            store.add_session_listener(self._on_session_event),
            registration.on_change(self.due.set),
        ]

    def close(self) -> None:
        for stop in self._stop_listening:
            stop()
        self._stop_listening = []
        if self._next_check is not None:
            self._next_check.cancel()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._has_session = False
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._has_session, self._reestablished_at_ms = True, self._clock.now_ms()

    def pause_s(self) -> float:
        """Return the minimum number of seconds between two checks. It doubles after each check that failed, up to 0.8
        s.

        A failure may persist, for example for a former leader that does not know of its successor.
        """
        return _MIN_PAUSE_S * (1 << self._failed_checks)

    async def run(self) -> None:
        """Check all ownership records, and do all repairs that are possible now. Do nothing if this broker is not the
        leader.

        Raises:
            ChannelUnavailableError, MetadataError: nothing can be repaired now.
        """
        if not self._is_leader():
            return
        await self._records.catch_up()
        registered = await self._registration.refresh()
        self._readers = await self._readers_of_records(registered)
        live = self._readers | set(await self._store.children(SESSIONS_ROOT))
        now_ms, config = self._clock.now_ms(), self._config.current
        delay_ms = cleanup_delay_ms(
            stability(has_session=self._has_session, reestablished_at_ms=self._reestablished_at_ms, now_ms=now_ms),
            reestablished_at_ms=self._reestablished_at_ms,
            now_ms=now_ms,
            session_timeout_ms=config.metadata_store_session_timeout_millis,
        )
        if delay_ms is None or not self._readers:
            return
        found = look_over(
            ((str(bundle), record) for bundle, record in self._records.items()),
            live,
            now_ms,
            in_flight_ms=config.load_balancer_in_flight_service_unit_state_waiting_time_in_millis,
            tombstone_ms=round(config.load_balancer_service_unit_state_tombstone_delay_time_in_seconds * 1000),
        )
        changed_over = found.lost_brokers & (registered - self._readers)
        missing = found.lost_brokers - changed_over
        if delay_ms > 0:
            self._wait_for(missing, delay_ms)
        lost = changed_over if delay_ms > 0 else found.lost_brokers
        failed = await self._clean_up(sorted(lost)) if lost else 0
        failed += await self._repair_all(found.orphans.items(), self._end_orphan)
        failed += await self._repair_all(found.outlived.items(), self._forget)
        self._failed_checks = min(self._failed_checks + 1, _MAX_DOUBLINGS) if failed else 0

    async def _readers_of_records(self, registered: Collection[str]) -> frozenset[str]:
        found = set()
        for broker in sorted(registered):
            data = await self._registration.read(broker)
            if data is not None and owns_by_records(data):
                found.add(broker)
        return frozenset(found)

    def _wait_for(self, missing: set[str], delay_ms: int) -> None:
        """Schedule a check `delay_ms` from now, when the `missing` brokers, which have no session, count as lost if
        they are still missing. Log each missing broker once.
        """
        for broker in sorted(missing - self._logged_missing):
            self._counters.count("inactive_broker_cleanup_ops", result="Schedule")
            log.warning("broker_missing", broker=broker, counts_as_lost_in_s=delay_ms / 1000)
        self._logged_missing = frozenset(missing)
        if self._next_check is not None:
            self._next_check.cancel()
        if missing:
            self._next_check = asyncio.get_running_loop().call_later(delay_ms / 1000, self.due.set)

    async def _clean_up(self, lost: Collection[str]) -> int:
        """Assign the bundles of lost brokers, whose sessions have expired, to other brokers. Bundles of system
        namespaces come last, as in Pulsar. Return the number of bundles for which this failed.
        """
        log.warning("brokers_lost", brokers=lost)
        for _ in lost:
            self._counters.count("inactive_broker_cleanup_ops", result="Success")
        concerned = [
            (str(bundle), record)
            for bundle, record in self._records.items()
            if any(concerns(record, broker) for broker in lost)
        ]

        async def replace(bundle: Bundle, record: ServiceUnitStateData) -> None:
            await self._replace(bundle, record, lost)

        failed = 0
        for of_the_system in (False, True):
            batch = [
                (name, record)
                for name, record in concerned
                if is_system_namespace(Bundle.parse(name).namespace) is of_the_system
            ]
            failed += await self._repair_all(batch, replace)
        return failed

    async def _replace(self, bundle: Bundle, record: ServiceUnitStateData, lost: Collection[str]) -> None:
        successor = successor_of_orphan(record, self._readers - set(lost))
        if successor is None and not is_broker_bound(bundle.namespace):
            successor = await self._choose(bundle, lost)
        await self._override(bundle, record, successor)

    async def _end_orphan(self, bundle: Bundle, record: ServiceUnitStateData) -> None:
        self._counters.count("orphan_su_cleanup_ops")
        successor = successor_of_orphan(record, self._readers)
        if successor is None and not is_broker_bound(bundle.namespace):
            successor = await self._choose(bundle, [record.dst_broker] if record.dst_broker else [])
        await self._override(bundle, record, successor)

    async def _override(self, bundle: Bundle, record: ServiceUnitStateData, successor: str | None) -> None:
        epoch = await next_counter_value(self._store, EPOCH_COUNTER)
        if not self._is_leader() or self._records.get(bundle) is not record:
            self.due.set()
            return
        after = override(record, successor, self._clock.now_ms(), epoch)
        accepted = await self._records.put(bundle, record, after, self._epoch().guard)
        log.info(
            "ownership_overridden",
            bundle=str(bundle),
            state=record.state,
            before=after.source_broker,
            owner=successor,
            accepted=accepted,
        )

    async def _forget(self, bundle: Bundle, record: ServiceUnitStateData) -> None:
        if self._records.get(bundle) is record:
            self._counters.count("su_tombstone_cleanup_ops")
            await self._records.put(bundle, record, None, self._epoch().guard)

    async def _repair_all(
        self,
        records: Iterable[tuple[str, ServiceUnitStateData]],
        repair: Callable[[Bundle, ServiceUnitStateData], Awaitable[None]],
    ) -> int:
        """Call `repair` for all given records in parallel. Failures are logged; the next check tries again. Return the
        number of failures.
        """
        limit = asyncio.Semaphore(self._config.current.load_balancer_service_unit_state_max_concurrent_overrides)

        async def repaired(name: str, record: ServiceUnitStateData) -> bool:
            async with limit:
                if not self._is_leader():
                    return True
                try:
                    await repair(Bundle.parse(name), record)
                except (LookupFailedError, MetadataError) as error:
                    self._counters.count("cleanup_ops", result="Failure")
                    log.warning("ownership_not_repaired", bundle=name, reason=str(error))
                    self.due.set()
                    return False
                return True

        return (await asyncio.gather(*(repaired(name, record) for name, record in records))).count(False)
