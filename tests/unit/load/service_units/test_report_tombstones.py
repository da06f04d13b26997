"""When a broker withdraws its published load."""

import pytest

from pulsar_barycenter.load.service_units.report_tombstones import (
    TOMBSTONE_INTERVAL_MS,
    ReportEffect,
    effect_on_reports,
)
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData

S = ServiceUnitState
NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("state", "destination", "source", "effect"),
    [
        (S.OWNED, "me", "a", ReportEffect.TAKE_BACK),
        (S.OWNED, "a", "me", ReportEffect.NONE),
        (S.RELEASING, "a", "me", ReportEffect.TAKE_BACK),
        (S.RELEASING, None, "me", ReportEffect.TAKE_BACK),
        (S.RELEASING, "me", "a", ReportEffect.NONE),
        (S.SPLITTING, None, "me", ReportEffect.TAKE_BACK),
        (S.SPLITTING, "me", "a", ReportEffect.NONE),
        (S.ASSIGNING, "me", "me", ReportEffect.NONE),
        (S.FREE, "me", "me", ReportEffect.NONE),
        (S.DELETED, "me", "me", ReportEffect.NONE),
        (S.INIT, "me", "me", ReportEffect.NONE),
    ],
)
def test_who_gained_gave_or_split_a_bundle_takes_its_reports_back(
    state: ServiceUnitState, destination: str | None, source: str | None, effect: ReportEffect
) -> None:
    record = ServiceUnitStateData(state, dst_broker=destination, source_broker=source)
    assert effect_on_reports(record, "me", last_tombstone_ms=0, now_ms=NOW) is effect


def test_a_tombstone_of_a_bundle_takes_nothing_back() -> None:
    assert effect_on_reports(None, "me", last_tombstone_ms=0, now_ms=NOW) is ReportEffect.NONE


def test_averages_are_forgotten_each_time_but_tombstones_are_rare() -> None:
    record = ServiceUnitStateData(S.OWNED, dst_broker="me")

    def effect(ago_ms: int) -> ReportEffect:
        return effect_on_reports(record, "me", last_tombstone_ms=NOW - ago_ms, now_ms=NOW)

    assert effect(TOMBSTONE_INTERVAL_MS) is ReportEffect.TAKE_BACK
    assert effect(TOMBSTONE_INTERVAL_MS - 1) is ReportEffect.FORGET
    assert effect(-1) is ReportEffect.FORGET
