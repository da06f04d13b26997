"""What the picture of a cluster says at its top: what is wrong, and which brokers are drained, by whom."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.rest.dashboard.overview import (
    BrokerShare,
    Drain,
    PipelineHealth,
    complaints_of,
    drains_of,
)
from pulsar_barycenter.config.sources import NotedChange

NOW_MS = 1_800_000_000_000
SILENT_MS = 16 * 60_000


def share(broker: str, reported_at: int) -> BrokerShare:
    return BrokerShare(
        broker=broker, usage={}, bundles=0, topics=0, msg_rate=0.0, msg_throughput=0.0, reported_at=reported_at
    )


def test_a_healthy_cluster_has_no_complaints() -> None:
    shares = [share("b1:1", NOW_MS), share("b2:1", NOW_MS - SILENT_MS)]
    assert complaints_of(shares, None, NOW_MS, SILENT_MS) == ()
    assert complaints_of(shares, PipelineHealth(in_use=True, lag_s=3), NOW_MS, SILENT_MS) == ()


def test_silent_brokers_and_a_late_pipeline_are_named_with_their_figures() -> None:
    shares = [share("b1:1", 0), share("b2:1", NOW_MS - 20 * 60_000), share("b3:1", NOW_MS)]
    assert complaints_of(shares, PipelineHealth(in_use=False, lag_s=95), NOW_MS, SILENT_MS) == (
        "b1:1 has not reported its load yet.",
        "b2:1 last reported its load 20 min ago; a report is due every 16 min.",
        "The pipeline is 95 s late, so the leader decides by windows of its own.",
    )


def test_a_drained_broker_has_who_drained_it_unless_it_was_before() -> None:
    change = NotedChange(by="alice", at=7, value="b1:1,b2:1", before="b1:1", why="new disk")
    assert drains_of(("b1:1", "b2:1"), change) == (
        Drain(broker="b1:1"),
        Drain(broker="b2:1", by="alice", since=7, why="new disk"),
    )
    assert drains_of(("b1:1",), None) == (Drain(broker="b1:1"),)
    assert drains_of((), change) == ()


names = st.lists(st.sampled_from([f"b{n}:1" for n in range(5)]), unique=True)


@given(names, names)
def test_every_drained_broker_is_there_once_in_its_order(drained: list[str], before: list[str]) -> None:
    change = NotedChange(by="root", at=1, value=",".join(drained), before=", ".join(before))
    found = drains_of(drained, change)
    assert [each.broker for each in found] == drained
    assert all((each.by == "") is (each.broker in before) for each in found)
