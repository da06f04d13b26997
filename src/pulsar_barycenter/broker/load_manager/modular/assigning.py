"""The leader's part of the modular load manager without numpy: it assigns bundles by their number, and no more.

It knows the same load data as `leader`, so a snapshot of it can be examined where numpy is installed. It does not shed
or split, and stores no bundle data: a leader that balances continues with its own windows, which every broker keeps.
"""

import asyncio
from collections import Counter

from pulsar_barycenter.broker.load_manager.modular.leader_parts import LeaderParts
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.fewest_bundles import BrokerCount, allowed_brokers, fewest_bundles
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import default_bundle_data
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.naming.bundle import Bundle


class ModularAssigning:
    """Makes the leader's decisions for the load manager of one broker on which numpy is not installed: it assigns
    bundles, but does not shed or split. It has the same methods as `ModularLeader`.
    """

    def __init__(self, parts: LeaderParts) -> None:
        self._parts = parts

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the loads that this broker knows now, as a document for a file or the REST API. Unlike a snapshot with
        numpy, it has no memory of earlier shedding rounds.
        """
        await self._parts.watch.catch_up(with_every_change=True)
        return self._parts.load_data.document(MemoryDocument())

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose an owner for a bundle that has none, and remember the choice: the bundle counts as one of this owner's
        until a load report contains it. The result is None, or a placement with `broker` None, if policies allow no
        broker.
        """
        started = asyncio.get_running_loop().time()
        name, namespace = str(bundle), str(bundle.namespace)
        await self._parts.context.policies.refresh(namespace)
        await self._parts.watch.catch_up(with_every_change=False)
        # nothing is awaited from here on, so two bundles do not count the same free broker
        policies, brokers = self._parts.context.policies.current, self._brokers()
        non_persistent = self._parts.context.bundles.has_non_persistent_topic(bundle)
        before = self._parts.load_data.preallocated_broker(name)
        if before is not None and before in allowed_brokers(
            brokers, policies, namespace, non_persistent=non_persistent
        ):
            return Placement.because(Reason(code=Code.PREALLOCATED, subject=before), name, before)
        placement = fewest_bundles(
            name, brokers, policies, namespace, self._parts.context.env.random, non_persistent=non_persistent
        )
        if placement.broker is not None:
            self._parts.load_data.preallocate(
                name, placement.broker, self._parts.load_data.known(name) or default_bundle_data()
            )
        self._parts.metrics.assigned(asyncio.get_running_loop().time() - started)
        self._parts.executor.log_placement(placement)
        return placement if placement.broker is not None else None

    def _brokers(self) -> dict[str, BrokerCount]:
        """Return a number of bundles for each registered broker with the modular load manager whose load report is
        known: the bundles in its report plus those that were assigned to it and are in no report yet. If no load report
        is known, return for every registered broker the number of bundles that were assigned to it.
        """
        registered = self._parts.context.registration.brokers
        arriving = Counter(found.broker for found in self._parts.load_data.preallocations.values())
        reports = self._parts.load_data.fold.reports
        found = {
            broker: BrokerCount(
                report.num_bundles + arriving[broker],
                report.persistent_topics_enabled,
                report.non_persistent_topics_enabled,
            )
            for broker, report in reports.items()
            if broker in registered and report.load_manager_class_name in (None, ManagerKind.MODULAR.class_name)
        }
        return found or {broker: BrokerCount(arriving[broker]) for broker in registered}

    async def shed(self) -> None:
        """Do nothing: without numpy, no bundles are selected to be unloaded."""

    async def check_splits(self) -> None:
        """Do nothing: without numpy, no bundles are selected to be split."""

    async def write_resource_quotas(self) -> None:
        """Do nothing: the averages that a leader stores are computed with numpy, which is not installed."""
