"""The snapshots that a leader of the modular load manager decides upon, made of its load data.

Nothing here holds the event loop for long, however many bundles there are: what figures take is made broker by broker
while others go on, and kept until that broker reports again.

A snapshot is of the moment when its making began: reports, windows and the publication are taken then, and what is
reported meanwhile counts with the next. What this leader does meanwhile counts at once, as in every snapshot: the
bundles that it preallocates and unloads.

Needs numpy; only a leader imports it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.modular.load_data import LoadData, Preallocation, by_broker
from pulsar_barycenter.load.reports.load_report import BundleData, TimeAverageBrokerData
from pulsar_barycenter.load.reports.publication import PipelinePublication
from pulsar_barycenter.load.snapshot.builder import SnapshotBuilder
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot

_KEPT_AT_ONCE: Final = 10_000
"""Rows that are found unchanged in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a snapshot is made of."""

    generation: int
    live: frozenset[str]
    publication: PipelinePublication | None

    def is_that_of(self, other: "_Basis | None") -> bool:
        return (
            other is not None
            and (self.generation, self.live) == (other.generation, other.live)
            and self.publication is other.publication
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """A snapshot without what is on its way, and what was when its making began; `number` counts makings."""

    basis: _Basis
    number: int
    reported: LoadSnapshot
    averages: Mapping[str, TimeAverageBrokerData]
    on_their_way: Mapping[str, Preallocation]


class Snapshots:
    """Makes a snapshot when the load data changed, and hands the last one out else."""

    def __init__(self, context: LoadManagerContext, load_data: LoadData) -> None:
        self._context = context
        self._load_data = load_data
        self._builder = SnapshotBuilder()
        self._making = asyncio.Lock()
        self.begun = 0
        self._made: _Made | None = None
        self._current: LoadSnapshot | None = None

    async def current(self) -> LoadSnapshot:
        """Return the load as known when this was called, or later; brokers that are not registered are left out.

        Whoever asks while a snapshot is made shares the next one with all who do.
        """
        asked = self.begun
        async with self._making:
            while (made := self._made_since(asked)) is None:
                await self._load_data.pipeline.read()
                self._made = await self._make(self._basis_of_now())
                self._current = None
                await asyncio.sleep(0)
        if self._current is None:
            # one that a report ended meanwhile is not in the rows yet
            on_their_way = {**made.on_their_way, **self._load_data.preallocations}
            self._current = made.reported.with_preallocations(by_broker(on_their_way))
        policies = self._context.policies.current
        if self._current.policies is not policies:
            self._current = replace(self._current, policies=policies)
        return self._current

    @property
    def averages(self) -> Mapping[str, TimeAverageBrokerData]:
        """The time averages of every broker, as of the last snapshot."""
        return {} if self._made is None else self._made.averages

    def preallocate(self, bundle: str, broker: str, data: BundleData) -> None:
        """Count `bundle` for `broker` from now on, until it is reported."""
        made, is_new = self._made, bundle not in self._load_data.preallocations
        if self._current is not None and made is not None and is_new and bundle not in made.on_their_way:
            self._current = self._current.adding_preallocation(broker, bundle, data)
        else:
            self._current = None
        self._load_data.preallocate(bundle, broker, data)

    async def _make(self, basis: _Basis) -> _Made:
        """Return the snapshot of now, which is that of `basis`."""
        self.begun += 1
        number, load_data, builder = self.begun, self._load_data, self._builder
        published, on_their_way = load_data.pipeline.published(), dict(load_data.preallocations)
        known, data = dict(load_data.fold.reports), load_data.bundle_data(published)
        averages: dict[str, TimeAverageBrokerData] = {}
        rows = 0
        for broker, report in known.items():
            rows += len(report.last_stats)
            if builder.prepare(broker, report, data) or rows >= _KEPT_AT_ONCE:
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
        return _Made(basis, number, reported, averages, on_their_way)

    def _made_since(self, asked: int) -> _Made | None:
        """Return what was made last if nothing changed since, or was begun after the making of that number; None if a
        broker of it left.
        """
        made = self._made
        if made is None or not made.basis.live <= self._context.registration.brokers:
            return None
        return made if made.number > asked or self._basis_of_now().is_that_of(made.basis) else None

    def _basis_of_now(self) -> _Basis:
        load_data = self._load_data
        return _Basis(load_data.generation, self._context.registration.brokers, load_data.pipeline.in_use())
