"""What brokers carry before moves of bundles and after them, as far as load goes with a bundle.

Load is in + out, as the newest reports have it (docs/measures.md). The usage after a move is an estimate: what a broker
pays for a message and a byte is taken from its newest report (`load.shedding.least_disturbance.best_usage`).

Pure. Needs numpy; a broker imports it when it is first asked.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_report import exact_sum
from pulsar_barycenter.load.shedding.least_disturbance.best_usage import usage_after
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import NOBODY
from pulsar_barycenter.load.shedding.least_disturbance.settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import reported_usage
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.snapshot.reported import users_bundles


class Sides(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A broker's figures before and after moves: usage in percent of the broker, msg/s, bytes/s, number of bundles, the
    broker's own left out."""

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
    """Return the figures of the brokers that moves touch, or of `every` one, before and after all of them.

    `counts` says how many bundles each broker has (`bundle_counts`).

    A move is a bundle, the broker that it leaves, "" if nobody owns it, and the one that it goes to. A bundle of which
    nothing is reported counts as one without load.
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
    """Return how many bundles each broker has, without its own, which are its heartbeat's."""
    return Counter(broker for broker, _, _ in users_bundles(document))


def bundle_row(snapshot: LoadSnapshot, bundle: str) -> int | None:
    """Return a row of a bundle; None if no broker reports it."""
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
        bundles=(count, max(0, count + sum(sign for sign, _ in signed))),  # a report may be older than ownership
    )
