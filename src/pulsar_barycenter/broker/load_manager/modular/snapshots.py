"""Makes the snapshots of the modular load manager's leader from its load data.

A snapshot may have very many bundles, so it is made in steps that do not block the event loop. The rows of a broker are
made when it reports, and kept until its next report.

A snapshot shows one moment: the reports, averages and publication of when the work on it began; later reports are in
the next snapshot. But the leader's own assignments and unloads are taken into account at once.

It needs numpy; only a leader imports it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.modular.load_data import LoadData, Preallocation, by_broker
from pulsar_barycenter.broker.load_manager.pipeline_feed import Published
from pulsar_barycenter.load.reports.load_report import BundleData, TimeAverageBrokerData
from pulsar_barycenter.load.snapshot.builder import SnapshotBuilder
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

_KEPT_ROWS_IN_ONE_STEP: Final = 10_000
"""The maximum number of unchanged rows that are checked in one step, which takes a few milliseconds."""


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a snapshot is made from: the state of the load data (`generation`), the registered brokers (`live`) and the
    pipeline's publication. From the same basis the same snapshot results, so it is not made again.
    """

    generation: int
    live: frozenset[str]
    published: Published | None

    def is_same_as(self, other: "_Basis | None") -> bool:
        return (
            other is not None
            and (self.generation, self.live) == (other.generation, other.live)
            and self.published is other.published
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """A snapshot made from load reports only, and the preallocations (bundles that were assigned but are in no report
    yet) at the time when the work on it began; these are not in the snapshot. `number` counts the snapshots that were
    made.
    """

    basis: _Basis
    number: int
    reported: LoadSnapshot
    averages: Mapping[str, TimeAverageBrokerData]
    preallocations: Mapping[str, Preallocation]


class Snapshots:
    """Has the last snapshot. `current` returns it, or makes a new one if the load data has changed."""

    def __init__(self, context: LoadManagerContext, load_data: LoadData) -> None:
        self._context = context
        self._load_data = load_data
        self._builder = SnapshotBuilder()
        self._making = asyncio.Lock()
        self.begun = 0
        self._made: _Made | None = None
        self._current: LoadSnapshot | None = None

    async def current(self) -> LoadSnapshot:
        """Return a snapshot that contains at least the load data that was known when this was called, without brokers
        that are not registered.

        A call that arrives while a snapshot is being made waits for it, and gets it only if nothing has changed since
        it was begun; otherwise all calls that wait get the next snapshot.
        """
        called_at = self.begun
        async with self._making:
            while (made := self._made_since(called_at)) is None:
                await self._load_data.pipeline.read()
                self._made = await self._make(self._present_basis())
                self._current = None
                await asyncio.sleep(0)
        if self._current is None:
            # Includes preallocations that a report ended in between: that report is not in the rows yet.
            preallocations = {**made.preallocations, **self._load_data.preallocations}
            self._current = made.reported.with_preallocations(by_broker(preallocations))
        policies = self._context.policies.current
        if self._current.policies is not policies:
            self._current = replace(self._current, policies=policies)
        return self._current

    @property
    def averages(self) -> Mapping[str, TimeAverageBrokerData]:
        """The time averages of every broker, as they are in the last snapshot."""
        return {} if self._made is None else self._made.averages

    def preallocate(self, bundle: str, broker: str, data: BundleData) -> None:
        """Add the load of `bundle` to the load of `broker` in later snapshots, until the load report of a broker
        contains the bundle.
        """
        made, is_new = self._made, bundle not in self._load_data.preallocations
        if self._current is not None and made is not None and is_new and bundle not in made.preallocations:
            self._current = self._current.adding_preallocation(broker, bundle, data)
        else:
            self._current = None
        self._load_data.preallocate(bundle, broker, data)

    async def _make(self, basis: _Basis) -> _Made:
        """Make a snapshot from `basis` and return it. Other tasks run in between."""
        self.begun += 1
        number, load_data, builder = self.begun, self._load_data, self._builder
        published, preallocations = load_data.pipeline.published(), dict(load_data.preallocations)
        known, data = dict(load_data.fold.reports), load_data.bundle_data(published)
        averages: dict[str, TimeAverageBrokerData] = {}
        rows = 0
        for broker, report in known.items():
            rows += len(report.last_stats)
            if builder.prepare(broker, report, data) or rows >= _KEPT_ROWS_IN_ONE_STEP:
                rows = 0
                await asyncio.sleep(0)
            averages[broker] = load_data.average(broker, report, data, published)
        await asyncio.sleep(0)
        reports = {broker: report for broker, report in known.items() if broker in basis.live}
        for _ in builder.lay_out(reports):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        reported = builder.build(
            reports, data, averages, recently_unloaded=load_data.recently_unloaded, ready=reports.keys()
        )
        return _Made(basis, number, reported, averages, preallocations)

    def _made_since(self, called_at: int) -> _Made | None:
        """Return the last snapshot if a caller of `current` may get it, else None. `called_at` is the number of the
        snapshot that had been begun last when the caller called.

        The caller may get a snapshot with a higher number, or an older one if nothing has changed since it was made. It
        never gets one with a broker that has left the cluster.
        """
        made = self._made
        if made is None or not made.basis.live <= self._context.registration.brokers:
            return None
        return made if made.number > called_at or self._present_basis().is_same_as(made.basis) else None

    def _present_basis(self) -> _Basis:
        load_data = self._load_data
        return _Basis(load_data.generation, self._context.registration.brokers, load_data.pipeline.published())
