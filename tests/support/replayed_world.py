"""Brokers whose bundles are moved at random, reported as by live ones and as by a replay."""

import random
from pathlib import Path

import numpy as np

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    SystemResourceUsage,
    with_stats,
)
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot
from pulsar_barycenter.replay.bundles import Bundles, summed
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel, limits
from pulsar_barycenter.replay.reports import Measured, Reports
from pulsar_barycenter.replay.synthetic.demand import START_MS, Shape, broker_names, generated
from support.table_cases import write_tables

SHAPE = Shape(brokers=4, bundles=24, namespaces=3, steps=40, rate=400_000, noise=0.15)
BROKERS = broker_names(SHAPE.brokers)
MODEL = CapacityModel()
CONFIG = BrokerConfig()


class World:
    """The state at a step, and both ways to report it."""

    def __init__(self, seed: int, kind: ManagerKind) -> None:
        self.kind, self.rng = kind, random.Random(seed)
        self.demand = generated(SHAPE, seed)
        self.bundles = Bundles(self.demand)
        self.bundles.owner[:] = [BROKERS.index(owner) for owner in self.demand.owners]
        self.reports = Reports(BROKERS, self.bundles)
        self.now_ms = START_MS
        self.recently: dict[str, int] = {}

    def step(self, number: int) -> None:
        self.now_ms = START_MS + number * SHAPE.step_ms
        self.bundles.advance(number)

    def figures(self) -> Floats:
        return np.array([summed(self.bundles.owner, each, len(BROKERS)) for each in self.bundles.figures])

    def measured(self) -> Measured:
        sessions = summed(self.bundles.owner, self.bundles.sessions, len(BROKERS))
        limit = limits([Capacity()] * len(BROKERS))
        wanted = MODEL.wanted(self.figures(), sessions, np.ones(len(BROKERS)))
        topics = summed(self.bundles.owner, self.bundles.topics, len(BROKERS)).astype(np.int64)
        counts = np.bincount(self.bundles.owner, minlength=len(BROKERS))
        return Measured(np.minimum(wanted, limit), limit, self.figures(), topics, counts)

    def told(self) -> tuple[Flags, LoadSnapshot]:
        live = np.ones(len(BROKERS), bool)
        due = self.reports.measure(self.measured(), self.bundles, live, CONFIG, self.now_ms, self.kind)
        return due, self.reports.snapshot(self.bundles, live, CONFIG, self.now_ms, self.kind)

    def stats(self, broker: int) -> dict[str, NamespaceBundleStats]:
        found = {}
        for row in np.flatnonzero(self.bundles.owner == broker).tolist():
            rate_in, rate_out, bytes_in, bytes_out = self.bundles.figures[:, row].tolist()
            found[self.bundles.names[row]] = NamespaceBundleStats(
                msg_rate_in=rate_in,
                msg_rate_out=rate_out,
                msg_throughput_in=bytes_in,
                msg_throughput_out=bytes_out,
                producer_count=int(self.bundles.sessions[row]),
                topics=int(self.bundles.topics[row]),
            )
        return found

    def usage(self, broker: int) -> SystemResourceUsage:
        measured = self.measured()
        rows = zip(measured.usage[:, broker].tolist(), measured.limit[:, broker].tolist(), strict=True)
        cpu, memory, direct, into, out = (ResourceUsage(used, limit) for used, limit in rows)
        return SystemResourceUsage(cpu=cpu, memory=memory, direct_memory=direct, bandwidth_in=into, bandwidth_out=out)

    def report(self, broker: int, sequence: int) -> LocalBrokerData:
        """Return what a broker of the modular load manager would write now."""
        usage = self.usage(broker)
        return with_stats(
            LocalBrokerData(
                broker_id=BROKERS[broker],
                cpu=usage.cpu,
                memory=usage.memory,
                direct_memory=usage.direct_memory,
                bandwidth_in=usage.bandwidth_in,
                bandwidth_out=usage.bandwidth_out,
                last_update=self.now_ms,
                sequence=sequence,
                load_manager_class_name=ManagerKind.MODULAR.class_name,
            ),
            self.stats(broker),
        )

    def move_some(self) -> None:
        for row in self.rng.sample(range(len(self.bundles)), self.rng.choice((0, 0, 1, 3))):
            source, to = int(self.bundles.owner[row]), self.rng.randrange(len(BROKERS))
            if source != to:
                self.reports.moved(source, to)
                self.bundles.owner[row] = to
                self.reports.unloaded_at_ms[row] = self.now_ms
                self.recently[self.bundles.names[row]] = self.now_ms


def recorded(path: Path) -> Path:
    """Make a data folder of such brokers, and return it."""
    world = World(3, ManagerKind.MODULAR)
    batches = []
    for step in range(SHAPE.steps):
        world.step(step)
        batches.append([(broker, world.report(row, step + 1)) for row, broker in enumerate(BROKERS)])
    path.mkdir()
    write_tables(path / "tables", batches)
    return path
