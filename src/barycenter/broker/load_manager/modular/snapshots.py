"""The snapshots that a leader of the modular load manager decides upon, made of its load data.

Nothing here holds the event loop for long, however many bundles there are: `prepare` makes what figures take broker by
broker, and keeps it until that broker reports again.

Needs numpy; only a leader imports it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from barycenter.broker.load_manager.context import LoadManagerContext
from barycenter.broker.load_manager.modular.load_data import LoadData
from barycenter.load.reports.load_report import BundleData, TimeAverageBrokerData
from barycenter.load.reports.publication import PipelinePublication
from barycenter.load.snapshot.builder import SnapshotBuilder
from barycenter.load.snapshot.load_snapshot import LoadSnapshot


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a snapshot was built of."""

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
class _Prepared:
    """What was made ready of the load data as of `basis`: the rows of all brokers, and these averages."""

    basis: _Basis | None = None
    averages: dict[str, TimeAverageBrokerData] = field(default_factory=dict)


class Snapshots:
    """Makes a snapshot when the load data changed, and hands the last one out else."""

    def __init__(self, context: LoadManagerContext, load_data: LoadData) -> None:
        self._context = context
        self._load_data = load_data
        self._builder = SnapshotBuilder()
        self._reported: LoadSnapshot | None = None
        self._current: LoadSnapshot | None = None
        self._basis: _Basis | None = None
        self._prepared = _Prepared()

    async def prepare(self) -> None:
        """Make what `current` takes, one broker after the other, so that others go on."""
        load_data = self._load_data
        await load_data.read_publication()
        basis = self._basis_of_now()
        if basis.is_that_of(self._basis):
            return
        data, ready = load_data.bundle_data(), set[str]()
        averages: dict[str, TimeAverageBrokerData] = {}
        for broker, report in list(load_data.fold.reports.items()):
            if self._builder.prepare(broker, report, data):
                await asyncio.sleep(0)
            averages[broker] = load_data.average(broker, report, data)
            ready.add(broker)
        await asyncio.sleep(0)
        for _ in self._builder.lay_out(ready & basis.live):
            await asyncio.sleep(0)
        self._prepared = _Prepared(basis, averages)

    def current(self) -> LoadSnapshot:
        """Return the load as known now; brokers that are no longer registered are left out."""
        load_data, basis = self._load_data, self._basis_of_now()
        if self._reported is None or not basis.is_that_of(self._basis):
            data, prepared = load_data.bundle_data(), self._prepared
            reports = {broker: report for broker, report in load_data.fold.reports.items() if broker in basis.live}
            averages = prepared.averages if basis.is_that_of(prepared.basis) else load_data.averages(data)
            self._reported = self._builder.build(
                reports,
                data,
                averages,
                recently_unloaded=load_data.recently_unloaded,
                ready=averages.keys() if averages is prepared.averages else (),
            )
            self._basis = basis
            self._current = None
        if self._current is None:
            self._current = self._reported.with_preallocations(load_data.preallocated())
        policies = self._context.policies.current
        if self._current.policies is not policies:
            self._current = replace(self._current, policies=policies)
        return self._current

    @property
    def averages(self) -> Mapping[str, TimeAverageBrokerData]:
        """The time averages of every broker, as of the last snapshot."""
        if self._prepared.basis is not None and self._prepared.basis.is_that_of(self._basis):
            return self._prepared.averages
        return self._load_data.averages(self._load_data.bundle_data())

    def preallocate(self, bundle: str, broker: str, data: BundleData) -> None:
        """Count `bundle` for `broker` from now on, until it is reported."""
        if bundle in self._load_data.preallocations or self._current is None:
            self._current = None
        else:
            self._current = self._current.adding_preallocation(broker, bundle, data)
        self._load_data.preallocate(bundle, broker, data)

    def _basis_of_now(self) -> _Basis:
        load_data = self._load_data
        return _Basis(load_data.generation, self._context.registration.brokers, load_data.publication_in_use())
