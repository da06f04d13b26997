"""How many errors clients got, from counters of the brokers' metrics: a pure count, in errors a minute.

Counted are look-ups that a broker answered with an error, and topics that a broker could not load: after a bundle has
moved, its clients look their topics up again, and the new owner loads them. Apache Pulsar 4 and 5 have both counters,
Barycenter has the look-ups.

Source: Pulsar's `NamespaceService` (`pulsar_broker_lookup_failures`) and `BrokerService` or
`BrokerOperabilityMetrics` (`topic_load_failed`).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.balancer.options import MINUTE_MS

LOOKUPS: Final = "pulsar_broker_lookup_failures_total"
TOPIC_LOADS: Final = "topic_load_failed_total"
_SAMPLE: Final = re.compile(
    rb"^(pulsar_broker_lookup_failures_total|topic_load_failed_total)(?:\{[^\n]*\})?[ \t]+([^ \t\r\n]+)", re.MULTILINE
)
SHORTEST_MS: Final = 1_000
"""Counters of two readings that are closer together say nothing about a minute."""


def errors_in(metrics: bytes) -> float | None:
    """Return the number of errors that clients got since the start of a broker: look-ups that failed, and topics that
    could not be loaded. `metrics` are the broker's metrics in Prometheus's text format. None if they have no counter of
    look-ups that failed, or the value of a counter is not a number from 0 on.
    """
    values: dict[bytes, float] = {}
    for name, text in _SAMPLE.findall(metrics):
        try:
            value = float(text)
        except ValueError:
            return None
        if not (math.isfinite(value) and value >= 0):
            return None
        values[name] = values.get(name, 0.0) + value
    return sum(values.values()) if LOOKUPS.encode() in values else None


@dataclass(frozen=True, slots=True)
class ErrorReading:
    """A reading of brokers' metrics at `at_ms` (epoch ms): `counts` maps each broker whose metrics have the counters to
    the number of errors that clients got since the start of the broker.
    """

    at_ms: int
    counts: Mapping[str, float]


def is_too_soon(before: ErrorReading | None, now_ms: int) -> bool:
    """Return whether a reading at `now_ms` (epoch ms) would be less than SHORTEST_MS after the reading `before`; False
    if there is none before.
    """
    return before is not None and now_ms - before.at_ms < SHORTEST_MS


def per_minute(before: ErrorReading | None, after: ErrorReading) -> float | None:
    """Return the errors a minute between two readings; None if no broker is in both. A broker whose counter fell has
    started again, and does not count.
    """
    if before is None or after.at_ms <= before.at_ms:
        return None
    grown = [count - before.counts[broker] for broker, count in after.counts.items() if broker in before.counts]
    grown = [count for count in grown if count >= 0]
    return sum(grown) * MINUTE_MS / (after.at_ms - before.at_ms) if grown else None
