"""When a load report counts as arrived."""

import pytest

from pulsar_barycenter.operations.rolling.reports import Arrival, SeenReport, Where, arrival, settle_s

OLD = SeenReport(Where.LEADER, 1_000, frozenset({"x"}), lists_bundles=True)
XY = frozenset({"x", "y"})


def arrived(seen: SeenReport, *, before: SeenReport = OLD, waited_s: float = 0.0, must_be_new: bool = False) -> Arrival:
    return arrival(seen, before, frozenset({"y"}), waited_s, 60.0, must_be_new=must_be_new)


@pytest.mark.parametrize(
    ("seen", "waited_s", "must_be_new", "is_arrived", "words"),
    [
        (SeenReport(Where.LEADER, 2_000, XY, lists_bundles=True), 0, True, True, "at the leader"),
        (SeenReport(Where.LEADER, 500, XY, lists_bundles=True), 0, True, True, "at the leader"),  # a clock set back
        (SeenReport(Where.LEADER, 2_000, frozenset({"x"}), lists_bundles=True), 999, False, False, "does not have y"),
        (SeenReport(Where.LEADER, 1_000, XY, lists_bundles=True), 59, False, False, "no new report yet"),
        (SeenReport(Where.LEADER, 1_000, XY, lists_bundles=True), 60, False, True, "below the thresholds"),
        (SeenReport(Where.LEADER, 1_000, XY, lists_bundles=True), 999, True, False, "no new report yet"),
        (SeenReport(Where.LEADER, 0, XY, lists_bundles=True), 999, False, False, "no report yet"),
        (SeenReport(Where.PUBLISHED, 2_000), 0, False, True, "published"),
        (SeenReport(Where.UNSEEN), 59, True, False, "not visible"),
        (SeenReport(Where.UNSEEN), 60, True, True, "not visible"),
    ],
)
def test_a_report_arrives_when_it_is_new_and_lists_what_was_received(
    seen: SeenReport, waited_s: float, must_be_new: bool, is_arrived: bool, words: str
) -> None:
    found = arrived(seen, waited_s=waited_s, must_be_new=must_be_new)
    assert (found.is_arrived, words in found.sentence) == (is_arrived, True)


@pytest.mark.parametrize(
    ("settings", "time_s"),
    [
        ({}, 75.0),
        ({"loadBalancerReportUpdateMinIntervalMillis": "500", "statsUpdateFrequencyInSecs": "1"}, 2.5),
        ({"statsUpdateFrequencyInSecs": "100000"}, 900.0),
        ({"statsUpdateFrequencyInSecs": "often"}, 75.0),
    ],
)
def test_a_broker_publishes_its_changes_within_three_intervals_and_one_measurement(
    settings: dict[str, str], time_s: float
) -> None:
    assert settle_s(settings) == time_s
