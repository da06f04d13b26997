"""Counts the operations of this broker's ownership channel since the broker started, under Pulsar's names.

Source: Pulsar's `ServiceUnitStateChannelImpl.getMetrics`. `Total` counts attempts, including failed ones.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords, RecordListener
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    state_of,
)
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle

_EVENTS = {
    ServiceUnitState.ASSIGNING: "Assign",
    ServiceUnitState.RELEASING: "Unload",
    ServiceUnitState.SPLITTING: "Split",
}
"""The names of the events that are counted, by the state of the ownership record that requests the change."""


class ChannelCounters:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def count(self, name: str, **labels: str) -> None:
        self._counts[name, tuple(labels.items())] += 1

    def samples(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield, for each counter, its Prometheus name, its labels in addition to those of the broker, and
        its value.
        """
        for (name, labels), count in self._counts.items():
            yield f"pulsar_sunit_state_chn_{name}_total", dict(labels), count


class CountedRecords:
    """Passes all calls to another `OwnershipRecords`, and counts the changes of ownership records. Implements
    `OwnershipRecords`.
    """

    def __init__(self, records: OwnershipRecords, counters: ChannelCounters) -> None:
        self._records = records
        self._counters = counters

    @property
    def storage(self) -> StorageType:
        return self._records.storage

    @property
    def is_read(self) -> bool:
        return self._records.is_read

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        return self._records.get(bundle)

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        return self._records.items()

    def bundles(self) -> list[Bundle]:
        return self._records.bundles()

    def start(self, listener: RecordListener) -> None:
        def counted(bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None) -> None:
            event = state_of(after).value
            self._counters.count("subscribe_ops", event=event, result="Total")
            try:
                listener(bundle, before, after)
            except BaseException:
                self._counters.count("subscribe_ops", event=event, result="Failure")
                raise

        self._records.start(counted)

    async def refresh(self, bundle: Bundle) -> None:
        await self._records.refresh(bundle)

    async def catch_up(self) -> None:
        await self._records.catch_up()

    async def put(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        guard: Guard | None = None,
    ) -> bool:
        event = None
        if after is not None:
            event = "Override" if after.force else _EVENTS.get(after.state)
        if event is not None:
            self._counters.count("event_publish_ops", event=event, result="Total")
        try:
            return await self._records.put(bundle, before, after, guard)
        except LookupFailedError:
            if event is not None:
                self._counters.count("event_publish_ops", event=event, result="Failure")
            raise

    async def close(self) -> None:
        await self._records.close()
