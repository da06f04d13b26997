"""How many errors clients get a minute, from what brokers answer to Prometheus."""

import pytest

from pulsar_barycenter.balancer.client_errors import ClientErrors
from pulsar_barycenter.balancer.judging.error_counts import ErrorReading, errors_in, per_minute
from pulsar_barycenter.cli.asking.client import asking_client

PULSAR_4 = b"""# TYPE pulsar_broker_lookup_failures counter
pulsar_broker_lookup_failures_total{cluster="c1"} 3.0
pulsar_broker_lookup_failures_created{cluster="c1"} 1.795787324095E9
topic_load_failed_total{cluster="c1"} 2.0
topic_load_failed_created{cluster="c1"} 1.7E9
pulsar_topic_load_failed_count{cluster="c1", broker="b", metric="pulsar_topic_load_times"} 2.0
"""
PULSAR_5 = b"""topic_load_failed_total{cluster="c1",reason="timeout"} 1.0
topic_load_failed_total{cluster="c1",reason="others"} 4.0
pulsar_broker_lookup_failures_total{cluster="c1"} 1e+01
"""


@pytest.mark.parametrize(
    ("metrics", "errors"),
    [
        (PULSAR_4, 5.0),
        (PULSAR_5, 15.0),
        (b"pulsar_broker_lookup_failures_total 7\n", 7.0),
        (b'topic_load_failed_total{cluster="c1"} 2.0\n', None),
        (b"pulsar_broker_lookup_failures_total NaN\n", None),
        (b"pulsar_broker_lookup_failures_total many\n", None),
        (b"pulsar_broker_lookup_failures_total -1\n", None),
        (b"# pulsar_broker_lookup_failures_total 7\n", None),
        (b"", None),
    ],
)
def test_look_ups_that_failed_and_topics_that_were_not_loaded_are_errors(metrics: bytes, errors: float | None) -> None:
    assert errors_in(metrics) == errors


def test_errors_a_minute_are_those_of_brokers_that_did_not_start_again() -> None:
    before = ErrorReading(0, {"a": 10.0, "b": 500.0, "gone": 1.0})
    after = ErrorReading(30_000, {"a": 13.0, "b": 2.0, "new": 900.0})
    assert per_minute(before, after) == 6.0
    assert per_minute(None, after) is None
    assert per_minute(before, ErrorReading(30_000, {"new": 900.0})) is None
    assert per_minute(before, ErrorReading(30_000, {"b": 2.0})) is None


async def test_a_cluster_whose_brokers_tell_no_errors_says_why() -> None:
    now_ms = [1_000]
    errors = ClientErrors(asking_client, lambda: now_ms[0])
    try:
        await errors.read({"b": "http://127.0.0.1:1"})
        assert errors.is_begun
        assert errors.per_minute is None
        assert "127.0.0.1:1" in errors.why_unknown
        now_ms[0] += 999
        await errors.read({})
        assert "127.0.0.1:1" in errors.why_unknown, "it is too soon for another reading"
        now_ms[0] += 1
        await errors.read({})
        assert errors.why_unknown == "no broker is known"
    finally:
        await errors.close()
