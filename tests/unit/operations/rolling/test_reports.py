"""When a load report counts as arrived."""

import pytest

from pulsar_barycenter.operations.rolling.reports import (
    SeenReport,
    Where,
    receivers_arrival,
    restarted_arrival,
    settle_s,
)

OLD = SeenReport(Where.LEADER, 1_000, "old")
XY, X = frozenset({"x", "y"}), frozenset({"x"})


@pytest.mark.parametrize(
    ("seen", "waited_s", "is_arrived", "words"),
    [
        (SeenReport(Where.LEADER, 2_000, "", XY, lists_bundles=True), 0, True, "at the leader"),
        (SeenReport(Where.LEADER, 500, "", XY, lists_bundles=True), 0, True, "at the leader"),  # a clock set back
        (SeenReport(Where.LEADER, 2_000, "", X, lists_bundles=True), 999, False, "does not have y"),
        (SeenReport(Where.LEADER, 1_000, "", XY, lists_bundles=True), 59, False, "no new report yet"),
        (SeenReport(Where.LEADER, 1_000, "", XY, lists_bundles=True), 60, True, "below the thresholds"),
        (SeenReport(Where.LEADER, 0, "", XY, lists_bundles=True), 999, False, "no report yet"),
        (SeenReport(Where.PUBLISHED, 2_000), 0, True, "published"),
        (SeenReport(Where.UNSEEN), 59, False, "not visible"),
        (SeenReport(Where.UNSEEN), 60, True, "not visible"),
    ],
)
def test_the_report_of_a_receiver_arrives_when_it_is_new_and_lists_what_was_received(
    seen: SeenReport, waited_s: float, is_arrived: bool, words: str
) -> None:
    found = receivers_arrival(seen, OLD, frozenset({"y"}), waited_s, 60.0)
    assert (found.is_arrived, words in found.sentence) == (is_arrived, True)


@pytest.mark.parametrize(
    ("seen", "waited_s", "is_arrived"),
    [
        (SeenReport(Where.LEADER, 1_500, "new"), 0, True),
        (SeenReport(Where.LEADER, 1_500, "old"), 999, False),
        (SeenReport(Where.LEADER, 0, "new"), 999, False),
        (SeenReport(Where.PUBLISHED, 1_000), 999, False),  # that of before the restart
        (SeenReport(Where.PUBLISHED, 1_500), 59, False),  # perhaps the last one of the old process
        (SeenReport(Where.PUBLISHED, 1_500), 60, True),
        (SeenReport(Where.PUBLISHED, 1_600), 0, True),
        (SeenReport(Where.PUBLISHED, 900), 0, True),  # a clock set back
        (SeenReport(Where.UNSEEN), 59, False),
        (SeenReport(Where.UNSEEN), 60, True),
    ],
)
def test_the_report_of_a_restarted_broker_must_be_of_its_new_process(
    seen: SeenReport, waited_s: float, is_arrived: bool
) -> None:
    when_back = SeenReport(Where.PUBLISHED, 1_500)
    assert restarted_arrival(seen, "new", 1_000, when_back, waited_s, 60.0).is_arrived is is_arrived


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
