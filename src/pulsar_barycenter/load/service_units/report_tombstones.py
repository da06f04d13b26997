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
    """What an ownership record means for the load reports that a broker has published about itself in the topic of load
    reports.
    """

    NONE = "they stay valid"
    FORGET = "the averages restart with the next measurement"
    TAKE_BACK = "the averages restart, and a tombstone replaces the published reports"


def effect_on_reports(
    record: ServiceUnitStateData | None, me: str, *, last_tombstone_ms: int, now_ms: int
) -> ReportEffect:
    """Return what the broker `me` must do with the load reports that it has published, because of a bundle's ownership
    record. Call it when the broker has done what the record asks of it. `record` None: the bundle has no record.

    `last_tombstone_ms` is when this broker last replaced its reports in the topic by a tombstone (epoch ms); 0: never.
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
