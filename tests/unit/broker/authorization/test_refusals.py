"""Refusals in the log: each with its reason, and a flood of them as a number."""

from structlog.testing import capture_logs

from barycenter.broker.access.principal import Principal
from barycenter.broker.authorization.needs import SuperUser
from barycenter.broker.authorization.refusals import LONGEST, MOST_A_SECOND, Refusals


def test_a_flood_is_counted_and_told_with_the_next_second() -> None:
    refusals = Refusals()
    with capture_logs() as logs:
        for number in range(MOST_A_SECOND + 5):
            refusals.add(7_000 + number, Principal("eve"), SuperUser(), address="a", request="GET /", reason="no")
        refusals.add(8_000, Principal("eve"), SuperUser(), address="a", request="GET /", reason="x" * 9_999)
        refusals.add(8_001, Principal("eve"), SuperUser(), address="a", request="GET /", reason="no")
    assert refusals.total == MOST_A_SECOND + 7
    assert len(logs) == MOST_A_SECOND + 2
    assert [line.get("untold_before") for line in logs[-3:]] == [None, 5, None]
    assert len(logs[-2]["reason"]) == LONGEST
    assert logs[0] == {
        "event": "access_refused",
        "log_level": "warning",
        "role": "eve",
        "needed": "do what super users do",
        "request": "GET /",
        "address": "a",
        "reason": "no",
    }
