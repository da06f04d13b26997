"""What a broker knows of the cluster's load: registered brokers, their loads and heaviest bundles, owners, and the
pipeline's averages.

A value that cannot be decoded is logged once for each broker, and ignored. This module does not need numpy.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
import structlog

from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.extensible.load_stores import LoadStore
from pulsar_barycenter.broker.load_manager.pipeline_feed import PipelineFeed, Published, ReportName, UsedPublication
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    TopBundlesLoadData,
    decode_broker_load,
    decode_top_bundles,
)
from pulsar_barycenter.metadata.cache import MetadataCache

log = structlog.get_logger(__name__)

T = TypeVar("T")

LEAVING: Final = "barycenter.leaving"
"""The property in the registration of a broker that is transferring its bundles before it stops."""
_MAX_LOGGED_BROKERS: Final = 1_000
_NO_REPORT: Final = ReportName("", 0)
"""The name used for a broker whose published load names no report; no publication of the pipeline includes it."""


class _Decoded:
    """Decodes the values of a table of loads. A value is decoded only once, and decoded again only after it was
    replaced.
    """

    def __init__(self, store: LoadStore, what: str) -> None:
        self.store = store
        self._what = what
        self._known: dict[str, tuple[bytes, object]] = {}
        self._logged: set[str] = set()

    def of(self, decode: Callable[[bytes], T]) -> dict[str, T]:
        found: dict[str, T] = {}
        known: dict[str, tuple[bytes, object]] = {}
        for broker, value in self.store.values().items():
            before = self._known.get(broker)
            if before is not None and before[0] == value:
                known[broker] = before
            else:
                try:
                    known[broker] = (value, decode(value))
                except msgspec.DecodeError as error:
                    known[broker] = (value, None)
                    self._log_refused(broker, str(error))
            decoded = known[broker][1]
            if decoded is not None:
                found[broker] = decoded  # type: ignore[assignment]
        self._known = known
        return found

    def _log_refused(self, broker: str, reason: str) -> None:
        if broker not in self._logged and len(self._logged) < _MAX_LOGGED_BROKERS:
            self._logged.add(broker)
            log.warning("load_data_refused", broker=broker, data=self._what, reason=reason)


class ExtensibleLoadData:
    def __init__(self, context: LoadManagerContext, loads: LoadStore, tops: LoadStore, feed: PipelineFeed) -> None:
        self._context = context
        self.pipeline = UsedPublication(context, feed)
        self._loads = _Decoded(loads, "broker load")
        self._tops = _Decoded(tops, "top bundles")
        self._registered = MetadataCache(
            context.env.store,
            BrokerLookupData,
            refresh_after_s=context.config.current.metadata_store_cache_expiry_seconds,
        )
        self.generation = 0
        """Grows with every change of the registrations and the tables."""
        self._stop_listening = context.registration.on_change(self._changed)
        loads.on_change(self._changed)
        tops.on_change(self._changed)

    def close(self) -> None:
        self._stop_listening()
        self._registered.close()

    def _changed(self) -> None:
        self.generation += 1

    def loads(self) -> dict[str, BrokerLoadData]:
        """Return the load of each registered broker that published one."""
        return self._of_registered(self._loads.of(decode_broker_load))

    def tops(self) -> dict[str, TopBundlesLoadData]:
        """Return the heaviest bundles of each registered broker that published them."""
        return self._of_registered(self._tops.of(decode_top_bundles))

    def _of_registered(self, published: Mapping[str, T]) -> dict[str, T]:
        """Return those of the `published` values that belong to registered brokers. The table may still have the values
        of brokers that ended without withdrawing them.

        Difference: Pulsar's leader uses the values of such a broker until they are older than
        `loadBalancerBrokerLoadDataTTLInSeconds`.
        """
        registered = self._context.registration.brokers
        return {broker: data for broker, data in published.items() if broker in registered}

    @property
    def uses_pipeline(self) -> bool:
        """Whether the configuration allows decisions to use the averages that the pipeline (a separate program that
        reads the load reports) published. Even then, they are used only while the pipeline is not late.
        """
        return self._context.config.current.barycenter_extensible_pipeline_enabled

    def note_reports(self) -> None:
        """Record, for each registered broker, the name of its newest load report, and when this broker first received
        that name. A report that the pipeline (the separate program that publishes averages) has not used within a limit
        of time makes the pipeline late.
        """
        now_ms = self._context.env.clock.now_ms()
        self.pipeline.retain(self._context.registration.brokers)
        for broker, load in self.loads().items():
            report = _NO_REPORT
            if load.incarnation is not None and load.sequence is not None:
                report = ReportName(load.incarnation, load.sequence)
            if broker in self._context.registration.brokers and self.pipeline.last_received(broker) != report:
                self.pipeline.received(broker, report, now_ms)

    async def published(self) -> Published | None:
        """Read the newest publication of the pipeline (the separate program that publishes averages) and return it.
        None if there is none, or if decisions do not use the pipeline now, by configuration or because it is late.
        """
        if not self.uses_pipeline:
            return None
        self.note_reports()
        await self.pipeline.read()
        return self.pipeline.published()

    async def lookups(self) -> dict[str, BrokerLookupData]:
        """Return the registration of each broker."""
        found = {}
        for broker in sorted(self._context.registration.brokers):
            data = await self._registered.get(f"{BROKERS_ROOT}/{broker}")
            if data is not None:
                found[broker] = await self._with_version(broker, data)
        return found

    async def leaving(self) -> set[str]:
        """Return the ids of the registered brokers that have announced that they accept no more bundles."""
        return {broker for broker, data in (await self.lookups()).items() if LEAVING in data.properties}

    async def _with_version(self, broker: str, data: BrokerLookupData) -> BrokerLookupData:
        """Return a broker's registration with the version of its software. If `data` has no version, because a broker
        with another load manager registers it in another field, the version is read from there.
        """
        if data.broker_version is not None:
            return data
        report = await self._context.registration.data_of(broker)
        return data if report is None else msgspec.structs.replace(data, broker_version=report.broker_version_string)

    def owners(self) -> Mapping[str, str]:
        """Return the id of the owner of every owned bundle, by the bundle as text, as the ownership records say."""
        return {str(bundle): owner for bundle, owner in self._context.ownership.owners()}
