"""When a broker takes back what it reported of itself, since bundles came or went.

A report tells of the load with the bundles that the broker had. After one came, or while one goes or is split, the
leader is not to decide upon it: the broker forgets its averages, and puts a tombstone in place of its record in the
broker-load topic and in the top-bundles topic. Until its next report it is a broker of unknown load.

Whoever publishes keeps, for each of the two topics, when its last tombstone was sent, and hands it back here. One that
could not be published does not count: the time before it is kept.

Source: Pulsar's `BrokerLoadDataReporter` and `TopBundleLoadDataReporter` (`handleEvent`, `tombstone`), which hear of a
record when the broker has done its duty about it, and not if that failed.
"""

import enum
from typing import Final

from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData

TOMBSTONE_INTERVAL_MS: Final = 10_000
"""So long after a tombstone no other one is sent to the same topic."""


class ReportEffect(enum.Enum):
    """What becomes of a broker's own reports."""

    NONE = "they hold"
    FORGET = "the averages start afresh with the next measurement"
    TAKE_BACK = "so they do, and a tombstone replaces what was published"


def effect_on_reports(
    record: ServiceUnitStateData | None, me: str, *, last_tombstone_ms: int, now_ms: int
) -> ReportEffect:
    """Return what an accepted record of a bundle does to the reports of the broker `me`, once its duty is done.

    `last_tombstone_ms` is when the topic had its last tombstone of this broker, 0 for never; epoch ms.
    """
    if record is None:
        return ReportEffect.NONE
    match record.state:
        case ServiceUnitState.OWNED:
            concerned = record.dst_broker
        case ServiceUnitState.RELEASING | ServiceUnitState.SPLITTING:
            concerned = record.source_broker
        case _:
            concerned = None
    if concerned != me:
        return ReportEffect.NONE
    return ReportEffect.FORGET if now_ms - last_tombstone_ms < TOMBSTONE_INTERVAL_MS else ReportEffect.TAKE_BACK
