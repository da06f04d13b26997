"""Events that clients cause: a flood of them is a number in the log, and a long text is truncated."""

from structlog.testing import capture_logs

from pulsar_barycenter.broker.bounded_log import LONGEST, MOST_A_SECOND, BoundedLog


def test_a_flood_is_counted_and_told_with_the_next_second() -> None:
    now = [7.0]
    bounded = BoundedLog("knocked", lambda: now[0], "info")
    with capture_logs() as logs:
        for number in range(MOST_A_SECOND + 5):
            now[0] = 7 + number / 1_000
            bounded.log(reason="no")
        now[0] = 8.0
        bounded.log(reason="x" * 9_999)
        bounded.log(reason="no")
    assert bounded.total == MOST_A_SECOND + 7
    assert len(logs) == MOST_A_SECOND + 2
    assert [line.get("untold_before") for line in logs[-3:]] == [None, 5, None]
    assert len(logs[-2]["reason"]) == LONGEST
    assert logs[0] == {"event": "knocked", "log_level": "info", "reason": "no"}


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    now = [7.0]
    bounded = BoundedLog("knocked", lambda: now[0])
    with capture_logs() as logs:
        for _ in range(MOST_A_SECOND + 1):
            bounded.log()
        now[0] = 3.0
        bounded.log()
    assert [line.get("untold_before") for line in logs[-2:]] == [None, 1]
