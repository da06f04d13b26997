"""The load of brokers before and after moves of bundles.

Load is in + out in the newest reports (docs/measures.md). The usage after a move is an estimate: the cost of a message
and of a byte on a broker is taken from its newest report (`load.shedding.least_disturbance.best_usage`).

Pure. It needs numpy, so a broker imports it at the first request.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_report import exact_sum
from pulsar_barycenter.load.shedding.least_disturbance.best_usage import usage_after
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import reported_usage
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.snapshot.reported import users_bundles


class Sides(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The load of a broker before and after moves: usage in percent, msg/s, bytes/s, and the number of bundles, not
    counting those of the broker's own namespaces (heartbeat, SLA monitor).
    """

    broker: str
    usage: tuple[float, float]
    msg_rate: tuple[float, float]
    msg_throughput: tuple[float, float]
    bundles: tuple[int, int]


def sides_of(
    snapshot: LoadSnapshot,
    config: BrokerConfig,
    moves: Sequence[tuple[str, str, str]],
    counts: Mapping[str, int],
    *,
    every: bool = False,
) -> list[Sides]:
    """Return the loads of brokers before and after all moves: of the sources and destinations, or of all brokers with
    `every`.

    A move is a bundle, its source ("" if it has no owner), and its destination. A bundle that is in no report counts as
    a bundle without load. `counts` is the number of bundles of each broker (`bundle_counts`).
    """
    brokers, settings = snapshot.brokers, Settings.of(config)
    before = reported_usage(snapshot, settings)
    rows = [
        (bundle_row(snapshot, bundle), brokers.index.get(source, NOBODY), brokers.index.get(destination, NOBODY))
        for bundle, source, destination in moves
    ]
    after = usage_after(snapshot, settings, [(row, source, goal) for row, source, goal in rows if row is not None])
    return [
        _sides(snapshot, row, float(before[row]), float(after[row]), rows, counts.get(brokers.names[row], 0))
        for row in range(len(brokers))
        if every or any(row in (source, destination) for _, source, destination in rows)
    ]


def bundle_counts(document: SnapshotDocument) -> Mapping[str, int]:
    """Return the number of bundles of each broker, not counting those of the broker's own namespaces (heartbeat, SLA
    monitor).
    """
    return Counter(broker for broker, _, _ in users_bundles(document))


def bundle_row(snapshot: LoadSnapshot, bundle: str) -> int | None:
    """Return the row number of a bundle in the snapshot; None if no broker reports it."""
    names = snapshot.bundles.names
    row = bisect_left(names, bundle)
    return row if row < len(names) and names[row] == bundle else None


def _sides(
    snapshot: LoadSnapshot,
    broker: int,
    before: float,
    after: float,
    moves: Sequence[tuple[int | None, int, int]],
    count: int,
) -> Sides:
    brokers, latest = snapshot.brokers, snapshot.bundles.latest
    signed = [
        (1 if destination == broker else -1, row)
        for row, source, destination in moves
        if source != destination and broker in (source, destination)
    ]
    rate, throughput = float(brokers.latest.rate[broker]), float(brokers.latest.throughput[broker])
    rates = [sign * float(latest.rate[row]) for sign, row in signed if row is not None]
    bytes_ = [sign * float(latest.throughput[row]) for sign, row in signed if row is not None]
    return Sides(
        broker=brokers.names[broker],
        usage=(round(100 * before, 1), round(100 * after, 1)),
        msg_rate=(rate, max(0.0, exact_sum([rate, *rates]))),
        msg_throughput=(throughput, max(0.0, exact_sum([throughput, *bytes_]))),
        bundles=(count, max(0, count + sum(sign for sign, _ in signed))),  # the report may be older than the ownership
    )
