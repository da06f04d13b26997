"""Refusals in the log: each with its reason, and a flood of them as a number."""

from structlog.testing import capture_logs

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.needs import SuperUser
from pulsar_barycenter.broker.authorization.refusals import Refusals
from pulsar_barycenter.broker.bounded_log import MOST_A_SECOND


def test_a_refusal_is_told_with_what_was_needed_and_a_flood_is_counted() -> None:
    refusals = Refusals(lambda: 7.0)
    with capture_logs() as logs:
        for _ in range(MOST_A_SECOND + 5):
            refusals.add(Principal("eve"), SuperUser(), address="a", request="GET /", reason="no")
    assert (refusals.total, len(logs)) == (MOST_A_SECOND + 5, MOST_A_SECOND)
    assert logs[0] == {
        "event": "access_refused",
        "log_level": "warning",
        "role": "eve",
        "needed": "do what super users do",
        "request": "GET /",
        "address": "a",
        "reason": "no",
    }
