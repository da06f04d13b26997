"""When a broker withdraws its load reports, because bundles came or left.

A report has the load of the bundles that the broker had at that time. After a bundle came, or while one leaves or is
split, the leader must not use it. So the broker drops its averages, and replaces its records in the broker-load topic
and the top-bundles topic by tombstones. Until its next report its load is unknown.

The caller remembers, for each of the two topics, the time of its last tombstone, and passes it here. A tombstone that
could not be published does not count.

Source: Pulsar's `BrokerLoadDataReporter` and `TopBundleLoadDataReporter` (`handleEvent`, `tombstone`), which are called
for a record after the broker has done what the record asks of it, and not if that failed.
"""

import enum
from typing import Final

from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData

TOMBSTONE_INTERVAL_MS: Final = 10_000
"""The shortest time between two tombstones to the same topic."""


class ReportEffect(enum.Enum):
    """The effect of an ownership record on the load reports that a broker has written about itself to the topic."""

    NONE = "they stay valid"
    FORGET = "the averages restart with the next measurement"
    TAKE_BACK = "the averages restart, and a tombstone replaces the published reports"


def effect_on_reports(
    record: ServiceUnitStateData | None, me: str, *, last_tombstone_ms: int, now_ms: int
) -> ReportEffect:
    """Return the effect that an accepted ownership record has on the load reports of the broker `me`, once the broker
    has done what the record asks of it.

    `last_tombstone_ms` is the time of this broker's last tombstone in the topic (epoch ms), 0 for never.
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
