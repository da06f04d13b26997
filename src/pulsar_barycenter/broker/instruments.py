"""What a broker counts and times while it works, for Prometheus: one set a broker, so that several live in one process.

Whoever does the work counts it here; `rest` reads it when Prometheus asks, and adds which cluster and broker it is of.
What comes with every message is not here: topics count that themselves, in plain integers.
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
    """Clients' connections to the binary protocol since the broker started; they only grow.

    Each is `created`; then it is `accepted` (its CONNECT was answered) or `refused`, or leaves without a word; and
    `closed` in the end.
    """

    __slots__ = ("accepted", "closed", "created", "refused")

    def __init__(self) -> None:
        self.created = 0
        self.accepted = 0
        self.refused = 0
        self.closed = 0


class Instruments:
    """The labels here are those that tell the samples of one broker apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = Connections()
        self.loading_topics = 0
        """Topics that are being loaded."""
        self._decisions = Counter(
            "barycenter_decisions",
            "Decisions of the load manager, those included that nobody was told of as they were the same as before.",
            ("kind", "reason"),
            registry=self.registry,
        )
        self._rounds = Histogram(
            "barycenter_round_seconds",
            "Time a round of the load manager took, from what is known until all of it is done.",
            ("kind",),
            buckets=_ROUND_BUCKETS_S,
            registry=self.registry,
        )
        self._handovers = Histogram(
            "barycenter_handover_seconds",
            "Time until a phase of handing a bundle over was done.",
            ("phase",),
            buckets=_HANDOVER_BUCKETS_S,
            registry=self.registry,
        )
        self._store = Histogram(
            "barycenter_metadata_op_seconds",
            "Time an operation of the metadata store took, one that failed included.",
            ("op",),
            buckets=_STORE_BUCKETS_S,
            registry=self.registry,
        )
        self._topic_loads = Summary(
            "pulsar_topic_load_times",
            "Time it took to load a topic, ms, those that failed included.",
            registry=self.registry,
        )

    def decided(self, kind: str, reason: str) -> None:
        """Count a decision; `kind` as in `cluster_logs.decision_log`, `reason` the code of its reason."""
        self._decisions.labels(kind, reason).inc()

    @contextmanager
    def round(self, kind: RoundKind) -> Iterator[None]:
        """Time what is done inside."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            self._rounds.labels(kind).observe(loop.time() - began)

    def handed_over(self, phase: HandoverPhase, seconds: float) -> None:
        """Note how long it took until that phase was done; see `ownership.handover_times`."""
        self._handovers.labels(phase).observe(seconds)

    def store_operation(self, name: str, seconds: float) -> None:
        """Note how long an operation of the metadata store took."""
        self._store.labels(name).observe(seconds)

    @contextmanager
    def loading_topic(self) -> Iterator[None]:
        """Time the load of a topic."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.loading_topics += 1
        try:
            yield
        finally:
            self.loading_topics -= 1
            self._topic_loads.observe((loop.time() - began) * 1000)
