"""The log with which an external checker proves that no two terms of a bundle acknowledged at the same time.

Each term logs `serving_started` and `serving_ended`, each a JSON object in the broker's log with the fields

| field | in | meaning |
|---|---|---|
| `broker`, `incarnation` | both | the process that served |
| `bundle` | both | `tenant/namespace/0x…_0x…` |
| `epoch` | both | the term; of two terms of overlapping bundles the later has the higher epoch |
| `acquired_at_ms` | both | wall clock when the term became active |
| `ended_at_ms` | ended | wall clock when the term ended |
| `first_acknowledged_ms`, `last_acknowledged_ms` | ended | of the first and last receipts, null without receipts |
| `entries` | ended | the number of entries acknowledged in the term |
| `reason` | both | why it began or ended |

A process that is killed logs no `serving_ended`; then only its clients know its last receipts.
"""

import structlog

from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.metadata.clock import Clock

log = structlog.get_logger(__name__)


class ServingLog:
    """Writes one log line when a term begins (`started`) and one when it ends (`ended`), in this order."""

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
