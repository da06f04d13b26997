"""The log from which an outside checker proves that no two terms of a bundle acknowledged at one instant.

Each term leaves `serving_started` and `serving_ended`, each one JSON object of the broker's log with the fields

| field | in | meaning |
|---|---|---|
| `broker`, `incarnation` | both | who served |
| `bundle` | both | `tenant/namespace/0x…_0x…` |
| `epoch` | both | the term; of two terms of overlapping bundles the later has the higher epoch |
| `acquired_at_ms` | both | wall clock when the term became active |
| `ended_at_ms` | ended | wall clock when the term was over |
| `first_acknowledged_ms`, `last_acknowledged_ms` | ended | of the first and last receipts, null if there was none |
| `entries` | ended | how many entries were acknowledged in the term |
| `reason` | both | why it began or ended |

A process that is killed leaves no `serving_ended`; its last receipts are then known from its clients alone.
"""

import structlog

from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.metadata.clock import Clock

log = structlog.get_logger(__name__)


class ServingLog:
    """Writes the two events; `started` and `ended` are called once for each term, in this order."""

    def __init__(self, clock: Clock, incarnation: str) -> None:
        self._clock = clock
        self._incarnation = incarnation
        self.broker_id = ""

    def started(self, term: OwnedBundle, reason: str) -> None:
        log.info(
            "serving_started",
            broker=self.broker_id,
            incarnation=self._incarnation,
            bundle=str(term.bundle),
            epoch=term.epoch,
            acquired_at_ms=term.acquired_at_ms,
            reason=reason,
        )

    def ended(self, term: OwnedBundle, reason: str) -> None:
        log.info(
            "serving_ended",
            broker=self.broker_id,
            incarnation=self._incarnation,
            bundle=str(term.bundle),
            epoch=term.epoch,
            acquired_at_ms=term.acquired_at_ms,
            ended_at_ms=self._clock.now_ms(),
            first_acknowledged_ms=term.first_acknowledged_at_ms,
            last_acknowledged_ms=term.last_acknowledged_at_ms,
            entries=term.acknowledged_entries,
            reason=reason,
        )
