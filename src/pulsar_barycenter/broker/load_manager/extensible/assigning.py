"""The decisions of a broker with the extensible load manager without numpy: it assigns bundles by their number.

It does not unload or split.
"""

from collections import Counter
from collections.abc import Collection

from pulsar_barycenter.broker.load_manager.balancing_configuration import balancing_configuration
from pulsar_barycenter.broker.load_manager.extensible.deciding_parts import DecidingParts
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.fewest_bundles import BrokerCount, fewest_bundles
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.naming.bundle import Bundle


class ExtensibleAssigning:
    """Decides for the load manager of one broker on which numpy is not installed: it assigns bundles, but does not shed
    or split. It has the same methods as `ExtensibleDecisions`.
    """

    def __init__(self, parts: DecidingParts) -> None:
        self._parts = parts

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the loads that this broker knows now, as a document for a file or the REST API. Unlike a snapshot with
        numpy, it has no memory of earlier shedding rounds.
        """
        known = ExtensibleDocument(
            loads=self._parts.load_data.loads(),
            top_bundles=self._parts.load_data.tops(),
            lookups=await self._parts.load_data.lookups(),
            owners=dict(self._parts.load_data.owners()),
        )
        return SnapshotDocument(
            taken_at=self._parts.context.env.clock.now_ms(),
            brokers={},
            extensible=known,
            policies=PoliciesDocument.of(self._parts.context.policies.current),
            configuration=balancing_configuration(self._parts.context.config.current),
        )

    async def select(self, bundle: Bundle, without: Collection[str]) -> Placement | None:
        """Choose an owner for a bundle, but none of the brokers `without`. The result is None, or a placement with
        `broker` None, if policies allow no broker.
        """
        namespace = str(bundle.namespace)
        await self._parts.context.policies.refresh(namespace)
        excluded = {*without, *await self._parts.load_data.leaving()}  # read first: a broker that left is in neither
        owned = Counter(self._parts.load_data.owners().values())
        brokers = {
            broker: BrokerCount(owned[broker], lookup.persistent_topics_enabled, lookup.non_persistent_topics_enabled)
            for broker, lookup in (await self._parts.load_data.lookups()).items()
            if broker not in excluded and lookup.load_manager_class_name in (None, ManagerKind.EXTENSIBLE.class_name)
        }
        placement = fewest_bundles(
            str(bundle),
            brokers,
            self._parts.context.policies.current,
            namespace,
            self._parts.context.env.random,
            non_persistent=self._parts.context.bundles.has_non_persistent_topic(bundle),
        )
        self._parts.executor.log_placement(placement)
        self._parts.metrics.assigned("Failure" if placement.broker is None else "Success")
        return placement if placement.broker is not None else None

    async def shed(self) -> None:
        """Do nothing: without numpy, no bundles are selected to be unloaded."""

    async def split_own(self) -> None:
        """Do nothing: without numpy, no bundles are selected to be split."""
