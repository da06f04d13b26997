"""The decisions of a broker with the extensible load manager without numpy: it assigns bundles by their number.

It does not unload or split.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from pulsar_barycenter.broker.load_manager.balancing_configuration import balancing_configuration
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.extensible.load_data import ExtensibleLoadData
from pulsar_barycenter.broker.load_manager.extensible.metrics import ExtensibleMetrics
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.fewest_bundles import BrokerCount, fewest_bundles
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.naming.bundle import Bundle


class ExtensibleAssigning:
    """The decisions of one broker's load manager; the same methods as `ExtensibleDecisions`."""

    def __init__(
        self,
        context: LoadManagerContext,
        load_data: ExtensibleLoadData,
        executor: DecisionExecutor,
        metrics: ExtensibleMetrics,
        _stats: Callable[[], Mapping[str, NamespaceBundleStats]],
    ) -> None:
        self._context = context
        self._load_data = load_data
        self._executor = executor
        self._metrics = metrics

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the load that this broker knows now, for files and REST. It contains no state of a shedder."""
        known = ExtensibleDocument(
            loads=self._load_data.loads(),
            top_bundles=self._load_data.tops(),
            lookups=await self._load_data.lookups(),
            owners=dict(self._load_data.owners()),
        )
        return SnapshotDocument(
            taken_at=self._context.env.clock.now_ms(),
            brokers={},
            extensible=known,
            policies=PoliciesDocument.of(self._context.policies.current),
            configuration=balancing_configuration(self._context.config.current),
        )

    async def select(self, bundle: Bundle, without: Collection[str]) -> Placement | None:
        """Choose an owner for a bundle, not one of `without`; None if policies allow no broker."""
        namespace = str(bundle.namespace)
        await self._context.policies.refresh(namespace)
        excluded = {*without, *await self._load_data.leaving()}  # read first: a broker that left is in neither
        owned = Counter(self._load_data.owners().values())
        brokers = {
            broker: BrokerCount(owned[broker], lookup.persistent_topics_enabled, lookup.non_persistent_topics_enabled)
            for broker, lookup in (await self._load_data.lookups()).items()
            if broker not in excluded and lookup.load_manager_class_name in (None, ManagerKind.EXTENSIBLE.class_name)
        }
        placement = fewest_bundles(
            str(bundle),
            brokers,
            self._context.policies.current,
            namespace,
            self._context.env.random,
            non_persistent=self._context.bundles.has_non_persistent_topic(bundle),
        )
        self._executor.log_placement(placement)
        self._metrics.assigned("Failure" if placement.broker is None else "Success")
        return placement if placement.broker is not None else None

    async def shed(self) -> None:
        """Do nothing: without numpy, no bundles are selected to be unloaded."""

    async def split_own(self) -> None:
        """Do nothing: without numpy, no bundles are selected to be split."""
