"""The counters and timers of a broker for Prometheus: one set for each broker, so that several can run in one process.

Each part of the broker counts its own work here; `rest` reads the values, and adds labels for cluster and broker.
Values that change with every message are not here: topics count these as plain integers.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

RoundKind = Literal["shed", "split", "quotas"]
HandoverPhase = Literal["close", "give_up", "served", "take"]

_ROUND_BUCKETS_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
_HANDOVER_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_STORE_BUCKETS_S: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)


class Connections:
    """Counts connections of clients to the binary protocol since the broker started.

    Every connection counts in `created`. After that it counts in `accepted` (its CONNECT was answered), or in
    `refused`, or in neither if the client disconnects before. At its end it counts in `closed`.
    """

    __slots__ = ("accepted", "closed", "created", "refused")

    def __init__(self) -> None:
        self.created = 0
        self.accepted = 0
        self.refused = 0
        self.closed = 0


class Instruments:
    """The Prometheus registry of a broker, with its metrics. No label names the broker or the cluster."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = Connections()
        self.loading_topics = 0
        """The number of topics that are being loaded."""
        self._decisions = Counter(
            "barycenter_decisions",
            "Decisions of the load manager, including those that were not logged because they repeat the last one.",
            ("kind", "reason"),
            registry=self.registry,
        )
        self._rounds = Histogram(
            "barycenter_round_seconds",
            "Time of a round of the load manager, from its snapshot until all decisions are carried out.",
            ("kind",),
            buckets=_ROUND_BUCKETS_S,
            registry=self.registry,
        )
        self._handovers = Histogram(
            "barycenter_handover_seconds",
            "Time until a phase of handing a bundle over had ended.",
            ("phase",),
            buckets=_HANDOVER_BUCKETS_S,
            registry=self.registry,
        )
        self._store = Histogram(
            "barycenter_metadata_op_seconds",
            "Time of an operation of the metadata store, including failed ones.",
            ("op",),
            buckets=_STORE_BUCKETS_S,
            registry=self.registry,
        )
        self._topic_loads = Summary(
            "pulsar_topic_load_times",
            "Time of loading a topic, ms, including failed loads.",
            registry=self.registry,
        )

    def decided(self, kind: str, reason: str) -> None:
        """Count one decision of a load manager. `kind` is one of the kinds in `cluster_logs.decision_log`, such as
        unload; `reason` is the code of the decision's reason.
        """
        self._decisions.labels(kind, reason).inc()

    @contextmanager
    def round(self, kind: RoundKind) -> Iterator[None]:
        """Context manager: measure the duration of the `with` statement, in which the leader runs its strategies once;
        `kind` says which of them.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            self._rounds.labels(kind).observe(loop.time() - began)

    def handed_over(self, phase: HandoverPhase, seconds: float) -> None:
        """Record how many seconds a phase of handing over a bundle took; see `ownership.handover_times`."""
        self._handovers.labels(phase).observe(seconds)

    def store_operation(self, name: str, seconds: float) -> None:
        """Record how many seconds an operation of the metadata store took."""
        self._store.labels(name).observe(seconds)

    @contextmanager
    def loading_topic(self) -> Iterator[None]:
        """Context manager: measure the duration of the `with` statement, in which a topic is loaded."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.loading_topics += 1
        try:
            yield
        finally:
            self.loading_topics -= 1
            self._topic_loads.observe((loop.time() - began) * 1000)
