"""Keeps the sums of each broker's windows from batch to batch.

The sum of floating-point numbers depends on their order, and subtracting a number does not exactly undo adding it. So
changes are not added to the sums. Instead, the sums of each broker that a batch changes are computed again over all of
its bundles (`live_windows.average_brokers`); the others stay the same. The cost of a batch is the bundles of those
brokers.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from pulsar_barycenter.pipeline.folds.bundle_rows import BundleRows
from pulsar_barycenter.pipeline.folds.live_windows import average_brokers
from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.tables.schemas import BROKER_FIGURES

_AT_ONCE: Final = 64
"""The number of brokers that are summed at a time at the start."""


class BrokerSums:
    """Keeps the average rates of all brokers: one row with the columns BROKER_DATA, without `as_of`, for each
    broker.
    """

    def __init__(self, owners: Owners, rows: BundleRows) -> None:
        self._sums: dict[str, tuple[float, ...]] = {}
        brokers = iter(owners.holdings)
        while some := list(islice(brokers, _AT_ONCE)):
            self.update(some, owners, rows)

    def update(self, brokers: Collection[str], owners: Owners, rows: BundleRows) -> None:
        """Compute the averages of `brokers` again, from their bundles in `owners` and the averages of these bundles in
        `rows`. A broker that is not in `owners.holdings` any more is removed.
        """
        for broker in brokers:
            if broker not in owners.holdings:
                self._sums.pop(broker, None)
        known = sorted(broker for broker in brokers if broker in owners.holdings)
        members = list(_members(known, owners))
        sums = average_brokers(members, rows.of(bundle for _, bundle in members if bundle is not None))
        columns = [sums.column(name).to_pylist() for name in ("broker", *BROKER_FIGURES)]
        for broker, *figures in zip(*columns, strict=True):
            self._sums[broker] = tuple(figures)

    def table(self, brokers: Iterable[str] | None = None) -> pa.Table:
        """Return the averages of brokers as a table, sorted by broker. `brokers` selects brokers (unknown ones are left
        out); None: all.
        """
        names = sorted(self._sums if brokers is None else (name for name in brokers if name in self._sums))
        columns = list(zip(*(self._sums[name] for name in names), strict=True)) or [()] * len(BROKER_FIGURES)
        figures = {name: pa.array(values, pa.float64()) for name, values in zip(BROKER_FIGURES, columns, strict=True)}
        return pa.table({"broker": pa.array(names, pa.string()), **figures})


def _members(brokers: Iterable[str], owners: Owners) -> Iterator[tuple[str, str | None]]:
    for broker in brokers:
        for bundle in owners.holdings[broker].bundles or (None,):
            yield broker, bundle
